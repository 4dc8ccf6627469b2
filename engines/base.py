"""The contract between the runtime and whatever decides and speaks.

Input and output are two streams, because speech outlives the unit that caused it and overlap is the normal case.
An :class:`Engine` owns what its sessions share (weights, worker threads); an :class:`EngineSession` is one
conversation. Every input method of a session is synchronous, thread-safe and returns at once: the work happens on the
engine's threads and comes back through :meth:`EngineSession.events`.

Times are media milliseconds since the session began (samples define time, never the wall clock).  Audio into an
engine is mono float32 in [-1, 1] at :data:`INPUT_HZ`; audio out is mono int16 at :data:`OUTPUT_HZ`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

INPUT_HZ = 16_000
OUTPUT_HZ = 24_000

FloatPcm = npt.NDArray[np.float32]
"""Mono samples in [-1, 1]."""
Int16Pcm = npt.NDArray[np.int16]
"""Mono 16-bit samples."""
RgbImage = npt.NDArray[np.uint8]
"""``uint8[height, width, 3]``, RGB."""


# -- errors ---------------------------------------------------------------------------------------------------------


class VenusError(Exception):
    """Base of every error this project raises on purpose; the message says what to do next."""


class EngineError(VenusError):
    """An engine could not do what it was asked for."""


class EngineFull(EngineError):
    """All ``max_sessions`` of the engine are in use."""


class Unsupported(EngineError):
    """The engine's :attr:`Engine.capabilities` do not include what was asked for."""


class NotEnoughMemory(EngineError):
    """The machine has too little free memory for the models; raised before anything is loaded."""


class MissingExtra(VenusError, ImportError):
    """A module needs packages of an extra that is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} needs the '{extra}' extra: pip install 'realtime-venus[{extra}]'")
        self.extra = extra


# -- input ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture of the user's camera or screen.  ``captured_ms`` is its capture time on the session's clock."""

    image: RgbImage
    captured_ms: float


@dataclass(frozen=True, slots=True)
class MediaUnit:
    """One step of input: exactly ``unit_ms`` of audio and at most the newest frames of that span.

    ``audio`` is ``float32[unit_ms * 16]``; gaps are zeros, and ``missing_ms`` says how many milliseconds of it (or of
    what was dropped before it) never arrived.
    """

    index: int
    start_ms: int
    audio: FloatPcm
    frames: tuple[Frame, ...] = ()
    missing_ms: int = 0


class Language(StrEnum):
    """A spoken language, by its ISO 639-1 code."""

    EN = "en"
    ZH = "zh"


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a session is opened with.

    ``language`` ``None`` means: follow the user.  ``voice`` ``None`` means the default voice of the language spoken.
    ``facts`` are statements the engine may repeat as true.  ``fast`` lets media time stand still (files, tests):
    then ``UnitDone`` waits until the next ``unit_ms`` of speech is ready or nothing is being computed.
    """

    language: Language | None = None
    voice: str | None = None
    persona: str | None = None
    system_prompt: str | None = None
    facts: tuple[str, ...] = ()
    fast: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """What :meth:`EngineSession.configure` changes; ``None`` leaves a value as it is.

    The language ``"auto"`` follows the user; the voice ``"auto"`` is the default voice of the language spoken.
    """

    language: Language | Literal["auto"] | None = None
    voice: str | None = None
    persona: str | None = None
    facts: tuple[str, ...] | None = None


class OverlapPhase(StrEnum):
    """Whether confirmed user speech over the agent has begun or ended."""

    STARTED = "started"
    ENDED = "ended"


# -- output ---------------------------------------------------------------------------------------------------------


class Decision(StrEnum):
    """What the engine decided for the moment."""

    LISTEN = "listen"
    SPEAK = "speak"


class Verdict(StrEnum):
    """The engine's judgement of an overlap: keep the output paused, go on speaking, or give up the floor."""

    HOLD = "hold"
    GO_ON = "go_on"
    YIELD = "yield"


@dataclass(frozen=True, slots=True)
class Decided:
    """The engine listens or speaks from ``at_ms`` on; sent on every change."""

    at_ms: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class Heard:
    """The user's words between ``start_ms`` and ``end_ms``; a later event with ``final`` replaces the partial ones."""

    at_ms: int
    text: str
    start_ms: int
    end_ms: int
    final: bool
    language: Language


@dataclass(frozen=True, slots=True)
class Text:
    """Words of the agent and the span of samples (24 kHz, from the utterance's start) in which they are spoken."""

    at_ms: int
    utterance_id: str
    text: str
    first_sample: int
    end_sample: int


@dataclass(frozen=True, slots=True)
class Speech:
    """A stretch of the agent's voice: ``pcm`` is ``int16[n]`` at 24 kHz and starts at ``first_sample`` of the
    utterance.

    ``opener`` marks speech that was prepared beforehand and is not yet the answer itself.
    """

    at_ms: int
    utterance_id: str
    first_sample: int
    pcm: Int16Pcm
    opener: bool = False


@dataclass(frozen=True, slots=True)
class Overlap:
    """The verdict on user speech over the utterance.  ``kind`` says what it was taken for, ``score`` is in [0, 1]."""

    at_ms: int
    utterance_id: str
    verdict: Verdict
    kind: str
    score: float


