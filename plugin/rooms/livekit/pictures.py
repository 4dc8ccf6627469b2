"""The newest picture of the source that was chosen, thinned and upright."""

from __future__ import annotations

from dataclasses import dataclass

from ....engines.base import Frame, RgbImage
from ..picture import PictureSlot
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


class LatestPicture(PictureSlot[rtc.VideoFrameEvent]):
    """The picture of the chosen source."""

    def __init__(self, every_ms: int) -> None:
        super().__init__(every_ms)
        self.counters = PictureCounters()

    def put(self, raw: rtc.VideoFrameEvent, captured_ms: float) -> None:
        """See :meth:`PictureSlot.put`."""
        self.counters.received += 1
        super().put(raw, captured_ms)

    def get(self) -> Frame | None:
        """The newest picture as upright RGB, or ``None`` where there is none."""
        return self._newest()

    def _convert(self, raw: rtc.VideoFrameEvent) -> RgbImage | None:
        try:
            frame = thinned(raw.frame)
            image = upright(frame, raw)
        except MediaFailed:
            self.counters.failed += 1
            return None
        self.counters.conversions += 1
        self.counters.thinned += frame is not raw.frame
        return image
