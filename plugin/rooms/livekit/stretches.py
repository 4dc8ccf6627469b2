"""Stretches of speech in the agent's track, by which a page says how far its device has played.  Pure.

A page of LiveKit learns no time of the sender's clock.  It can tell when the agent's sound begins, and count: so every
run of frames that are not silent has a number, which is told before it, and the page counts milliseconds inside it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..base import PLAYOUT_MS, PlayoutFrame

_REMEMBERED = 64


@dataclass(slots=True)
class _Stretch:
    index: int
    first: int
    frames: int


class Stretches:
    """Remembers the last stretches, each with its frame numbers."""

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque(maxlen=_REMEMBERED)
        self._open = False
        self._next = 0

    def note(self, frame: PlayoutFrame) -> int | None:
        """A frame goes out.  Returns the index of the stretch that begins with it, if one does."""
        if frame.silent:
            self._open = False
            return None
        last = self._stretches[-1] if self._stretches else None
        if self._open and last is not None and frame.number == last.first + last.frames:
            last.frames += 1
            return None
        index, self._next = self._next, self._next + 1
        self._stretches.append(_Stretch(index, frame.number, 1))
        self._open = True
        return index

    def played(self, stretch: int, played_ms: float) -> int | None:
        """The newest frame that has been played whole; ``None`` for a stretch that was never (or long ago) told."""
        for one in reversed(self._stretches):
            if one.index == stretch:
                return one.first + min(int(played_ms // PLAYOUT_MS), one.frames) - 1
        return None
