"""What a duplex session gives out while it works through a unit, and what it asks the thinker for."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor

from ..base import FloatPcm
from ..protocol import Close, Hide, Open, Reject
from .thinker import Step

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Feed:
    """A forward that the session waits for: ``embeds`` is ``[1, S, hidden]``, to be appended to its own cache slot.

    The answer is the :class:`~.thinker.Step` of the last position.  Whoever drives the session runs it, alone or in
    one batch with the forwards of others.
    """

    embeds: Tensor


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Words for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """Speech: ``pcm`` is ``float32[n]`` at 24 kHz, right behind the piece before it."""

    pcm: FloatPcm


@dataclass(frozen=True, slots=True)
class PrivatePiece:
    """A step of a private request, as the protocol's gate found it."""

    action: Open | Hide | Close | Reject


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """The end of a unit's output.

    ``end_of_turn`` says that the model ended its turn here, ``turn_closed`` that a turn is over for whatever reason
    (a forced listen closes one too).  ``ids`` are all ids that enter the context for this unit's output in order,
    terminator and ``</unit>`` included; ``tokens`` counts those that condition the talker, ``codes`` what it made of
    them, ``forwards`` the thinker's forwards since the unit's prefill began.  ``timings`` are milliseconds by stage.
    """

    is_listen: bool
    text: str
    end_of_turn: bool
    turn_closed: bool
    ids: tuple[int, ...]
    tokens: int
    codes: int
    samples: int
    forwards: int
    timings: Mapping[str, float] = field(default_factory=dict[str, float])


Piece = TextPiece | SpeechPiece | PrivatePiece | UnitEnd

Work = Generator[Feed | Piece, Step | None, T]
"""A part of a session's work: gives out pieces, asks for forwards, and is sent the step of each (else ``None``)."""


def forward(embeds: Tensor) -> Work[Step]:
    """Ask for one forward of ``embeds [1, S, hidden]``."""
    step = yield Feed(embeds)
    assert step is not None, "a forward that was asked for must be answered"
    return step
