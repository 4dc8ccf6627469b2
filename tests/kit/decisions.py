"""Whether weights in a coarser type still decide as the recorded float32 run did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[Any]


@dataclass(frozen=True)
class Agreement:
    """Over all calls.

    ``distance``: largest deviation of a logit.  ``firm``: calls whose recorded margin is above it.  ``flipped``: calls
    that decided otherwise, with their recorded margin; ``flipped_firm``: the firm ones of these.
    """

    distance: float
    firm: tuple[int, ...]
    flipped: Mapping[int, float]

    @property
    def flipped_firm(self) -> list[int]:
        return [call for call in self.flipped if call in self.firm]


def decide(logits: Logits, controls: Sequence[int], *, rest: bool) -> tuple[npt.NDArray[np.int64], Logits]:
    """Per row of ``logits [n, vocab]``: which control token is the likeliest (its index) or, with ``rest``, that any
    other token is (``len(controls)``); and how far behind the second of these is."""
    choices = logits[:, list(controls)]
    if rest:
        others = np.delete(logits, list(controls), axis=1).max(axis=1, keepdims=True)
        choices = np.concatenate([choices, others], axis=1)
    ranked = np.sort(choices, axis=1)
    return choices.argmax(axis=1), ranked[:, -1] - ranked[:, -2]


def compare(
    recorded: Logits, ours: Logits, controls: Sequence[int], *, bias: Logits | None = None, rest: bool = True
) -> Agreement:
    """Logits ``[n, vocab]`` of the same inputs; ``bias`` of that shape is added to both before they decide.

    ``rest``: see :func:`decide`.
    """
    assert recorded.shape == ours.shape
    assert np.isfinite(ours).all()
    distance = float(np.abs(recorded.astype(np.float64) - ours).max())
    before, margins = decide(recorded if bias is None else recorded + bias, controls, rest=rest)
    after, _ = decide(ours if bias is None else ours + bias, controls, rest=rest)
    flipped = {int(call): float(margins[call]) for call in np.flatnonzero(before != after)}
    return Agreement(distance, tuple(int(call) for call in np.flatnonzero(margins > distance)), flipped)
