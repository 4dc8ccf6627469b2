"""The uniform numbers behind every sampled token and code, so that a session can be seeded, saved and replayed."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

TextDraw = tuple[float, float]
"""The two uniform numbers that one text token may need, each in [0, 1)."""


class Draws(Protocol):
    """Where a session's uniform numbers in [0, 1) come from."""

    def text(self) -> TextDraw:
        """Both numbers of a text token; called once for each, whether or not both are used."""
        ...

    def code(self) -> float:
        """The number of one speech code; called once for each."""
        ...


class SeededDraws:
    """Two independent reproducible streams: how many codes were drawn has no influence on the text."""

    def __init__(self, seed: int) -> None:
        text, codes = np.random.SeedSequence(seed).spawn(2)
        self._text = np.random.Generator(np.random.PCG64(text))
        self._codes = np.random.Generator(np.random.PCG64(codes))

    def text(self) -> TextDraw:
        """See :class:`Draws`."""
        return self._text.random(), self._text.random()

    def code(self) -> float:
        """See :class:`Draws`."""
        return self._codes.random()

    def snapshot(self) -> dict[str, Any]:
        """The state of both streams, for :meth:`restore`."""
        return {"text": self._text.bit_generator.state, "codes": self._codes.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continues as the streams would have after ``snapshot``."""
        self._text.bit_generator.state = snapshot["text"]
        self._codes.bit_generator.state = snapshot["codes"]


def inverse_cdf(probabilities: Tensor, uniform: float) -> Tensor:
    """The smallest id whose cumulative probability exceeds ``uniform``: ``int64[]`` of ``float32[n]``, in id order.

    The sum is float64 and normalised, so that the result depends on neither the device nor the order of reduction.
    """
    cumulative = probabilities.to(torch.float64).cumsum(0)
    wanted = cumulative[-1:] * uniform
    index = torch.searchsorted(cumulative, wanted, right=True)
    return index.clamp_(max=probabilities.shape[0] - 1)[0]
