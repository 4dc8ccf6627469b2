"""The one interface between the runtime and a room.

The runtime knows no WebRTC library.  A room hands over the user's audio with arrival stamps, keeps the newest picture,
pulls the agent's audio in 20 ms frames when it can send them, carries timeline events out and commands in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ...engines.base import Changes, FloatPcm, Frame, Int16Pcm

PLAYOUT_MS = 20
PLAYOUT_SAMPLES = 480
"""Samples of a playout frame: 20 ms at 24 kHz, mono int16."""


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """Audio of the user: mono float32 at 16 kHz, any length.

    ``position`` is the index of its first sample on the room's input clock (16 kHz samples since the session began):
    a jump in it is a gap, filled with zeros downstream.  ``arrival_s`` is the event loop's clock (``loop.time()``,
    which is ``time.monotonic()`` outside tests) when the last sample arrived.
    """

    samples: FloatPcm
    position: int
    arrival_s: float


@dataclass(frozen=True, slots=True)
class PlayoutFrame:
    """20 ms of the agent's voice.  ``number`` counts the pulled frames of the session from 0 and names it in reports.

    ``silent`` frames share one buffer of zeros; a room may skip encoding them.
    """

    number: int
    pcm: Int16Pcm
    silent: bool


class PlayoutSource(Protocol):
    """What a room pulls from, once every 20 ms, on the event loop that runs the session.  Never blocks."""

    def pull(self) -> PlayoutFrame:
        """The next frame; silence when nothing is to be said."""
        ...


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The listener's device has played every frame up to ``number`` (inclusive)."""

    number: int


@dataclass(frozen=True, slots=True)
class TypeText:
    """The user typed ``text``; ``speaker`` is who, where a room has several."""

    text: str
    speaker: str = "user"


@dataclass(frozen=True, slots=True)
class Say:
    """Speak ``text`` word for word."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The user pressed stop: flush what is being said."""


@dataclass(frozen=True, slots=True)
class Configure:
    """Change language, voice, persona or facts."""

    changes: Changes


Command = Acknowledge | TypeText | Say | Interrupt | Configure


class MediaRoom(Protocol):
    """A place with one user (or a mix of users) and one agent."""

    @property
    def kind(self) -> str:
        """Short name for logs and the timeline: ``webrtc``, ``memory``, ``livekit``..."""
        ...

    @property
    def acknowledges(self) -> bool:
        """Whether the listener's device reports playback.  Without reports HEARD is estimated and marked so.

        Asked again many times a second, since listeners come and go.
        """
        ...

    @property
    def playout_delay_ms(self) -> int:
        """Estimated milliseconds from a pulled frame to the listener's ear, used when acknowledgements are missing."""
        ...

    def audio(self) -> AsyncIterator[AudioChunk]:
        """The user's audio, in order of ``position``; ends when the room is left.  Asked for once."""
        ...

    def latest_frame(self) -> Frame | None:
        """The newest picture, or ``None``; ``captured_ms`` is on the input clock."""
        ...

    def play(self, source: PlayoutSource) -> None:
        """Pull the agent's audio from ``source`` from now on."""
        ...

    def publish(self, event: dict[str, Any]) -> None:
        """Send one timeline event (JSON-ready) to the page.  Never blocks; bounded, the oldest partial ones drop."""
        ...

    def commands(self) -> AsyncIterator[Command]:
        """What the page asks for; ends when the room is left.  Asked for once."""
        ...

    async def close(self) -> None:
        """Leave the room.  May be called repeatedly."""
        ...


@runtime_checkable
class KnowsSpeakers(Protocol):
    """What a room with several people has beside :class:`MediaRoom`, since an engine hears only their mix."""

    def speaker(self, start_ms: int, end_ms: int) -> str | None:
        """Who spoke between two moments of the input clock; ``None`` when nobody was heard then."""
        ...
