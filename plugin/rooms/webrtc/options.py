"""What a browser room can be told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class IceServer(BaseModel):
    """A STUN or TURN server; the page and the room both use it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    urls: tuple[str, ...] = Field(min_length=1)
    username: str | None = None
    credential: str | None = None


class WebRtcOptions(BaseModel):
    """Deadlines and limits of a browser room."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ice_servers: tuple[IceServer, ...] = ()
    """None by default: nothing outside the two machines is contacted."""
    join_s: float = Field(default=30.0, gt=0)
    """How long a new room waits for its first offer."""
    grace_s: float = Field(default=20.0, ge=0)
    """How long a room outlives a broken connection, so that the page can come back into the same session."""
    media_deadline_s: float = Field(default=10.0, gt=0)
    """A connection without its first sign of life (channel open, and audio where it was offered) is closed."""
    heartbeat_s: float = Field(default=2.0, gt=0)
    """Seconds between pings on the data channel."""
    silence_s: float = Field(default=8.0, gt=0)
    """A peer that sent neither a message nor audio for so long is closed."""
    close_deadline_s: float = Field(default=3.0, gt=0)
    """How long closing a connection may take before it is left to itself."""
    reorder_packets: int = Field(default=3, ge=1, le=16)
    """How many later packets may wait for a missing one before it is given up (20 ms each)."""
    audio_backlog_ms: int = Field(default=10_000, ge=100)
    """Received audio nobody took: beyond this the oldest is dropped and counted."""
    outbox_events: int = Field(default=512, ge=16)
    """Events waiting for the page: beyond this the oldest passing ones are dropped and counted."""
    video_sections: int = Field(default=0, ge=0, le=4)
    """Cameras and screens that a page may send.  Each is decoded, so an offer with more is refused."""
    picture_every_ms: int = Field(default=500, ge=0, le=60_000)
    """A picture is converted at most this often."""
    late_ms: int = Field(default=200, ge=20)
    """A sender that is later than this skips the time instead of sending a burst."""
