"""Slaney's mel scale: what Whisper, the S3 tokenizer and the voice prompt's spectrogram weigh a spectrum with."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

_LINEAR_UNTIL: Final = 1000.0
"""Hz: below, the scale is linear with 3 mel per 200 Hz."""
_KNEE: Final = 3 * _LINEAR_UNTIL / 200
_LOG_STEP: Final = float(np.log(6.4)) / 27
"""Above the knee, 27 mel are a factor of 6.4."""


def _to_mel(hz: float) -> float:
    return hz * 3 / 200 if hz < _LINEAR_UNTIL else _KNEE + float(np.log(hz / _LINEAR_UNTIL)) / _LOG_STEP


def _to_hz(mel: Doubles) -> Doubles:
    return np.where(mel < _KNEE, mel * 200 / 3, _LINEAR_UNTIL * np.exp((mel - _KNEE) * _LOG_STEP))


@cache
def slaney_filters(mels: int, rate: int, window: int, top: float) -> Doubles:
    """Triangles of unit area in Hz, ``float64[window // 2 + 1, mels]``, from 0 to ``top`` Hz at ``rate`` samples/s."""
    edges = _to_hz(np.linspace(0, _to_mel(top), mels + 2))
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    bins = np.linspace(0, rate / 2, window // 2 + 1)[:, None]
    triangles = np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre))
    filters: Doubles = np.maximum(triangles, 0) * (2 / (high - low))
    filters.setflags(write=False)
    return filters


@cache
def hann(length: int) -> Doubles:
    """The periodic Hann window, ``float64[length]``."""
    window: Doubles = np.hanning(length + 1)[:-1]
    window.setflags(write=False)
    return window
