"""The source hums where there is a pitch and hisses where there is none."""

from __future__ import annotations

import numpy as np
import torch
from realtime_venus.engines.omni.token2wav.config import MEL_HOP, OUTPUT_HZ
from realtime_venus.engines.omni.token2wav.source import HarmonicSource

from ....kit import t2w


def test_a_steady_pitch_gives_its_harmonics() -> None:
    frames, pitch = 20, 150.0
    silence = torch.zeros(1, frames * MEL_HOP, 9)
    waves = HarmonicSource().harmonics(torch.full((1, frames), pitch), silence)[0]
    spectrum = np.abs(np.fft.rfft(waves[4 * MEL_HOP : 14 * MEL_HOP].numpy(), axis=0))
    loudest = spectrum.argmax(axis=0) * OUTPUT_HZ / (10 * MEL_HOP)
    np.testing.assert_allclose(loudest, pitch * np.arange(1, 10))
    torch.testing.assert_close(waves.abs().max(), torch.tensor(0.1), rtol=0, atol=1e-3)


def test_without_pitch_there_is_noise_alone_and_more_of_it() -> None:
    noise = t2w.normal(1, 1, 2 * MEL_HOP, 9)
    waves = HarmonicSource().harmonics(torch.tensor([[200.0, 5.0]]), noise)
    torch.testing.assert_close(waves[:, MEL_HOP:], noise[:, MEL_HOP:] * (0.1 / 3))
    voiced = HarmonicSource().harmonics(torch.tensor([[200.0, 5.0]]), torch.zeros_like(noise))
    torch.testing.assert_close(waves[:, :MEL_HOP] - voiced[:, :MEL_HOP], noise[:, :MEL_HOP] * 0.003, rtol=0, atol=1e-6)
