"""The newest picture of the source that was chosen; converted only when somebody asks for it, and not too often."""

from __future__ import annotations

from dataclasses import dataclass

from ....engines.base import Frame
from .sdk import MediaFailed, rtc, thinned, upright


@dataclass(slots=True)
class PictureCounters:
    """Pictures of the chosen source."""

    received: int = 0
    conversions: int = 0
    thinned: int = 0
    """Of those, pictures that were too large and lost rows and columns first."""
    failed: int = 0
    """Pictures that could not be converted; the one before stays."""


class LatestPicture:
    """One slot.  Within ``every_ms`` of a converted picture the same one is given again."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._raw: rtc.VideoFrameEvent | None = None
        self._captured_ms = 0.0
        self._converted: Frame | None = None
        self.counters = PictureCounters()

    def put(self, event: rtc.VideoFrameEvent, captured_ms: float) -> None:
        """Keep a frame, captured at ``captured_ms`` of the room's clock."""
        self.counters.received += 1
        self._raw, self._captured_ms = event, captured_ms

    def get(self) -> Frame | None:
        """The newest picture as upright RGB, or ``None`` where there is none."""
        last = self._converted
        if self._raw is not None and (last is None or self._captured_ms - last.captured_ms >= self._every_ms):
            raw, self._raw = self._raw, None
            try:
                frame = thinned(raw.frame)
                self._converted = Frame(upright(frame, raw), self._captured_ms)
            except MediaFailed:
                self.counters.failed += 1
            else:
                self.counters.conversions += 1
                self.counters.thinned += frame is not raw.frame
        return self._converted

    def clear(self) -> None:
        """Forget the picture: an old one must not look like the present."""
        self._raw = self._converted = None
