"""The newest picture of a room's user; converted only when somebody asks for it, and not too often."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

from ...engines.base import Frame, RgbImage

LARGEST_PICTURE: Final = 3840 * 2160
"""Pixels of the largest picture that is taken as it is."""

Raw = TypeVar("Raw")


class PictureSlot(ABC, Generic[Raw]):
    """One slot; a new picture replaces the old one whether or not that was looked at.

    Within ``every_ms`` of a converted picture the same one is given again.
    """

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._raw: Raw | None = None
        self._captured_ms = 0.0
        self._converted: Frame | None = None

    def put(self, raw: Raw, captured_ms: float) -> None:
        """Keep a picture, captured at ``captured_ms`` of the session's clock."""
        self._raw, self._captured_ms = raw, captured_ms

    def clear(self) -> None:
        """Forget the picture: an old one must not look like the present."""
        self._raw = self._converted = None

    def _newest(self) -> Frame | None:
        """The newest picture as upright RGB, or ``None`` where there is none."""
        last = self._converted
        if self._raw is not None and (last is None or self._captured_ms - last.captured_ms >= self._every_ms):
            raw, self._raw = self._raw, None
            image = self._convert(raw)
            if image is not None:
                self._converted = Frame(image, self._captured_ms)
        return self._converted

    @abstractmethod
    def _convert(self, raw: Raw) -> RgbImage | None:
        """Convert and count it; ``None`` for one that cannot be converted: the one before stays."""
