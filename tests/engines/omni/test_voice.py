"""Reference voices: as recorded, checked, and kept."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni import voice as voice_module
from realtime_venus.engines.omni.mel import log_mel
from realtime_venus.engines.omni.token2wav.config import FlowConfig
from realtime_venus.engines.omni.voice import VoiceError, VoicePrompt, enroll, enroll_file
from realtime_venus.engines.omni.voice_assets import SPEAKER, TOKENIZER, digest

from tests.kit import golden
from tests.kit.omni_ears import noise

TOLERANCE = 1e-4


def assets() -> Path:
    return golden.model_dir() / "assets" / "token2wav"


def recorded_file() -> Path:
    return golden.voice()


def assert_same(ours: VoicePrompt, theirs: VoicePrompt) -> None:
    for name in ("wave16k", "codes", "speaker", "mel"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


def test_the_voice_is_as_recorded() -> None:
    recorded = golden.stage("t2w_prompt")
    prompt = enroll_file(recorded_file(), assets())
    assert [len(prompt.wave16k)] == recorded["s3_audio_len"].tolist()
    np.testing.assert_array_equal(prompt.wave16k, golden.wave(recorded_file()))
    assert [len(prompt.codes)] == recorded["prompt_token_len"].tolist()
    # The recorded codes are those of the graph too, not only of the weights it was made from.
    assert recorded["onnx_tokens_equal"].tolist() == [1]
    np.testing.assert_array_equal(prompt.codes, recorded["prompt_tokens"])
    np.testing.assert_allclose(prompt.speaker, recorded["spk_emb"][0], atol=TOLERANCE)
    np.testing.assert_allclose(prompt.mel, recorded["prompt_mel"], atol=TOLERANCE)


def test_the_tokenizers_features_are_as_recorded() -> None:
    recorded = golden.stage("t2w_prompt")
    head, tail = recorded["s3_mel_head"], recorded["s3_mel_tail"]
    mel = log_mel(golden.wave(recorded_file()), len(head))
    assert list(mel.shape) == recorded["s3_mel_shape"].tolist()
    np.testing.assert_allclose(mel[:, : head.shape[1]], head, atol=TOLERANCE)
    np.testing.assert_allclose(mel[:, -tail.shape[1] :], tail, atol=TOLERANCE)
    # The sum of some 40,000 values, each of which may be off.
    assert mel.sum(dtype=np.float64) == pytest.approx(recorded["s3_mel_sum_f64"][0], abs=TOLERANCE * mel.size**0.5)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [None, 1, 2])
def test_any_rate_and_number_of_channels(rate: int, channels: int | None) -> None:
    count = int(3.3 * rate)
    tone = np.sin(2 * np.pi * 220 * np.arange(count) / rate).astype(np.float32) * 0.5
    wave = tone if channels is None else np.repeat(tone[:, None], channels, axis=1)
    prompt = enroll(wave, rate, assets())
    assert abs(len(prompt.wave16k) - 3.3 * 16_000) <= 1
    assert len(prompt.mel) == 2 * len(prompt.codes)
    sizes = FlowConfig.load(assets())
    assert prompt.mel.shape[1] == sizes.output_size
    assert prompt.speaker.shape == (sizes.spk_embed_dim,)
    expected = np.sin(2 * np.pi * 220 * np.arange(16_000, 32_000) / 16_000) * 0.5
    np.testing.assert_allclose(prompt.wave16k[16_000:32_000], expected, atol=1e-3)


def speech(seconds: float) -> npt.NDArray[np.float32]:
    return noise(seconds, 5)


def cancelled() -> npt.NDArray[np.float32]:
    one = speech(4)
    return np.stack([one, -one], axis=1)


def broken() -> npt.NDArray[np.float32]:
    wave = speech(4)
    wave[99] = np.nan
    return wave


@pytest.mark.parametrize(
    ("make", "rate", "complaint"),
    [
        (lambda: speech(2.99), 16_000, "at least 3 s"),
        (lambda: speech(15.01), 16_000, "more than 15 s"),
        (lambda: speech(0), 16_000, "at least 3 s"),
        (lambda: np.zeros(64_000, np.float32), 16_000, "silent"),
        (cancelled, 16_000, "silent"),
        (broken, 16_000, "not numbers"),
        (lambda: speech(4) * 32_768, 16_000, r"\[-1, 1\]"),
        (lambda: (speech(4) * 32_767).astype(np.int16), 16_000, "whole numbers"),
        (lambda: speech(4)[None], 16_000, "shape"),
        (lambda: speech(4)[None, None], 16_000, "shape"),
        (lambda: speech(4), 0, "samples per second"),
        (lambda: speech(4), 1_000_000, "samples per second"),
    ],
)
def test_what_cannot_be_a_voice_is_refused(
    make: Callable[[], npt.NDArray[np.float32]], rate: int, complaint: str
) -> None:
    with pytest.raises(VoiceError, match=complaint):
        enroll(make(), rate, assets())


@pytest.mark.parametrize("seconds", [3, 15])
def test_the_limits_themselves_are_allowed(seconds: int) -> None:
    assert len(enroll(speech(seconds), 16_000, assets()).codes) == seconds * 25


def test_a_file_is_read_whatever_its_format(tmp_path: Path) -> None:
    path = tmp_path / "voice.flac"
    soundfile.write(path, np.stack([speech(3.5)] * 2, axis=1), 16_000)
    assert len(enroll_file(path, assets()).wave16k) == 56_000
    path.write_bytes(b"no audio at all")
    with pytest.raises(VoiceError, match="cannot be read"):
        enroll_file(path, assets())
    with pytest.raises(VoiceError, match="cannot be read"):
        enroll_file(tmp_path / "absent.wav", assets())
    soundfile.write(tmp_path / "long.wav", np.tile(speech(10), 6), 16_000)
    with pytest.raises(VoiceError, match="15 s"):
        enroll_file(tmp_path / "long.wav", assets())


def test_a_voice_is_made_once_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "state" / "voices"
    first = enroll(speech(3.2), 16_000, assets(), cache)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    (stored,) = cache.iterdir()
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600

    def never(*_: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(voice_module, "speech_codes", never)
    assert_same(enroll(speech(3.2), 16_000, assets(), cache), first)
    for other in (speech(3.3), speech(3.2) * np.float32(0.5)):
        with pytest.raises(AssertionError, match="made again"):
            enroll(other, 16_000, assets(), cache)
    with pytest.raises(AssertionError, match="made again"):
        enroll(speech(3.2), 16_001, assets(), cache)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def scribble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def another_shape(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(
            file,
            wave16k=np.zeros(9, np.float32),
            codes=np.zeros(3, np.int64),
            speaker=np.zeros(2, np.float32),
            mel=np.zeros(6, np.float32),
        )


def objects(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, wave16k=np.array([print], dtype=object))


@pytest.mark.parametrize("damage", [truncate, scribble, empty, another_shape, objects])
def test_a_stored_voice_that_is_damaged_is_made_anew(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    first = enroll(speech(3.2), 16_000, assets(), tmp_path)
    (stored,) = tmp_path.iterdir()
    sound = stored.read_bytes()
    damage(stored)
    assert stored.read_bytes() != sound
    assert_same(enroll(speech(3.2), 16_000, assets(), tmp_path), first)
    (again,) = tmp_path.iterdir()
    assert again == stored
    assert_same(enroll(speech(3.2), 16_000, assets(), tmp_path), first)


def test_a_voice_that_cannot_be_kept_serves_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "voices").write_text("a file where the folder should be")
    assert len(enroll(speech(3.2), 16_000, assets(), tmp_path / "voices").codes) == 80


def test_other_graphs_make_another_voice(tmp_path: Path) -> None:
    for name in (TOKENIZER, SPEAKER):
        shutil.copy(assets() / name, tmp_path / name)
    assert digest(tmp_path) == digest(assets())
    with (tmp_path / SPEAKER).open("ab") as file:
        file.write(b"\0")
    assert digest(tmp_path) != digest(assets())


@pytest.mark.parametrize("name", [TOKENIZER, SPEAKER])
@pytest.mark.parametrize("cached", [False, True])
def test_a_graph_that_is_missing_or_another_is_named(tmp_path: Path, name: str, cached: bool) -> None:
    for each in (TOKENIZER, SPEAKER):
        shutil.copy(assets() / each, tmp_path / each)
    cache = tmp_path / "cache" if cached else None
    other = SPEAKER if name == TOKENIZER else TOKENIZER
    shutil.copy(assets() / other, tmp_path / name)
    with pytest.raises(EngineError, match=name):
        enroll(speech(3.2), 16_000, tmp_path, cache)
    (tmp_path / name).unlink()
    with pytest.raises(EngineError, match=name):
        enroll(speech(3.2), 16_000, tmp_path, cache)