@dataclass(frozen=True, slots=True)
class DelegateOpened:
    """A private request to the tools has begun; evidence is frozen at ``at_ms``."""

    at_ms: int
    delegate_id: str


@dataclass(frozen=True, slots=True)
class DelegateText:
    """A piece of the private request; never shown and never spoken."""

    at_ms: int
    delegate_id: str
    text: str


@dataclass(frozen=True, slots=True)
class DelegateClosed:
    """The request is complete; ``query`` is its whole text, trimmed."""

    at_ms: int
    delegate_id: str
    query: str


@dataclass(frozen=True, slots=True)
class DelegateRejected:
    """The request was malformed; nothing is executed."""

    at_ms: int
    delegate_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """No more speech or text will come for the utterance, which has ``samples`` samples in all."""

    at_ms: int
    utterance_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class UnitDone:
    """Unit ``index`` has been taken in; ``timings`` are milliseconds by stage."""

    at_ms: int
    index: int
    timings: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something went wrong.  After a ``fatal`` one the session gives no further events and must be closed."""

    at_ms: int
    code: str
    message: str
    fatal: bool = False


EngineEvent = (
    Decided
    | Heard
    | Text
    | Speech
    | Overlap
    | DelegateOpened
    | DelegateText
    | DelegateClosed
    | DelegateRejected
    | TurnEnded
    | UnitDone
    | Trouble
)


# -- the two abstract classes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a session of the engine can do; calling anything else raises :class:`Unsupported`."""

    say: bool = False
    """``say(text)`` speaks the text word for word."""
    type: bool = False
    """``type(text)`` is understood as if the user had said it."""
    inject: bool = False
    """``inject(background)`` brings a result into the conversation."""
    facts: bool = False
    """Facts can be set, and are the only changing things the engine states."""
    persona: bool = False
    transcripts: bool = False
    """The engine reports the user's words."""
    overlap: bool = False
    """The engine gives verdicts on overlaps by itself."""
    snapshot: bool = False
    vision: bool = False
    text_chars: int = 4000
    """Longest text that ``type``, ``say`` and ``inject`` take."""


class EngineSession(ABC):
    """One conversation.  Input methods never block and may be called from any thread."""

    @abstractmethod
    def push(self, unit: MediaUnit) -> None:
        """Give the next unit: in order, without gaps in ``index``.  Never waits for speech.

        Raises ``ValueError`` for a unit out of order or of the wrong length.
        """

    @abstractmethod
    def overlap(self, phase: OverlapPhase, at_ms: int) -> None:
        """Say that confirmed user speech over the agent began or ended at ``at_ms``."""

    @abstractmethod
    def heard(self, utterance_id: str, samples: int) -> None:
        """Playback truth: the listener has heard the first ``samples`` samples of the utterance."""

    @abstractmethod
    def interrupt(self, utterance_id: str) -> None:
        """The utterance was flushed by the runtime or the user (a stop button): stop producing it.

        An empty ``utterance_id`` means whatever reply is pending or being spoken: the user stopped the agent after it
        had decided to speak and before anything of the reply was known by a name.  Without such a reply it does
        nothing.
        """

    @abstractmethod
    def type(self, text: str) -> None:
        """Take typed text as the user's turn.

        Raises :class:`Unsupported`, and :class:`EngineError` for more than ``capabilities.text_chars``.
        """

    @abstractmethod
    def say(self, text: str) -> None:
        """Speak ``text`` word for word.  Raises as :meth:`type`."""

    @abstractmethod
    def inject(self, background: str) -> None:
        """Bring in a background result; kept until an idle boundary.  Raises as :meth:`type`."""

    @abstractmethod
    def configure(self, changes: Changes) -> None:
        """Change language, voice, persona or facts from the next answer on.  Raises :class:`Unsupported`."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """The conversation so far, in the engine's own format.  Raises :class:`Unsupported`."""

    @abstractmethod
    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of the same engine; ``ValueError`` when it is not one.  Raises :class:`Unsupported`."""

    @abstractmethod
    def events(self) -> AsyncIterator[EngineEvent]:
        """The one ordered output stream; ends after :meth:`close` or a fatal :class:`Trouble`.  May be asked for
        once.
        """

    @abstractmethod
    async def close(self) -> None:
        """Stop all work of the session and end :meth:`events`.  May be called repeatedly."""


class Engine(ABC):
    """Owns what sessions share.  Runs on threads of its own and may be opened from any event loop."""

    name: str
    unit_ms: int
    """Length of a unit, in milliseconds."""
    languages: tuple[Language, ...]
    voices: Mapping[Language, tuple[str, ...]]
    """Names of the voices by language, the default one first."""
    modalities: frozenset[Literal["audio", "video"]]
    max_sessions: int
    capabilities: Capabilities

    @abstractmethod
    async def load(self) -> None:
        """Load and warm the models.  Raises :class:`NotEnoughMemory` before loading, :class:`EngineError` otherwise."""

    @abstractmethod
    def open(self, options: SessionOptions) -> EngineSession:
        """Begin a conversation.  Raises :class:`EngineFull`; ``ValueError`` for an unknown voice or language."""

    @abstractmethod
    async def close(self) -> None:
        """Close every session and free the models.  May be called repeatedly."""
