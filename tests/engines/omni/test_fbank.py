"""Kaldi's features against recorded ones, and what defines them."""

from __future__ import annotations

import numpy as np
import pytest
from realtime_venus.engines.omni.fbank import kaldi_fbank

from tests.kit import golden
from tests.kit.omni_ears import noise


def test_the_features_of_the_voice_are_as_recorded() -> None:
    recorded = golden.stage("t2w_prompt")
    features = kaldi_fbank(golden.wave(golden.voice()))
    assert list(features.shape) == recorded["fbank_shape"].tolist()
    head, tail = recorded["fbank_raw_head"], recorded["fbank_meansub_tail"]
    np.testing.assert_allclose(features[: len(head)], head, atol=1e-4)
    centred = features - features.mean(axis=0)
    np.testing.assert_allclose(centred[: len(head)], recorded["fbank_meansub_head"], atol=1e-4)
    np.testing.assert_allclose(centred[-len(tail) :], tail, atol=1e-4)


@pytest.mark.parametrize(("samples", "frames"), [(400, 1), (559, 1), (560, 2), (52_000, 323)])
def test_only_whole_windows_count(samples: int, frames: int) -> None:
    assert kaldi_fbank(noise(4, 1)[:samples]).shape == (frames, 80)


def test_a_constant_is_silence() -> None:
    wave = noise(1, 2)
    np.testing.assert_allclose(kaldi_fbank(wave + np.float32(0.25)), kaldi_fbank(wave), atol=2e-2)
    np.testing.assert_allclose(kaldi_fbank(np.full(1000, 0.5, np.float32)), np.log(np.finfo(np.float32).eps))


def test_a_tone_lies_in_its_band() -> None:
    def mel(hz: float) -> float:
        return float(np.log(1 + hz / 700))

    for hz in (300, 1000, 4000):
        tone = np.sin(2 * np.pi * hz * np.arange(16_000) / 16_000).astype(np.float32)
        band = (mel(hz) - mel(20)) / (mel(8000) - mel(20)) * 81 - 1
        assert abs(kaldi_fbank(tone).mean(axis=0).argmax() - band) < 1
