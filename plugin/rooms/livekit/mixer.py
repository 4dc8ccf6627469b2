"""Several microphones on one 16 kHz clock: what is said at the same time is added up, in blocks of 20 ms.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ....engines.base import INPUT_HZ, FloatPcm
from ..input import FRAME_SAMPLES, InputClock

_LAG = INPUT_HZ // 5
_PATIENCE = 25
"""Frames (0.5 s) that must lag by more than 200 ms in a row before a source is placed anew."""
_BURST_S = 0.005
"""What comes closer together lay ready after a stall of ours: it is not late, and lags no longer when it is read."""


@dataclass(frozen=True, slots=True)
class Block:
    """20 ms of everybody: ``samples`` start at ``position``; ``powers`` are mean squares by speaker."""

    samples: FloatPcm
    position: int
    powers: Mapping[str, float]


@dataclass(slots=True)
class MixCounters:
    """Frames of 20 ms."""

    late: int = 0
    """Came when their place in the mix was taken already."""
    placed_anew: int = 0
    """Times a source was brought up to the present."""
    waited_out: int = 0
    """Blocks that went on without a source that was too late."""


@dataclass(slots=True)
class _Source:
    speaker: str
    last_s: float
    at: int
    lagging: int = 0
    rest: FloatPcm = field(default_factory=lambda: np.zeros(0, dtype=np.float32))


@dataclass(slots=True)
class _Pending:
    since_s: float
    parts: dict[str, FloatPcm] = field(default_factory=dict[str, FloatPcm])


class Mixer:
    """One per room.  A source alone passes at once; of several, none waits longer than ``wait_ms`` for another."""

    def __init__(self, clock: InputClock, wait_ms: int) -> None:
        self._clock = clock
        self._wait_s = wait_ms / 1000
        self._wait = wait_ms * INPUT_HZ // 1000
        self._called_s = 0.0
        self._sources: dict[str, _Source] = {}
        self._pending: dict[int, _Pending] = {}
        self.counters = MixCounters()

    @property
    def sources(self) -> int:
        """How many microphones are open."""
        return len(self._sources)

    def add(self, key: str, speaker: str, samples: FloatPcm, now_s: float, free: int) -> list[Block]:
        """Take ``float32[n]`` of the source ``key``; return the blocks that are complete now, in order.

        ``free`` is the first position of the room's input that nothing was put at yet.
        """
        wall = self._clock.position(now_s) - FRAME_SAMPLES
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _Source(speaker, now_s, _on_grid(max(free, wall)))
        self._called(now_s)
        paced = now_s - source.last_s > _BURST_S
        source.last_s = now_s
        joined = samples if source.rest.size == 0 else np.concatenate([source.rest, samples])
        whole = joined.size - joined.size % FRAME_SAMPLES
        source.rest = joined[whole:]
        for start in range(0, whole, FRAME_SAMPLES):
            self._follow(source, wall, free, paced=paced)
            self._place(key, source, joined[start : start + FRAME_SAMPLES], free, now_s)
        return self._ready(now_s)

    def remove(self, key: str, now_s: float) -> list[Block]:
        """The source has ended: nobody waits for it any more."""
        self._sources.pop(key, None)
        return self._ready(now_s)

    def _called(self, now_s: float) -> None:
        """After a stall of the whole event loop everybody's audio lies ready, and nobody is late."""
        if now_s - self._called_s > self._wait_s:
            for source in self._sources.values():
                source.last_s = now_s
        self._called_s = now_s

    def _follow(self, source: _Source, wall: int, free: int, *, paced: bool) -> None:
        if wall - source.at <= _LAG:
            source.lagging = 0
        elif paced:
            source.lagging += 1
        if source.lagging >= _PATIENCE:
            source.lagging = 0
            source.at = _on_grid(max(free, wall))
            self.counters.placed_anew += 1

    def _place(self, key: str, source: _Source, frame: FloatPcm, free: int, now_s: float) -> None:
        position = source.at
        source.at += FRAME_SAMPLES
        if position < free:
            self.counters.late += 1
            return
        self._pending.setdefault(position, _Pending(now_s)).parts[key] = frame

    def _ready(self, now_s: float) -> list[Block]:
        blocks: list[Block] = []
        for position in sorted(self._pending):
            pending = self._pending[position]
            absent = [
                source
                for key, source in self._sources.items()
                if key not in pending.parts and 0 <= position - source.at <= self._wait
            ]
            expected = any(now_s - source.last_s <= self._wait_s for source in absent)
            if expected and now_s - pending.since_s < self._wait_s:
                break
            self.counters.waited_out += bool(absent)
            del self._pending[position]
            blocks.append(self._mix(position, pending.parts))
        return blocks

    def _mix(self, position: int, parts: Mapping[str, FloatPcm]) -> Block:
        powers: dict[str, float] = {}
        for key, part in parts.items():
            source = self._sources.get(key)
            if source is not None:
                powers[source.speaker] = powers.get(source.speaker, 0.0) + float(np.mean(part * part))
        pieces = list(parts.values())
        samples = pieces[0] if len(pieces) == 1 else np.clip(np.sum(pieces, axis=0), -1.0, 1.0).astype(np.float32)
        return Block(samples, position, powers)


def _on_grid(position: int) -> int:
    """The first block boundary at or after ``position``: only there do all sources meet."""
    return -(-position // FRAME_SAMPLES) * FRAME_SAMPLES
