"""The voice detector on a stream: the same answers however the audio is cut, and nothing that stays broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.silero import WINDOW, SileroModel, SileroVad

from ..kit.kits import stem


@pytest.fixture(scope="module")
def model() -> SileroModel:
    return SileroModel()


def test_speech_is_found_and_silence_is_not(model: SileroModel) -> None:
    vad = SileroVad(model)
    quiet = vad.push(np.zeros(16_000, np.float32))
    loud = vad.push(stem("en_turn_taking_01"))

    assert max(quiet) < 0.2
    assert np.mean(np.array(loud) > 0.5) > 0.6


def test_any_cut_of_the_audio_gives_the_same_probabilities(model: SileroModel) -> None:
    audio = stem("zh_turn_taking_01")
    whole = SileroVad(model).push(audio)
    vad = SileroVad(model)
    rng = np.random.default_rng(5)
    cut: list[float] = []
    start = 0
    while start < len(audio):
        size = int(rng.integers(0, 1400))
        cut += vad.push(audio[start : start + size])
        start += size

    assert len(whole) == len(audio) // WINDOW
    assert cut == whole


def test_no_probability_before_a_window_is_full(model: SileroModel) -> None:
    vad = SileroVad(model)

    assert vad.push(np.zeros(0, np.float32)) == []
    assert vad.push(np.zeros(WINDOW - 1, np.float32)) == []
    assert len(vad.push(np.zeros(1, np.float32))) == 1


def test_streams_share_weights_but_not_memory(model: SileroModel) -> None:
    audio = stem("en_turn_taking_01")
    one, other = SileroVad(model), SileroVad(model)
    alone = SileroVad(model).push(audio)
    heard: list[float] = []
    for start in range(0, len(audio), 320):
        heard += one.push(audio[start : start + 320])
        other.push(np.zeros(320, np.float32))

    assert heard == alone


def test_reset_forgets_what_was_heard(model: SileroModel) -> None:
    audio = stem("en_turn_taking_01")
    vad = SileroVad(model)
    first = vad.push(audio)
    vad.reset()

    assert vad.push(audio) == first


def test_broken_samples_do_not_stay_in_the_memory(model: SileroModel) -> None:
    vad = SileroVad(model)
    broken = vad.push(np.full(WINDOW * 2, np.nan, np.float32)) + vad.push(np.full(WINDOW, np.inf, np.float32))
    after = vad.push(stem("en_turn_taking_01"))

    assert np.isfinite(broken).all()
    assert np.mean(np.array(after) > 0.5) > 0.6


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nothing\.onnx does not exist"):
        SileroModel(tmp_path / "nothing.onnx")
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"not a graph")
    with pytest.raises(EngineError, match=r"damaged\.onnx is damaged"):
        SileroModel(damaged)
