"""How the next text token is chosen from the thinker's logits, without leaving the device.

A duplex token takes two draws: the first, from the plain softmax, only decides whether the unit ends here
(``<|chunk_eos|>``); otherwise the second one, from the penalised and filtered distribution, is the token.  Both are
computed, and the host reads two integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from ..base import EngineError
from .draws import Draws, SeededDraws, TextDraw, inverse_cdf
from .tokens import ProtocolIds
from .upload import upload

__all__ = ["Draws", "SamplerSettings", "SeededDraws", "TextDraw", "checked", "known", "penalised_argmax", "sample"]

NO_NUMBER: Final = -1
"""In place of a token: the logits were no numbers."""


class SamplerSettings(BaseModel):
    """Defaults of the published decoder.  What follows ``listen_top_k`` mends it, and is off there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["sampling", "greedy"] = "sampling"
    """``greedy``: the largest logit instead of either draw, after the same penalties."""
    temperature: float = Field(default=0.7, gt=0)
    top_k: int = Field(default=20, ge=0)
    """Tokens kept (and all that equal the last of them); 0 keeps all."""
    top_p: float = Field(default=0.8, ge=0)
    """Of what ``top_k`` left, the likeliest whose sum just exceeds this; 0 keeps all."""
    repetition_penalty: float = Field(default=1.05, gt=0)
    """Divides the logits of tokens of the history."""
    repetition_window: int = Field(default=512, ge=0)
    """Last tokens of the history that count."""
    length_penalty: float = Field(default=1.1, gt=0)
    """Above 1 makes the end of the turn less likely, below 1 more."""
    listen_prob_scale: float = Field(default=1.0, ge=0)
    """Multiplies the logit of the token that ``listen_control`` names."""
    listen_top_k: int | None = Field(default=None, ge=1)
    """Choose that token outright when it is among so many largest."""
    listen_control: Literal["im_end", "listen"] = "im_end"
    """The published decoder's listen controls act on ``<|im_end|>``, which a unit never contains."""
    signed_repetition: bool = False
    """Multiply negative logits instead of dividing them too, which makes a repeated token likelier."""


def sample(
    logits: Tensor,
    history: Sequence[int],
    settings: SamplerSettings,
    ids: ProtocolIds,
    forbidden: Tensor,
    draw: TextDraw,
) -> Tensor:
    """One token of a unit from ``logits`` ``float32[vocab]``: ``int64[2]``, the token and 1 where it joins the history.

    The token is :data:`NO_NUMBER` where the largest logit is not finite; give it to :func:`checked` on the host.

    ``history`` is what earlier calls said to record, oldest first; ``forbidden`` is ``bool[vocab]`` on the logits'
    device.  Neither ``<|chunk_eos|>`` of the first draw nor a token chosen by ``listen_top_k`` is recorded.  In greedy
    mode ``draw`` is unused.
    """
    greedy = settings.mode == "greedy"
    first = logits.argmax() if greedy else inverse_cdf(logits.softmax(0), draw[0])
    ends = first == ids.chunk_eos
    scores = logits.masked_fill(forbidden, float("-inf"))
    if settings.repetition_penalty != 1.0 and settings.repetition_window > 0:
        recent = history[-settings.repetition_window :]
        _penalise(scores, recent, settings.repetition_penalty, signed=settings.signed_repetition)
    if settings.length_penalty != 1.0:
        _penalise(scores, [ids.turn_eos], settings.length_penalty, signed=True)
    listen = ids.im_end if settings.listen_control == "im_end" else ids.listen
    if settings.listen_prob_scale != 1.0:
        scores[listen] *= settings.listen_prob_scale
    token = scores.argmax() if greedy else inverse_cdf(_filtered(scores, settings), draw[1])
    recorded = ~ends
    if settings.listen_top_k is not None:
        near = (scores > scores[listen]).sum() < settings.listen_top_k
        token = torch.where(near, listen, token)
        recorded &= ~near
    return torch.stack((known(torch.where(ends, ids.chunk_eos, token), logits), recorded.to(torch.int64)))


def checked(token: int, dtype: torch.dtype) -> int:
    """``token``; :class:`EngineError` where it stands for logits that were no numbers, of a network in ``dtype``."""
    if token == NO_NUMBER:
        name = str(dtype).removeprefix("torch.")
        raise EngineError(
            f"the network gave numbers that are not finite in {name}: use another VENUS_OMNI__DTYPE (bfloat16, float32)"
            ", or fetch the weights again"
        )
    return token


def known(token: Tensor, logits: Tensor) -> Tensor:
    """``token``, or :data:`NO_NUMBER` where the largest of ``logits`` is not finite: it is none as soon as one is."""
    return torch.where(logits.amax().isfinite(), token, NO_NUMBER)


def penalised_argmax(logits: Tensor, history: Sequence[int], penalty: float) -> Tensor:
    """The largest of ``logits`` ``float32[vocab]`` after the usual repetition penalty (CTRL): ``int64[]``.

    What turn-based answers are decoded with; ``history`` is the answer so far, all of which counts.
    """
    scores = logits.clone()
    _penalise(scores, history, penalty, signed=True)
    return known(scores.argmax(), logits)


def _penalise(scores: Tensor, tokens: Sequence[int], penalty: float, *, signed: bool) -> None:
    """Divides the scores of ``tokens``, each once; ``signed`` multiplies those below zero instead.  In place."""
    if not tokens:
        return
    index = upload(sorted(set(tokens)), scores.device)
    chosen = scores[index]
    lowered = chosen / penalty
    scores[index] = torch.where(chosen < 0, chosen * penalty, lowered) if signed else lowered


def _filtered(scores: Tensor, settings: SamplerSettings) -> Tensor:
    """Probabilities ``float32[vocab]`` after temperature, top-k and top-p."""
    scores = scores / settings.temperature
    if settings.top_k == 0 and settings.top_p == 0:
        return scores.softmax(0)
    ranked, order = scores.sort(descending=True, stable=True)
    if settings.top_k > 0:
        least = ranked[min(settings.top_k, ranked.shape[0]) - 1]
        ranked = ranked.masked_fill(ranked < least, float("-inf"))
    if settings.top_p > 0:
        # a token goes when those before it already exceed the sum: the first always stays
        before = ranked.softmax(0).cumsum(0)[:-1] > settings.top_p
        ranked[1:] = ranked[1:].masked_fill(before, float("-inf"))
    return torch.empty_like(scores).scatter_(0, order, ranked).softmax(0)
