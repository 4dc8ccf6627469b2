"""Log-mel features as Whisper defines them (80 Slaney mels, 25 ms Hann windows every 10 ms, 16 kHz), made cheap.

Speech is a short stretch in a window that is otherwise constant (padding), and the spectrum of a constant is known in
closed form: so only the frames that touch speech are transformed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ..base import FloatPcm

HOP: Final = 160
"""Samples from one frame to the next: 10 ms."""
MELS: Final = 80

_WINDOW: Final = 400
_HALF: Final = _WINDOW // 2
_BINS: Final = _HALF + 1
_FLOOR: Final = 1e-10
_BLOCK: Final = 16
"""Frames per matrix product.  Small ones stay on the calling thread; larger ones wake a BLAS pool that keeps spinning
for tens of milliseconds afterwards, on a core that the other stages need."""

Features = npt.NDArray[np.float32]
"""``float32[80, frames]``."""


def _hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Slaney's scale: linear to 1 kHz (15 mel), from there 27 mel for a factor of 6.4."""
    return np.where(mel < 15, mel * (200 / 3), 1000 * np.exp((mel - 15) * (np.log(6.4) / 27)))


def _filters() -> Features:
    """Triangles of unit area over the spectrum's bins, ``float32[201, 80]``."""
    top = 15 + 27 * np.log(8) / np.log(6.4)
    edges = _hz(np.linspace(0, top, MELS + 2, dtype=np.float64))
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    bins = np.linspace(0, 8000, _BINS)[:, None]
    triangles = np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre))
    return (np.maximum(triangles, 0) * (2 / (high - low))).astype(np.float32)


_HANN: Final = np.hanning(_WINDOW + 1)[:-1].astype(np.float32)
_MEL: Final = _filters()
# A constant 1 under a periodic Hann window has 200 in bin 0, 100 in bin 1 and nothing elsewhere.
_CONSTANT: Final = _MEL[0] * np.float32(200**2) + _MEL[1] * np.float32(100**2)


def log_mel(signal: FloatPcm, first: int = 0, last: int | None = None) -> Features:
    """Features of ``signal`` (``float32[frames * 160]``): ``float32[80, frames]``, about -1 to 1, 8 decades deep.

    Outside of the samples ``[first, last)`` the signal must be one constant; those frames cost nothing.
    """
    frames = len(signal) // HOP
    last = len(signal) if last is None else last
    begin = max(0, (first - _HALF) // HOP)
    end = min(frames, (last + _HALF) // HOP + 1)
    constant = signal[0] if first > 0 else signal[-1] if last < len(signal) else np.float32(0)
    mels = np.empty((frames, MELS), np.float32)
    mels[:] = _CONSTANT * constant * constant
    if begin < end:
        padded = np.pad(signal, _HALF, mode="reflect")
        count = -(-(end - begin) // _BLOCK) * _BLOCK
        windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[begin * HOP : end * HOP : HOP]
        spectrum = np.fft.rfft(windows * _HANN, axis=-1)
        power = np.zeros((count, _BINS), np.float32)
        power[: end - begin] = spectrum.real**2 + spectrum.imag**2
        mels[begin:end] = (power.reshape(-1, _BLOCK, _BINS) @ _MEL).reshape(-1, MELS)[: end - begin]
    logs: Features = np.log10(np.maximum(mels, np.float32(_FLOOR)))
    scaled: Features = (np.maximum(logs, logs.max() - np.float32(8)) + np.float32(4)) / np.float32(4)
    return np.ascontiguousarray(scaled.T)
