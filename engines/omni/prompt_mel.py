"""The spectrogram of a reference voice that the flow model continues: 24 kHz, 80 bands, one frame every 20 ms."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ..base import OUTPUT_HZ, FloatPcm
from .melbank import Doubles, hann, slaney_filters

Floats = npt.NDArray[np.float32]

_WINDOW: Final = 1920
_HOP: Final = 480
_BANDS: Final = 80
_TOP: Final = 8000.0
_CROSSINGS: Final = 6
"""Zero crossings of the interpolating sinc on either side."""
_ROLLOFF: Final = 0.99
_BLOCK: Final = 1 << 16
"""Output samples interpolated at once, to bound the memory."""


def to_output_rate(wave: FloatPcm, rate: int) -> Doubles:
    """Resample to 24 kHz with a short Hann-windowed sinc, ``float64[ceil(n * 24000 / rate)]``.

    The released voices were made with this filter.  Its soft edge shows in the upper bands of the spectrogram of a
    16 kHz recording, where a better resampler would leave nothing.
    """
    if rate == OUTPUT_HZ:
        return wave.astype(np.float64)
    band = min(rate, OUTPUT_HZ) * _ROLLOFF / rate
    reach = int(np.ceil(_CROSSINGS / band))
    taps = np.arange(-reach, reach + 2)
    count = -(-len(wave) * OUTPUT_HZ // rate)
    padded = np.pad(wave.astype(np.float64), (reach, reach + 2))
    out = np.empty(count)
    for start in range(0, count, _BLOCK):
        moments = np.arange(start, min(count, start + _BLOCK), dtype=np.int64) * rate
        whole = moments // OUTPUT_HZ
        fraction = (moments % OUTPUT_HZ) / OUTPUT_HZ
        distance = np.clip((taps - fraction[:, None]) * band, -_CROSSINGS, _CROSSINGS)
        weights = np.sinc(distance) * np.cos(distance * (np.pi / 2 / _CROSSINGS)) ** 2 * band
        out[start : start + _BLOCK] = np.einsum("ij,ij->i", padded[whole[:, None] + taps + reach], weights)
    return out


def prompt_mel(wave: FloatPcm, rate: int) -> Floats:
    """Natural-log mel magnitudes ``float32[T, 80]`` of ``float32[n]`` at any rate, ``T = n * 50 // rate``."""
    signal = np.pad(to_output_rate(wave, rate), (_WINDOW - _HOP) // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(signal, _WINDOW)[::_HOP]
    spectrum = np.fft.rfft(windows * hann(_WINDOW), axis=-1)
    magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
    mel = magnitude @ slaney_filters(_BANDS, OUTPUT_HZ, _WINDOW, _TOP)
    return np.log(np.maximum(mel, 1e-5)).astype(np.float32)


def fit_frames(mel: Floats, frames: int) -> Floats:
    """Exactly ``frames`` rows: the last one repeated, or what is too much cut off."""
    return np.pad(mel[:frames], ((0, max(0, frames - len(mel))), (0, 0)), mode="edge")
