"""Who spoke when: an engine hears only the mix, so the room remembers whose microphone was how loud.  Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ....engines.base import INPUT_HZ
from ..input import FRAME_SAMPLES

_BLOCK_MS = FRAME_SAMPLES * 1000 // INPUT_HZ
_REMEMBERED = 120 * INPUT_HZ
"""Samples that are remembered: two minutes."""
_FLOOR_RISE = 1.01
"""By how much a microphone's noise floor may rise from block to block; it falls at once."""
_OVER_FLOOR = 2.0
_QUIETEST = 1e-7
"""Mean square of -70 dBFS: below it nobody speaks."""


class SpeakerLog:
    """Loudness of every microphone above its own noise, block by block."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[int, Mapping[str, float]]] = deque()
        self._floors: dict[str, float] = {}

    def note(self, position: int, powers: Mapping[str, float]) -> None:
        """A block at ``position`` (16 kHz samples) with the mean squares of everybody."""
        over: dict[str, float] = {}
        for speaker, power in powers.items():
            floor = min(power, self._floors.get(speaker, power) * _FLOOR_RISE)
            self._floors[speaker] = max(floor, _QUIETEST)
            excess = power - _OVER_FLOOR * self._floors[speaker]
            if excess > 0:
                over[speaker] = excess
        if over:
            self._blocks.append((position, over))
        while self._blocks and self._blocks[0][0] < position - _REMEMBERED:
            self._blocks.popleft()

    def forget(self, speaker: str) -> None:
        """The speaker's microphone has gone; what was said stays attributed."""
        self._floors.pop(speaker, None)

    def speaker(self, start_ms: int, end_ms: int) -> str | None:
        """Who was loudest between the two times (media milliseconds), or ``None`` when nobody was heard then."""
        first, end = (start_ms - _BLOCK_MS) * INPUT_HZ // 1000, end_ms * INPUT_HZ // 1000
        sums: dict[str, float] = {}
        for position, over in reversed(self._blocks):
            if position <= first:
                break
            if position < end:
                loudest = max(over, key=lambda speaker: over[speaker])
                sums[loudest] = sums.get(loudest, 0.0) + over[loudest]
        return max(sums, key=lambda speaker: sums[speaker]) if sums else None
