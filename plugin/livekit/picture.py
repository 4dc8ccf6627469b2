"""The user's camera or screen: the newest frame is kept, and converted once per unit."""

from __future__ import annotations

import numpy as np

from ...engines.base import Frame, RgbImage
from ..rooms.livekit.sdk import thinned
from ..rooms.picture import LARGEST_PICTURE
from .compat import rtc


class NewestPicture:
    """One slot.  LiveKit's frames carry neither a time nor a rotation here, so the time is that of their arrival."""

    def __init__(self, unit_ms: int) -> None:
        self._unit_ms = unit_ms
        self._raw: rtc.VideoFrame | None = None
        self._captured_ms = 0.0
        self.received = 0
        self.converted = 0
        self.failed = 0
        """Pictures that LiveKit could not convert, or not planar and with more pixels than 4K has."""

    def put(self, frame: rtc.VideoFrame, captured_ms: float) -> None:
        """Keep ``frame``; the one before it is forgotten."""
        self.received += 1
        self._raw, self._captured_ms = frame, captured_ms

    def take(self, start_ms: float, end_ms: float) -> Frame | None:
        """The newest picture when the audio ``[start_ms, end_ms)`` completes a unit, otherwise ``None``."""
        if self._raw is None or int(start_ms // self._unit_ms) == int(end_ms // self._unit_ms):
            return None
        raw, self._raw = self._raw, None
        try:
            image = _rgb(raw)
        except Exception:  # noqa: BLE001 - LiveKit raises nothing narrower, and a bad picture must not end a call
            self.failed += 1
            return None
        self.converted += 1
        return Frame(image, self._captured_ms)


_CHANNELS = {rtc.VideoBufferType.RGBA: [0, 1, 2], rtc.VideoBufferType.BGRA: [2, 1, 0]}
"""What LiveKit does not convert to RGB; frames of a room are I420, which it does."""


def _rgb(frame: rtc.VideoFrame) -> RgbImage:
    channels = _CHANNELS.get(frame.type) if frame.width * frame.height <= LARGEST_PICTURE else None
    if channels is not None:
        pixels = np.frombuffer(frame.data, dtype=np.uint8).reshape(frame.height, frame.width, 4)
        return np.ascontiguousarray(pixels[:, :, channels])
    rgb = thinned(frame).convert(rtc.VideoBufferType.RGB24)
    return np.frombuffer(rgb.data, dtype=np.uint8).reshape(rgb.height, rgb.width, 3)
