"""Where the random numbers of the speech decoder come from.

The published decoder draws without a seed.  Here every draw has a name, so that a session repeats itself exactly.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

FLOW_FRAMES = 30_000
HARMONICS = 9


class Noise(Protocol):
    """Standard normal numbers, the same ones whenever asked for again."""

    def flow(self) -> Tensor:
        """The start of every flow: ``float32[1, mel, frames]``, of which a call takes a slice of frames."""
        ...

    def vocoder(self, samples: int, call: int) -> Tensor:
        """``float32[1, samples, 9]``, added to the harmonics in the vocoder's ``call``-th call of a session."""
        ...


class SeededNoise:
    """numpy's default generator: seeded with ``[seed, 0]`` for the flow, with ``[seed, 1 + call]`` for the vocoder.

    It runs on the CPU whatever the device, so that the numbers are the same everywhere.
    """

    def __init__(self, seed: int = 0, *, mel: int = 80) -> None:
        if seed < 0:
            raise ValueError("a noise seed is a whole number from 0 on")
        self._seed = seed
        self._mel = mel

    def flow(self) -> Tensor:
        """See :meth:`Noise.flow`: ``[1, mel, 30000]``."""
        return self._normal(0, (1, self._mel, FLOW_FRAMES))

    def vocoder(self, samples: int, call: int) -> Tensor:
        """See :meth:`Noise.vocoder`."""
        return self._normal(1 + call, (1, samples, HARMONICS))

    def _normal(self, stream: int, shape: tuple[int, ...]) -> Tensor:
        drawn = np.random.default_rng([self._seed, stream]).standard_normal(shape, dtype=np.float32)
        return torch.as_tensor(drawn)
