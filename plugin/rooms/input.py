"""The user's audio on its way from a room to the session: one clock for all that is heard, one stream to read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from ...engines.base import INPUT_HZ, FloatPcm
from .base import AudioChunk

FRAME_SAMPLES = INPUT_HZ // 50
"""Samples of 20 ms at 16 kHz."""
_MARGIN = INPUT_HZ // 5


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


class UserAudio:
    """The room's input: whatever writes puts chunks in order of position; one reader for the whole session."""

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

    @property
    def next_position(self) -> int:
        """The first position that nothing was put at yet."""
        return self._free

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

    def silence_until(self, position: int, now_s: float) -> None:
        """Silence up to ``position``: nobody was sending until now, so that nothing was lost."""
        missing = position - self._free
        if missing > 0:
            self.counters.filled_samples += missing
            self.put(np.zeros(missing, dtype=np.float32), self._free, now_s, real=False)

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
