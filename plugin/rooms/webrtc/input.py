"""The user's audio: received frames become 16 kHz mono chunks at exact positions on the room's input clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from ....engines.base import INPUT_HZ, FloatPcm, Int16Pcm
from ..base import AudioChunk
from .resample import FACTOR, Decimator

FRAME_SAMPLES = INPUT_HZ // 50
"""Samples of a received frame (20 ms) at 16 kHz."""
_TOLERANCE = 2 * INPUT_HZ
"""How far the sender's clock may be from ours before it is set anew."""
_MARGIN = INPUT_HZ // 5
_PATIENCE = 150
"""Frames (3 s of audio) that must lag in a row before the clock is set anew: a single burst after a stall is no lag."""


@dataclass(slots=True)
class InputCounters:
    """What happened to the user's audio, in frames of 20 ms unless said otherwise."""

    received: int = 0
    late: int = 0
    """Came when its place was taken already."""
    holes: int = 0
    missing_samples: int = 0
    """16 kHz samples inside the holes."""
    rebased: int = 0
    """Times the sender's clock was set anew."""
    dropped_samples: int = 0
    """16 kHz samples dropped because nobody took them."""
    filled_samples: int = 0
    """16 kHz samples of silence put in while no audio was coming."""


class InputClock:
    """Maps arrival times to positions; it begins with the first sign of a user and outlives connections."""

    def __init__(self) -> None:
        self._start_s: float | None = None

    @property
    def started(self) -> bool:
        return self._start_s is not None

    def position(self, now_s: float) -> int:
        """Position (16 kHz samples) of what is being heard at ``now_s``; the first call is position 0."""
        if self._start_s is None:
            self._start_s = now_s
        return max(0, round((now_s - self._start_s) * INPUT_HZ))

    def milliseconds(self, now_s: float) -> float:
        """The same in milliseconds."""
        return self.position(now_s) * 1000 / INPUT_HZ


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


class UserAudio:
    """The room's input: one writer per connection, one reader for the whole session."""

    def __init__(self, backlog_ms: int) -> None:
        self.clock = InputClock()
        self.counters = InputCounters()
        self._limit = backlog_ms * INPUT_HZ // 1000
        self._chunks: deque[AudioChunk] = deque()
        self._waiting = 0
        self._free = 0
        self._last_s: float | None = None
        self._ready = asyncio.Event()
        self._closed = False

    @property
    def last_arrival_s(self) -> float | None:
        """When real audio came last."""
        return self._last_s

    def open_writer(self, channels: int) -> Writer:
        """A writer for a new connection; what it writes starts at the clock's present place."""
        return Writer(self, Decimator(channels), Placer(self.clock, self._free))

    def put(self, samples: FloatPcm, position: int, arrival_s: float, *, real: bool = True) -> None:
        """Append a chunk; drops the oldest beyond the limit."""
        if self._closed:
            return
        if position < self._free:
            self.counters.late += 1
            return
        if real:
            self.arrived(arrival_s)
            if position > self._free and self._free:
                self.counters.holes += 1
                self.counters.missing_samples += position - self._free
        self._free = position + samples.size
        self._chunks.append(AudioChunk(samples, position, arrival_s))
        self._waiting += samples.size
        while self._waiting > self._limit and len(self._chunks) > 1:
            dropped = self._chunks.popleft().samples.size
            self._waiting -= dropped
            self.counters.dropped_samples += dropped
        self._ready.set()

    def arrived(self, now_s: float) -> None:
        """Real audio came, whether or not there was still a place for it."""
        self._last_s = now_s

    def fill(self, now_s: float, *, lost: bool) -> None:
        """Bring the stream up to ``now_s``, since the session's time goes on without a microphone too.

        With ``lost`` audio should have come, so that most of it is left out as a gap, and the last 200 ms are left to
        audio that may still come; otherwise it is silence.
        """
        missing = self.clock.position(now_s) - self._free - (_MARGIN if lost else 0)
        if missing <= 0:
            return
        self.counters.filled_samples += missing
        silence = np.zeros(min(missing, FRAME_SAMPLES) if lost else missing, dtype=np.float32)
        self.put(silence, self._free + missing - silence.size, now_s, real=False)

    def close(self) -> None:
        """End the stream; what waits is still read."""
        self._closed = True
        self._ready.set()

    async def chunks(self) -> AsyncIterator[AudioChunk]:
        """The stream itself, until :meth:`close`."""
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._waiting -= chunk.samples.size
                yield chunk
            if self._closed:
                return
            self._ready.clear()
            await self._ready.wait()


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
