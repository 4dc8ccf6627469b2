"""What can be set about the model in LiveKit beside who it is and how it speaks."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DuplexOptions(BaseModel):
    """Timing and limits of one model's sessions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lead_ms: int = Field(default=100, ge=20, le=200)
    """How far ahead of real time speech is handed to LiveKit.  So much can still be heard after the agent yielded when
    nothing is attached to the session that could take it back."""
    playout_delay_ms: int = Field(default=100, ge=0, le=2000)
    """Estimate from the time a frame is due to its being heard, used while nobody reports playback."""
    audio_backlog_ms: int = Field(default=10_000, ge=1000, le=60_000)
    """Received audio that the engine has not taken: beyond this the oldest is dropped and counted."""
    load_s: float = Field(default=300.0, gt=0, le=3600)
    """How long loading the models may take; some seconds are usual, on a cold disk more."""
    begin_s: float = Field(default=60.0, gt=0, le=600)
    """How long a loaded engine may take to begin a conversation."""
    close_s: float = Field(default=15.0, gt=0, le=300)
    """How long the end of a conversation may take, and freeing the models; what takes longer is cancelled, and after
    as long again left to itself."""
