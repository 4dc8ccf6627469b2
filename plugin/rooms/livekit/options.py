"""What a LiveKit room can be told.  Needs nothing of LiveKit, so that settings are read without the extra."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Identity = Annotated[str, Field(min_length=1, max_length=256)]
Identities = Annotated[tuple[Identity, ...], Field(max_length=256)]
Who = Literal["nobody", "listened"] | Identities
"""Nobody, whoever's commands count (``obey``), or the participants with these identities.  Other agents never."""


class LiveKitOptions(BaseModel):
    """Section ``livekit`` of the settings (``VENUS_LIVEKIT__...``): who is heard and seen, deadlines and limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen_to: Literal["all", "first"] | Identities = "all"
    """Everybody, whoever has been here longest, or the participants with these identities.  Other agents never."""
    max_listened: int = Field(default=8, ge=1, le=64)
    """Microphones heard at a time, in the order of joining; others are counted and wait until one of them goes."""
    obey: Literal["heard", "anyone"] = "heard"
    """Whose commands (RPC, typed text, acknowledgements) count: those of participants who are listened to, or all."""
    say_from: Who = "nobody"
    """Who may have a text spoken word for word (``venus.say``): others take it for the agent's own words."""
    interrupt_from: Who = "listened"
    """Who may silence the agent (``venus.interrupt``).  Where strangers meet, name whom you trust."""
    video: Literal["newest", "camera", "screen", "off"] = "newest"
    """Which picture is taken: the source that was published last, or only cameras, or only shared screens.  Nothing is
    subscribed before an engine asks for pictures."""
    video_from: Identity | None = None
    """Take pictures of this identity alone."""
    picture_every_ms: int = Field(default=500, ge=0, le=60_000)
    """A picture is converted at most this often."""
    join_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long a room in which nobody has been yet is waited in."""
    empty_s: float = Field(default=20.0, ge=0, le=86_400)
    """How long the agent stays after the last participant (other agents do not count) has left."""
    connect_s: float = Field(default=20.0, gt=0, le=300)
    """How long joining may take, all attempts together."""
    reconnect_s: float = Field(default=30.0, gt=0, le=3600)
    """How long a lost connection may take to come back before the room is left."""
    close_deadline_s: float = Field(default=3.0, gt=0, le=60)
    """How long leaving may take before it is left to itself."""
    listener_wait_s: float = Field(default=10.0, ge=0, le=600)
    """With somebody in the room: how long speech waits for the first subscriber of the agent's track."""
    acknowledges: bool = True
    """Pages may report playback (``venus.ack``).  Where nobody does, or all are on the telephone, it is estimated."""
    playout_delay_ms: int = Field(default=150, ge=0, le=2000)
    """From a pulled frame to the listener's ear: our queue, the network, the listener's jitter buffer and device."""
    lead_ms: int = Field(default=40, ge=0, le=40)
    """Speech is handed over this much ahead, so that a late event loop is not heard."""
    mix_wait_ms: int = Field(default=60, ge=0, le=500)
    """How long the mix of several participants waits for one whose audio is late."""
    audio_backlog_ms: int = Field(default=10_000, ge=100, le=60_000)
    """Received audio nobody took: beyond this the oldest is dropped and counted."""
    outbox_events: int = Field(default=512, ge=16, le=65_536)
    """Events waiting to be sent: beyond this the oldest passing ones are dropped and counted."""
    captions: bool = True
    """Write ``lk.transcription`` for both sides."""
    track_name: str = Field(default="venus", min_length=1, max_length=64)
    """Name of the agent's track."""
