"""The user's picture: what of it is decoded, and the newest one for whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from av import VideoFrame
from av.error import FFmpegError

from ....engines.base import Frame, RgbImage
from ..picture import LARGEST_PICTURE as LARGEST_PICTURE
from ..picture import PictureSlot

PIXELS_PER_S = 1280 * 720 * 30
"""Pixels that are decoded in a second, and at most at once: the page sends a ninth of it."""
MOST_WAITING = 8
"""Encoded pictures that may wait for the decoder."""
_ASK_EVERY_S = 1.0
_KEY_HEADER = 10
_START_CODE = b"\x9d\x01\x2a"
KEEP_MS = 2000
"""A picture older than this is no longer the present: the camera was switched off, or the line is gone."""


@dataclass(slots=True)
class PictureCounters:
    """Pictures of one connection that were not decoded."""

    too_large: int = 0
    """Whole ones with more than :data:`LARGEST_PICTURE` pixels, or of a size that cannot be read."""
    too_many: int = 0
    """Came faster than is decoded."""
    unusable: int = 0
    """Build upon one that is missing, or are empty."""


class PictureGate:
    """Looks at encoded pictures (VP8, RFC 6386) before anything is spent on them.

    A page says itself how large its pictures are and how many come, so it must not decide what they cost.  After one
    that was refused nothing makes sense before the next whole picture.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._pixels = 0  # of a picture; 0 while a whole one is waited for
        self._budget = float(PIXELS_PER_S)
        self._at_s = self._asked_s = float("-inf")
        self.counters = PictureCounters()

    def admit(self, data: bytes, waiting: int) -> bool:
        """Whether to decode ``data`` while ``waiting`` others wait for the decoder."""
        whole = len(data) >= _KEY_HEADER and not data[0] & 1
        if whole:
            self._pixels = _pixels(data)
            if not 0 < self._pixels <= LARGEST_PICTURE:
                self._pixels = 0
                self.counters.too_large += 1
                return False
        if not self._pixels or not data or not (whole or data[0] & 1):
            self.counters.unusable += 1
            return False
        now = self._now_s()
        self._budget = min(float(PIXELS_PER_S), self._budget + max(0.0, now - self._at_s) * PIXELS_PER_S)
        self._at_s = now
        if waiting >= MOST_WAITING or self._budget < self._pixels:
            self._pixels = 0
            self.counters.too_many += 1
            return False
        self._budget -= self._pixels
        return True

    def asks(self) -> bool:
        """Whether to ask the page for a whole picture now; at most once a second."""
        now = self._now_s()
        if self._pixels or now - self._asked_s < _ASK_EVERY_S:
            return False
        self._asked_s = now
        return True


def _pixels(key: bytes) -> int:
    """Width times height of a whole picture; 0 if its header is none."""
    if key[3:6] != _START_CODE:
        return 0
    width, height = (int.from_bytes(key[at : at + 2], "little") & 0x3FFF for at in (6, 8))
    return width * height


class LatestPicture(PictureSlot[VideoFrame]):
    """The page's picture, of which nothing is left after :data:`KEEP_MS`."""

    def __init__(self, every_ms: int) -> None:
        super().__init__(every_ms)
        self.received = 0
        self.conversions = 0
        self.failed = 0
        """Pictures that could not be converted; the one before stays."""

    def put(self, raw: VideoFrame, captured_ms: float) -> None:
        """See :meth:`PictureSlot.put`."""
        self.received += 1
        super().put(raw, captured_ms)

    def get(self, now_ms: float) -> Frame | None:
        """The newest picture as RGB, or ``None`` where there is none at ``now_ms``."""
        if now_ms - self._captured_ms > KEEP_MS:
            self.clear()
        return self._newest()

    def _convert(self, raw: VideoFrame) -> RgbImage | None:
        try:
            image = cast(RgbImage, np.ascontiguousarray(raw.to_ndarray(format="rgb24")))
        except (FFmpegError, ValueError, MemoryError):
            self.failed += 1
            return None
        self.conversions += 1
        return image
