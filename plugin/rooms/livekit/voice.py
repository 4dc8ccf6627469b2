"""The agent's track: pulls 20 ms frames by its own clock and hands over those that sound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ....engines.base import Int16Pcm
from ..base import PLAYOUT_MS, PLAYOUT_SAMPLES, PlayoutFrame, PlayoutSource
from . import sdk
from .stretches import Stretches

QUEUE_MS = 60
_FRAME_S = PLAYOUT_MS / 1000
_LATE_S = 0.2
"""A pump later than this leaves the missed time out instead of sending a burst."""


@dataclass(slots=True)
class VoiceCounters:
    """Frames of 20 ms."""

    pulled: int = 0
    sent: int = 0
    skipped: int = 0
    """Time slots left out because the event loop was late; what was to be said is said afterwards."""
    failed: int = 0
    """Frames that the SDK did not take."""


class Sink(Protocol):
    """Where frames that sound go; :class:`~.sdk.Source` in a room."""

    async def put(self, pcm: Int16Pcm) -> None:
        """Take 20 ms; may wait for room in a queue.  Raises :class:`~.sdk.MediaFailed`."""
        ...


class _Silence:
    """What is played until the session says what to play."""

    def __init__(self) -> None:
        self._frame = PlayoutFrame(-1, np.zeros(PLAYOUT_SAMPLES, dtype=np.int16), silent=True)

    def pull(self) -> PlayoutFrame:
        return self._frame


class Voice:
    """Pulls one frame every 20 ms, and ``lead_ms`` ahead of that while something sounds.

    Silence is not sent, since LiveKit's source sends it by itself: so nothing waits in its queue when speech begins,
    and never more than 60 ms when it is cut off.  ``begins`` is told the index of every stretch before its sound.
    """

    def __init__(self, sink: Sink, lead_ms: int, begins: Callable[[int], None]) -> None:
        self._sink = sink
        self.source: PlayoutSource = _Silence()
        self.counters = VoiceCounters()
        self._lead_s = lead_ms / 1000
        self._begins = begins
        self._stretches = Stretches()
        self._flowing = asyncio.Event()

    def played(self, stretch: int, played_ms: float) -> int | None:
        """Number of the newest frame that a device has played, by :meth:`Stretches.played`."""
        return self._stretches.played(stretch, played_ms)

    def flow(self, *, on: bool) -> None:
        """Let frames be pulled, or not: nobody is to hear them, or the connection is gone."""
        if on:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def run(self) -> None:
        """Pull until cancelled."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        ahead_s = 0.0
        while True:
            if not self._flowing.is_set():
                await self._flowing.wait()
                due_s = loop.time()
            frame = self.source.pull()
            self.counters.pulled += 1
            await self._send(frame)
            ahead_s = 0.0 if frame.silent else self._lead_s
            due_s += _FRAME_S
            wait_s = due_s - ahead_s - loop.time()
            if wait_s < -_LATE_S:
                skipped = int(-wait_s / _FRAME_S)
                self.counters.skipped += skipped
                due_s += skipped * _FRAME_S
            await asyncio.sleep(max(0.0, wait_s))

    async def _send(self, frame: PlayoutFrame) -> None:
        begun = self._stretches.note(frame)
        if begun is not None:
            self._begins(begun)
        if frame.silent:
            return
        try:
            await self._sink.put(frame.pcm)
            self.counters.sent += 1
        except sdk.MediaFailed:
            self.counters.failed += 1
