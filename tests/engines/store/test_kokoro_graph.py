"""The two halves of Kokoro speak as the whole does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from realtime_venus.engines.onnx_session import OnnxSession
from realtime_venus.engines.store import Store
from realtime_venus.engines.store.kokoro_graph import BOUNDARY, cut


@pytest.mark.models
def test_the_halves_one_after_the_other_give_the_bits_of_the_whole(models: Store) -> None:
    tokens = np.array([[0, 50, 83, 54, 156, 57, 135, 0]], dtype=np.int64)
    voices = np.fromfile(models.path("kokoro-voices/af_heart.bin"), dtype=np.float32).reshape(-1, 1, 256)
    style = voices[tokens.shape[1] - 2]
    spoken = {"tokens": tokens, "style": style, "speed": np.ones(1, dtype=np.float32)}
    (whole,) = OnnxSession(models.path("kokoro-v1.0.int8.onnx")).run(spoken)
    prosody = OnnxSession(models.path("kokoro-text.onnx")).run(spoken, BOUNDARY)
    halves = dict(zip(BOUNDARY, prosody, strict=True))
    (joined,) = OnnxSession(models.path("kokoro-vocoder.onnx")).run({**halves, "style": style})
    assert whole.size > 2400
    assert np.array_equal(whole, joined)


@pytest.mark.models
def test_a_half_can_be_cut_again(models: Store, tmp_path: Path) -> None:
    cut("kokoro-text", models.path("kokoro-v1.0.int8.onnx"), tmp_path / "text.onnx")
    assert (tmp_path / "text.onnx").stat().st_size == models.path("kokoro-text.onnx").stat().st_size
