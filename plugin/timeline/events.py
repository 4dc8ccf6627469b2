"""Every kind of event a timeline holds.

An event is a frozen dataclass with ``at_ms`` (media milliseconds since the session began) and a class-level ``type``,
which names it in JSON: ``{"type": "agent.text", "at_ms": 1234, "seq": 17, ...}``.  The same JSON goes to the page, into
recordings and to tests.  Adding an event means adding a class here, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """Base of all events."""

    type: ClassVar[str]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(TimelineEvent):
    """The session began; ``unit_ms`` is the engine's."""

    type: ClassVar[str] = "session.started"
    session_id: str
    engine: str
    room: str
    unit_ms: int
    language: str
    """``en``, ``zh`` or ``auto``."""
    voice: str
    recording: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded(TimelineEvent):
    type: ClassVar[str] = "session.ended"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfigured(TimelineEvent):
    """Language, voice, persona or facts changed."""

    type: ClassVar[str] = "session.configured"
    language: str
    voice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGap(TimelineEvent):
    """Audio that never arrived (``lost``) or was dropped because too much waited (``backlog``)."""

    type: ClassVar[str] = "input.gap"
    cause: str
    missing_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpeech(TimelineEvent):
    """Speech of the user began or ended, as the reflex sees it."""

    type: ClassVar[str] = "user.speech"
    phase: str
    """``started`` or ``ended``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserText(TimelineEvent):
    """The user's words; partial ones are replaced by later events with the same ``start_ms``."""

    type: ClassVar[str] = "user.text"
    text: str
    start_ms: int
    end_ms: int
    final: bool
    language: str
    typed: bool = False
    speaker: str = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(TimelineEvent):
    """The engine began to listen or to speak."""

    type: ClassVar[str] = "agent.decision"
    decision: str
    """``listen`` or ``speak``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentText(TimelineEvent):
    """Words that were generated, with the samples (24 kHz, of the utterance) in which they are spoken."""

    type: ClassVar[str] = "agent.text"
    utterance_id: str
    text: str
    first_sample: int
    end_sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpeech(TimelineEvent):
    """A stretch of speech entered the ledger as queued."""

    type: ClassVar[str] = "agent.speech"
    utterance_id: str
    first_sample: int
    samples: int
    opener: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState(TimelineEvent):
    """What the listener's page shows: ``listening``, ``thinking``, ``speaking``, ``ducked`` or ``held``."""

    type: ClassVar[str] = "agent.state"
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Playout(TimelineEvent):
    """The ledger moved: samples ``[first_sample, end_sample)`` of the utterance are now in ``state``.

    ``sent``: handed to the room.  ``queued``: taken back, since a hold came before they were played.  ``heard`` and
    ``discarded`` are final.  ``estimated``: nobody reported it, the track's clock says so.
    """

    type: ClassVar[str] = "playout"
    utterance_id: str
    state: str
    first_sample: int
    end_sample: int
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UtteranceEnded(TimelineEvent):
    """Everything of an utterance is heard or discarded.  ``heard_text`` is what the listener got of it."""

    type: ClassVar[str] = "agent.utterance_ended"
    utterance_id: str
    heard_text: str
    heard_samples: int
    total_samples: int
    interrupted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapEvent(TimelineEvent):
    """User speech over the agent: ``started``, ``duck``, ``hold``, ``go_on``, ``yield``, ``ended``."""

    type: ClassVar[str] = "overlap"
    phase: str
    utterance_id: str
    kind: str = ""
    score: float = 0.0
    after_ms: int = 0
    """Milliseconds since the overlapping speech arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(TimelineEvent):
    """The user's last sound → first audio, at the room's edge.  Never sent in fast mode."""

    type: ClassVar[str] = "latency"
    utterance_id: str
    edge_ms: int
    """To the first sample of the answer itself."""
    opener_ms: int | None = None
    """To the first sample of a prepared opener, when there was one before the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTimed(TimelineEvent):
    """A unit was taken in by the engine; ``timings`` are milliseconds by stage."""

    type: ClassVar[str] = "unit"
    index: int
    timings: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleEvent(TimelineEvent):
    """Something went wrong; ``fatal`` ends the session."""

    type: ClassVar[str] = "trouble"
    code: str
    message: str
    fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(TimelineEvent):
    """The watchdog restarted what made no progress for ``stalled_ms``."""

    type: ClassVar[str] = "session.recovered"
    stalled_ms: int
    what: str
