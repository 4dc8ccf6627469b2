"""The recogniser with its real model, on recorded speech, noise and hostile input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from realtime_venus.engines.base import INPUT_HZ, EngineError, FloatPcm, Language
from realtime_venus.engines.cascade.asr import WhisperRecogniser
from realtime_venus.engines.store import Store

from ...kit.kits import sample, sample_ids, stem
from ...kit.speech import error_rate

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def recogniser(models: Store) -> WhisperRecogniser:
    return WhisperRecogniser(models.path("whisper-base/model.bin").parent)


def text_of(recogniser: WhisperRecogniser, audio: FloatPcm, language: Language | None = None) -> str:
    transcript = recogniser.transcribe(audio, language)
    assert transcript is not None
    return transcript.text


@pytest.mark.parametrize("language", list(Language))
def test_questions_are_understood(recogniser: WhisperRecogniser, language: Language) -> None:
    wrong = words = 0.0
    for name in [*sample_ids("turn_taking", language), *sample_ids("simultaneous_start", language)]:
        transcript = recogniser.transcribe(stem(name))
        assert transcript is not None
        reference = sample(name)["events"][0]["text"]
        rate, size = error_rate(reference, transcript.text)
        wrong, words = wrong + rate * size, words + size
        assert transcript.language is language
        assert 0 < transcript.confidence <= 1

    assert wrong / words < 0.12


def test_chinese_comes_in_simplified_script(recogniser: WhisperRecogniser) -> None:
    heard = "".join(text_of(recogniser, stem(name), Language.ZH) for name in sample_ids("user_interruption", "zh"))

    assert len(heard) > 20
    assert not re.search("[們這個說麼為時會對發電還學]", heard)


@pytest.mark.parametrize("seconds", [0, 0.001, 0.03, 1, 5])
def test_silence_is_no_text(recogniser: WhisperRecogniser, seconds: float) -> None:
    assert text_of(recogniser, np.zeros(int(seconds * INPUT_HZ), np.float32)) == ""


@pytest.mark.parametrize("level_db", [-70, -50, -30])
@pytest.mark.parametrize("seconds", [0.5, 3])
def test_hiss_is_no_text(recogniser: WhisperRecogniser, level_db: float, seconds: float) -> None:
    rng = np.random.default_rng(1)
    hiss = rng.normal(0, 10 ** (level_db / 20), int(seconds * INPUT_HZ)).astype(np.float32)

    assert text_of(recogniser, hiss) == ""


def test_music_and_clatter_are_no_text(recogniser: WhisperRecogniser) -> None:
    heard = {
        name: text_of(recogniser, stem(name, "noise"))
        for name in sample_ids("noise_event")
        if sample(name)["subclass"] in ("music", "keyboard", "dishes", "door", "fan")
    }

    assert heard
    assert not any(heard.values()), heard


def test_backchannels_survive(recogniser: WhisperRecogniser) -> None:
    names = [name for language in Language for name in sample_ids("user_backchannel", language)]
    empty = [name for name in names if not text_of(recogniser, stem(name, "overlap"))]

    assert len(names) == 18
    assert not empty


def test_a_language_asked_for_settles_what_is_unclear(recogniser: WhisperRecogniser) -> None:
    """Half a second of a Chinese hum is taken for English, unless Chinese is what is being spoken."""
    hum = stem("zh_user_backchannel_01", "overlap")
    transcript = recogniser.transcribe(hum, Language.ZH)

    assert transcript is not None
    assert re.fullmatch("[嗯唔啊哦呃，。 ]+|Hmm.*", transcript.text)


def test_clipped_speech_is_still_understood(recogniser: WhisperRecogniser) -> None:
    name = "en_turn_taking_01"
    clipped = np.clip(stem(name) * 30, -1, 1)

    assert error_rate(sample(name)["events"][0]["text"], text_of(recogniser, clipped))[0] < 0.35


def test_of_long_audio_the_newest_half_minute_counts(recogniser: WhisperRecogniser) -> None:
    name = "en_turn_taking_01"
    audio = np.concatenate([stem("zh_turn_taking_01"), np.zeros(30 * INPUT_HZ, np.float32), stem(name)])

    assert error_rate(sample(name)["events"][0]["text"], text_of(recogniser, audio))[0] < 0.35


def test_half_a_minute_of_talk(recogniser: WhisperRecogniser) -> None:
    names = sample_ids("user_interruption", "en")
    audio = np.concatenate([stem(name) for name in names])
    assert len(audio) > 30 * INPUT_HZ
    last = sample(names[-1])["events"][0]["text"]

    assert error_rate(last, text_of(recogniser, audio)[-len(last) - 1 :])[0] < 0.35


def test_samples_that_are_no_numbers(recogniser: WhisperRecogniser) -> None:
    audio = stem("en_turn_taking_01").copy()
    audio[1000:1010] = np.nan
    audio[2000] = np.inf

    assert len(text_of(recogniser, audio).split()) > 2
    assert text_of(recogniser, np.full(16_000, np.nan, np.float32)) == ""


def test_stale_work_is_dropped_before_decoding(recogniser: WhisperRecogniser) -> None:
    asked: list[int] = []

    def stale() -> bool:
        asked.append(1)
        return True

    assert recogniser.transcribe(stem("en_turn_taking_01"), Language.EN, stale) is None
    assert asked == [1]


def test_the_same_audio_gives_the_same_text(recogniser: WhisperRecogniser) -> None:
    audio = stem("zh_turn_taking_02")

    assert recogniser.transcribe(audio) == recogniser.transcribe(audio)


def test_missing_and_damaged_files_are_named(tmp_path: Path, models: Store) -> None:
    with pytest.raises(EngineError, match=r"model\.bin, config\.json, tokenizer\.json are not in"):
        WhisperRecogniser(tmp_path)
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (tmp_path / name).write_bytes((models.path("whisper-base/model.bin").parent / name).read_bytes())
    (tmp_path / "model.bin").write_bytes(b"not a model")
    with pytest.raises(EngineError, match="is damaged"):
        WhisperRecogniser(tmp_path)
