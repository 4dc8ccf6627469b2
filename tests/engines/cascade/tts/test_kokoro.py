"""Kokoro in pieces: understood in both languages, whole however it is cut, cancelled at any piece."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import soxr
from realtime_venus.engines.base import EngineError, Int16Pcm, Language
from realtime_venus.engines.cascade.asr import WhisperRecogniser
from realtime_venus.engines.cascade.parts import Voiced
from realtime_venus.engines.cascade.tts.hibari import HibariVoice
from realtime_venus.engines.cascade.tts.kokoro import KokoroVoice, PieceSizes
from realtime_venus.engines.store import Store

from ....kit.speech import error_rate

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(sys.version_info >= (3, 13), reason="misaki has no release for Python 3.13"),
]

STYLES = ("zf_xiaoxiao", "zm_yunxi", "af_bella")


def build(models: Store, english: HibariVoice, pieces: PieceSizes | None = None, **changed: Path) -> KokoroVoice:
    return KokoroVoice(
        changed.get("text_graph") or models.path("kokoro-text.onnx"),
        changed.get("vocoder_graph") or models.path("kokoro-vocoder.onnx"),
        changed.get("vocab") or models.path("kokoro-vocab.json"),
        {name: models.path(f"kokoro-voices/{name}.bin") for name in STYLES},
        english.phonemes,
        cache=changed.get("cache"),
        pieces=pieces,
    )


@pytest.fixture(scope="module")
def english() -> HibariVoice:
    return HibariVoice()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="module")
def voice(models: Store, english: HibariVoice, cache: Path) -> KokoroVoice:
    voice = build(models, english, cache=cache)
    voice.warm()
    return voice


@pytest.fixture(scope="module")
def recogniser(models: Store) -> WhisperRecogniser:
    return WhisperRecogniser(models.path("whisper-base/model.bin").parent)


def joined(pieces: Iterator[Voiced]) -> Int16Pcm:
    return np.concatenate([piece.pcm for piece in pieces])


def heard(recogniser: WhisperRecogniser, audio: Int16Pcm, language: Language) -> str:
    transcript = recogniser.transcribe(soxr.resample(audio.astype(np.float32) / 32768, 24_000, 16_000), language)
    assert transcript is not None
    return transcript.text


def test_mandarin_is_understood(voice: KokoroVoice, recogniser: WhisperRecogniser) -> None:
    wrong = characters = 0.0
    for text in ("今天的天气非常不错，适合出门散步。", "我可以帮你查天气。", "法国的首都是巴黎。"):
        rate, size = error_rate(text, heard(recogniser, joined(voice.synthesize(text)), Language.ZH))
        wrong, characters = wrong + rate * size, characters + size

    assert wrong / characters < 0.15


def test_english_is_understood(voice: KokoroVoice, recogniser: WhisperRecogniser) -> None:
    text = "The capital of France is Paris."

    assert error_rate(text, heard(recogniser, joined(voice.synthesize(text, "af_bella")), Language.EN))[0] < 0.2


def test_english_words_inside_mandarin_are_audible(voice: KokoroVoice, recogniser: WhisperRecogniser) -> None:
    text = heard(recogniser, joined(voice.synthesize("请打开 Google Maps 看一下。")), Language.ZH)

    assert "google" in text.lower()


def test_pieces_come_one_by_one_and_the_first_starts_with_sound(voice: KokoroVoice) -> None:
    pieces = list(voice.synthesize("今天的天气非常不错，适合出门散步。"))

    assert len(pieces) > 2
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert all(piece.pcm.dtype == np.int16 and len(piece.pcm) for piece in pieces)
    assert len(pieces[0].pcm) < 0.6 * 24_000
    assert np.flatnonzero(np.abs(pieces[0].pcm) > 200)[0] < 0.04 * 24_000


def test_no_click_and_no_hole_where_pieces_join(voice: KokoroVoice) -> None:
    pieces = list(voice.synthesize("今天的天气非常不错，适合出门散步。"))
    audio = joined(iter(pieces)).astype(np.float32)
    steps = np.abs(np.diff(audio))
    joints = np.cumsum([len(piece.pcm) for piece in pieces])[:-1]

    assert all(steps[joint - 2 : joint + 2].max() < np.percentile(steps, 99.9) for joint in joints)


def test_closing_the_iterator_leaves_the_rest_unspoken(voice: KokoroVoice) -> None:
    pieces = cast("Generator[Voiced]", voice.synthesize("今天的天气非常不错，适合出门散步，也适合骑车。"))
    first = next(pieces)
    pieces.close()

    assert not first.last
    assert list(pieces) == []
    assert len(joined(voice.synthesize("好的。"))) > 5000


@pytest.mark.parametrize("text", ["", " ", "...", "😀", "（）"])
def test_nothing_to_say_is_one_empty_piece(voice: KokoroVoice, text: str) -> None:
    (piece,) = voice.synthesize(text)

    assert piece.last
    assert len(piece.pcm) == 0


def test_a_long_text_comes_sentence_by_sentence(voice: KokoroVoice) -> None:
    pieces = voice.synthesize("你好。" * 200)

    assert len(next(pieces).pcm) < 24_000


def test_voices_are_known_by_language(voice: KokoroVoice) -> None:
    assert voice.names[0] == "zf_xiaoxiao"
    assert voice.names_of(Language.EN) == ("af_bella",)
    assert set(voice.names_of(Language.ZH)) == {"zf_xiaoxiao", "zm_yunxi"}
    with pytest.raises(ValueError, match="Kokoro has zf_xiaoxiao"):
        voice.synthesize("你好。", "zf_nobody")


def test_any_pieces_give_the_same_speech(models: Store, english: HibariVoice, cache: Path) -> None:
    """The energy of the wave over time, in steps of 50 ms, hardly depends on how the clause was cut."""
    outlines: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    for frames in ((400,), (12, 9, 10, 11), (20,)):
        voice = build(models, english, cache=cache, pieces=PieceSizes(frames))
        audio = joined(voice.synthesize("我可以帮你查天气。")).astype(np.float64)
        outlines.append(np.sqrt(np.mean(audio[: 26 * 1200].reshape(-1, 1200) ** 2, axis=1)))

    for outline in outlines[1:]:
        assert np.corrcoef(outlines[0], outline)[0, 1] > 0.93


def test_what_was_measured_is_kept_and_mended(models: Store, english: HibariVoice, cache: Path) -> None:
    fresh = build(models, english, cache=cache)
    fresh.prepare("zf_xiaoxiao")
    kept = sorted(path.name for path in cache.iterdir() if "xiaoxiao" in path.name or "still" in path.name)
    before = joined(fresh.synthesize("好的。"))
    for path in cache.glob("kokoro-norms-*xiaoxiao*"):
        path.write_bytes(b"broken")
    again = build(models, english, cache=cache)

    assert len(kept) == 2
    np.testing.assert_array_equal(joined(again.synthesize("好的。")), before)
    assert all(path.stat().st_size > 1000 for path in cache.iterdir())


def test_damaged_files_are_named(models: Store, english: HibariVoice, tmp_path: Path) -> None:
    bad = tmp_path / "bad.bin"
    bad.write_bytes(b"12345")
    with pytest.raises(EngineError, match=r"bad\.bin"):
        build(models, english, vocab=bad)
    with pytest.raises(EngineError, match=r"bad\.bin is damaged"):
        build(models, english, vocoder_graph=bad)
    with pytest.raises(EngineError, match=r"gone\.onnx does not exist"):
        build(models, english, text_graph=tmp_path / "gone.onnx")
