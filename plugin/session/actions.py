"""What the session core asks its driver to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...engines.base import Changes, OverlapPhase, Speech
from ..timeline.events import TimelineEvent


@dataclass(frozen=True, slots=True)
class Now:
    """A moment on both clocks: media milliseconds of the session, and seconds of the event loop."""

    ms: int
    wall_s: float


@dataclass(frozen=True, slots=True)
class Emit:
    """Append to the timeline."""

    event: TimelineEvent


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Queue speech for playout."""

    speech: Speech


@dataclass(frozen=True, slots=True)
class EndUtterance:
    """No more speech will be queued for the utterance."""

    utterance_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class Duck:
    """Lower the output, or raise it again."""

    on: bool


@dataclass(frozen=True, slots=True)
class HoldOutput:
    """Pause the output."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Speak on after a hold, from the cut word."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Discard what is not heard yet of the utterance."""

    utterance_id: str


@dataclass(frozen=True, slots=True)
class TellOverlap:
    """Tell the engine that the user began or stopped speaking over the agent."""

    phase: OverlapPhase
    at_ms: int


@dataclass(frozen=True, slots=True)
class TellHeard:
    """Tell the engine how far the listener has heard."""

    utterance_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class TellInterrupt:
    """Tell the engine that the utterance was flushed; an empty id gives up whatever reply is pending."""

    utterance_id: str


@dataclass(frozen=True, slots=True)
class TellTyped:
    """Give the text that ``speaker`` typed to the engine."""

    text: str
    speaker: str = "user"


@dataclass(frozen=True, slots=True)
class TellSay:
    """Have the engine speak a text word for word."""

    text: str


@dataclass(frozen=True, slots=True)
class TellConfigure:
    """Change the engine session's settings."""

    changes: Changes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The listener has played every frame up to ``number``."""

    number: int


@dataclass(frozen=True, slots=True)
class Recover:
    """Start anew what stalled: the engine's session, or the room's pulling."""

    what: Literal["engine", "playout"]
    stalled_ms: int


@dataclass(frozen=True, slots=True)
class End:
    """End the session."""

    reason: str


Action = (
    Emit
    | Enqueue
    | EndUtterance
    | Duck
    | HoldOutput
    | GoOn
    | Flush
    | TellOverlap
    | TellHeard
    | TellInterrupt
    | TellTyped
    | TellSay
    | TellConfigure
    | Acknowledged
    | Recover
    | End
)
