"""Smart Turn v3.2 (BSD-2): does it sound as if the speaker has finished?"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from ..base import INPUT_HZ, FloatPcm
from ..onnx_session import OnnxSession, scalar
from .mel import Features, log_mel

_WINDOW: Final = 8 * INPUT_HZ


def features(audio: FloatPcm) -> Features:
    """What the model sees: the newest 8 s, silence before, at zero mean and unit variance; ``float32[80, 800]``."""
    audio = audio[-_WINDOW:]
    start = _WINDOW - len(audio)
    window = np.zeros(_WINDOW, np.float32)
    window[start:] = np.nan_to_num(audio, posinf=1, neginf=-1)
    window -= window.mean()
    window /= np.sqrt(window.var() + np.float32(1e-7))
    return log_mel(window, start)


class SmartTurn:
    """A :class:`~.parts.TurnDetector`; about 50 ms of one core a call, safe from several threads at once.

    Raises :class:`~..base.EngineError` for a missing or damaged file.
    """

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._session = OnnxSession(path, threads)

    def probability(self, audio: FloatPcm) -> float:
        """Probability in [0, 1] that the speaker has finished; ``audio`` is mono 16 kHz, the newest 8 s are used.

        Works best with about 200 ms of the silence that follows the speech.
        """
        (output,) = self._session.run({"input_features": features(audio)[None]})
        return scalar(output)
