"""Kaldi's filter-bank features, as the speaker model was trained on them (no dither, no energy, snipped edges)."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ..base import INPUT_HZ, FloatPcm

Floats = npt.NDArray[np.float32]

BANDS: Final = 80

_WINDOW: Final = 400
_HOP: Final = 160
_FFT: Final = 512
_LOWEST: Final = 20.0
_PREEMPHASIS: Final = 0.97


def kaldi_fbank(wave: FloatPcm) -> Floats:
    """``float32[T, 80]`` of ``float32[n]`` at 16 kHz in [-1, 1], ``T = 1 + (n - 400) // 160``."""
    frames = np.lib.stride_tricks.sliding_window_view(wave.astype(np.float64), _WINDOW)[::_HOP]
    frames = frames - frames.mean(axis=1, keepdims=True)
    # The first sample counts as its own predecessor.
    frames = frames - _PREEMPHASIS * np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    spectrum = np.fft.rfft(frames * _povey(), _FFT)[:, : _FFT // 2]
    power = spectrum.real**2 + spectrum.imag**2
    logs: Floats = np.log(np.maximum(power @ _filters(), np.finfo(np.float32).eps)).astype(np.float32)
    return logs


def _povey() -> npt.NDArray[np.float64]:
    return np.hanning(_WINDOW) ** 0.85


def _mel(hz: float) -> float:
    return 1127 * float(np.log(1 + hz / 700))


@cache
def _filters() -> Floats:
    """Triangles on the mel axis, ``float32[256, 80]``; the bin at half the rate has no weight.

    Their edges are rounded to single precision at every step, as the features' own definition does: the narrow lowest
    triangles differ by more than the rest of the arithmetic together if they are not.
    """
    single = np.float32
    low = _mel(_LOWEST)
    step = single((_mel(INPUT_HZ / 2) - low) / (BANDS + 1))
    bands = np.arange(BANDS, dtype=single)
    left, centre, right = (single(low) + (bands + single(place)) * step for place in range(3))
    bins = np.arange(_FFT // 2, dtype=single) * single(INPUT_HZ / _FFT)
    mel = (single(1127) * np.log(single(1) + bins / single(700)))[:, None]
    triangles: Floats = np.maximum(0, np.minimum((mel - left) / (centre - left), (right - mel) / (right - centre)))
    return triangles
