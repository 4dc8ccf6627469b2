"""How the next speech code is chosen from the talker's logits: temperature, penalty of repeats, one draw over all."""

from __future__ import annotations

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from .draws import inverse_cdf


class TalkerSettings(BaseModel):
    """Defaults of the published duplex decoder (which builds a top-k and a top-p filter, and applies neither)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(default=0.8, gt=0)
    repetition_penalty: float = Field(default=1.05, gt=0)
    """To the power of how often a code occurs among the last ones."""
    repetition_window: int = Field(default=16, ge=0)
    """Last codes of the same chunk that count."""


def penalise_repeats(logits: Tensor, codes: Tensor, penalty: float) -> Tensor:
    """Lowers ``logits float32[n]`` of ``codes int64[m]`` by ``penalty`` for each time one occurs: ``float32[n]``."""
    ones = torch.ones(codes.shape, dtype=logits.dtype, device=logits.device)
    counts = torch.zeros_like(logits).index_add_(0, codes, ones)
    factors = torch.pow(penalty, counts)
    return torch.where(logits < 0, logits * factors, logits / factors)


def choose_code(
    logits: Tensor, recent: Tensor | None, settings: TalkerSettings, uniform: float, *, masked: int | None
) -> Tensor:
    """One code from ``logits float32[codes]``: ``int64[]``.

    ``recent``: the last codes of the chunk, at most ``repetition_window``, or ``None``.  ``masked`` cannot be drawn.
    """
    scores = logits / settings.temperature
    if recent is not None and settings.repetition_penalty != 1.0:
        scores = penalise_repeats(scores, recent, settings.repetition_penalty)
    if masked is not None:
        scores[masked] = float("-inf")
    return inverse_cdf(scores.softmax(0), uniform)
