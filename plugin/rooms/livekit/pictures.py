"""The newest picture of the source that was chosen; converted only when somebody asks for it, and not too often."""

from __future__ import annotations

from ....engines.base import Frame
from .sdk import MediaFailed, rtc, upright


class LatestPicture:
    """One slot.  Within ``every_ms`` of a converted picture the same one is given again."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._raw: rtc.VideoFrameEvent | None = None
        self._captured_ms = 0.0
        self._converted: Frame | None = None
        self.received = 0
        self.conversions = 0
        self.failed = 0
        """Pictures that could not be converted; the one before stays."""

    def put(self, event: rtc.VideoFrameEvent, captured_ms: float) -> None:
        """Keep a frame, captured at ``captured_ms`` of the room's clock."""
        self.received += 1
        self._raw, self._captured_ms = event, captured_ms

    def get(self) -> Frame | None:
        """The newest picture as upright RGB, or ``None`` where there is none."""
        last = self._converted
        if self._raw is not None and (last is None or self._captured_ms - last.captured_ms >= self._every_ms):
            raw, self._raw = self._raw, None
            try:
                self._converted = Frame(upright(raw), self._captured_ms)
            except MediaFailed:
                self.failed += 1
            else:
                self.conversions += 1
        return self._converted

    def clear(self) -> None:
        """Forget the picture: an old one must not look like the present."""
        self._raw = self._converted = None
