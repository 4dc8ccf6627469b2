"""What can be set about every session of a process."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ..reflex import ReflexSettings


def default_recordings_dir() -> Path:
    """``$XDG_DATA_HOME/realtime-venus/recordings``, or the same below ``~/.local/share``."""
    base = os.environ.get("XDG_DATA_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share"
    return root / "realtime-venus" / "recordings"


class SessionSettings(BaseModel):
    """Section ``session`` of the settings (``VENUS_SESSION__...``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record: bool = False
    """Write audio and timeline of every session to ``recordings_dir``; the page shows that it happens."""
    recordings_dir: Path = Field(default_factory=default_recordings_dir)
    duck_db: float = Field(default=12.0, ge=0, le=60)
    """How much quieter the agent gets at once when the user speaks over it."""
    hold_limit_ms: int = Field(default=600, ge=100, le=5000)
    """Held this long without a verdict, the output goes on ducked."""
    verdict_grace_ms: int = Field(default=700, ge=100, le=5000)
    """No verdict by the engine's ``unit_ms`` plus this means: go on."""
    kept_pause_ms: int = Field(default=120, ge=20, le=1000)
    """While speech is behind because of a hold, pauses inside it are cut to this length."""
    max_queued_speech_s: int = Field(default=300, ge=10, le=3600)
    """Speech that may wait to be played; more is discarded."""
    watchdog_s: float = Field(default=10.0, ge=1, le=600)
    """No progress for this long: what stalled is started anew."""
    fast_watchdog_s: float = Field(default=60.0, ge=1, le=3600)
    """The same in fast mode, where a unit is done only when what it led to is computed, on however slow a machine."""
    max_recoveries: int = Field(default=3, ge=0, le=100)
    """Recoveries without any progress between them; the next one ends the session."""
    max_text_chars: int = Field(default=4000, ge=1, le=100_000)
    """Longest typed text or ``say``."""
    tick_ms: int = Field(default=40, ge=10, le=200)
    """How often time limits are looked at while the agent speaks."""
    quiet_step_ms: int = Field(default=100, ge=0, le=100)
    """While nobody speaks, what is heard is looked at in steps of this length, which no unit waits for; 0: at once."""
    close_timeout_s: float = Field(default=5.0, ge=0.1, le=60)
    """How long engine and room may take to close."""
    reflex: ReflexSettings = ReflexSettings()

    def liveness_s(self, *, fast: bool) -> float:
        """How long without progress is too long."""
        return self.fast_watchdog_s if fast else self.watchdog_s
