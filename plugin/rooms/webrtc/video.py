"""The user's picture: the newest frame is kept, converted only when somebody asks for it."""

from __future__ import annotations

from typing import cast

import numpy as np
from av import VideoFrame

from ....engines.base import Frame, RgbImage


class LatestPicture:
    """One slot; a new frame replaces the old one whether or not that was looked at."""

    def __init__(self) -> None:
        self._raw: VideoFrame | None = None
        self._captured_ms = 0.0
        self._converted: Frame | None = None
        self.received = 0

    def put(self, frame: VideoFrame, captured_ms: float) -> None:
        """Keep ``frame``, captured at ``captured_ms`` of the session's clock."""
        self.received += 1
        self._raw, self._captured_ms, self._converted = frame, captured_ms, None

    def get(self) -> Frame | None:
        """The newest picture as RGB, or ``None`` before the first."""
        if self._converted is None and self._raw is not None:
            image = cast(RgbImage, np.ascontiguousarray(self._raw.to_ndarray(format="rgb24")))
            self._converted = Frame(image, self._captured_ms)
        return self._converted

    def clear(self) -> None:
        """Forget the picture; an old one must not look like the present."""
        self._raw = self._converted = None
