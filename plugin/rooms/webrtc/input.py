"""The page's audio: received frames become 16 kHz mono chunks at exact positions on the room's input clock."""

from __future__ import annotations

from ....engines.base import INPUT_HZ, Int16Pcm
from ..input import InputClock, UserAudio
from .resample import FACTOR, Decimator

_TOLERANCE = 2 * INPUT_HZ
"""How far the sender's clock may be from ours before it is set anew."""
_PATIENCE = 150
"""Frames (3 s of audio) that must lag in a row before the clock is set anew: a single burst after a stall is no lag."""


class Placer:
    """Gives each frame of one connection its position: by presentation time, checked against the room's clock."""

    def __init__(self, clock: InputClock, first_free: int) -> None:
        self._clock = clock
        self._free = first_free
        self._offset: int | None = None
        self._lagging = 0
        self.rebased = 0

    def place(self, pts: int, samples: int, now_s: float) -> int | None:
        """Position of a frame of ``samples`` (16 kHz) that starts at ``pts`` (48 kHz); ``None`` if it is too late."""
        wall = self._clock.position(now_s) - samples
        if self._offset is None:
            self._offset = max(self._free, wall) - pts // FACTOR
        position = pts // FACTOR + self._offset
        self._lagging = self._lagging + 1 if wall - position > _TOLERANCE else 0
        if position - wall > _TOLERANCE or self._lagging >= _PATIENCE:
            self.rebased += 1
            self._lagging = 0
            position = max(self._free, wall)
            self._offset = position - pts // FACTOR
        if position < self._free:
            return None
        self._free = position + samples
        return position


class Writer:
    """Takes the decoded frames of one connection."""

    def __init__(self, audio: UserAudio, decimator: Decimator, placer: Placer) -> None:
        self._audio = audio
        self._decimator = decimator
        self._placer = placer
        self._next: int | None = None

    def write(self, interleaved: Int16Pcm, samples: int, pts: int, now_s: float) -> None:
        """Place ``int16[samples * channels]`` at 48 kHz whose first sample has the presentation time ``pts``."""
        self._audio.counters.received += 1
        self._audio.arrived(now_s)
        before = self._placer.rebased
        position = self._placer.place(pts, samples // FACTOR, now_s)
        self._audio.counters.rebased += self._placer.rebased - before
        if position is None:
            self._audio.counters.late += 1
            return
        if position != self._next:
            self._decimator.reset()
        self._next = position + samples // FACTOR
        self._audio.put(self._decimator.push(interleaved), position, now_s)


def open_writer(audio: UserAudio, channels: int) -> Writer:
    """A writer for a new connection; what it writes starts at the clock's present place."""
    return Writer(audio, Decimator(channels), Placer(audio.clock, audio.next_position))
