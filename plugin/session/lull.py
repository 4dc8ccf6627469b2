"""What is heard while nobody speaks, in longer chunks: the same samples in fewer pieces, and no unit any later."""

from __future__ import annotations

import numpy as np

from ..rooms.base import AudioChunk
from ..units import SAMPLES_PER_MS


class Lull:
    """Holds chunks back that nobody waits for.  Pure; one per session.

    A chunk goes on at once when it is ``urgent``, does not begin where the one before ended, or completes a unit (of
    ``unit_ms``, counted from sample 0), and whenever ``step_ms`` of audio have gathered.  What was held goes on before
    it, so that whoever counts samples notices nothing.
    """

    def __init__(self, unit_ms: int, step_ms: int) -> None:
        self._unit = unit_ms * SAMPLES_PER_MS
        self._step = step_ms * SAMPLES_PER_MS
        self._held: list[AudioChunk] = []
        self._samples = 0
        self._end = 0

    def add(self, chunk: AudioChunk, *, urgent: bool) -> list[AudioChunk]:
        """Take the next chunk and give what is to be looked at now, in order."""
        end = chunk.position + len(chunk.samples)
        if chunk.position != self._end or not len(chunk.samples):
            # An empty chunk fills no gap before it: the next one still does, and goes on at once for it.
            end = end if len(chunk.samples) else self._end
            self._end = max(self._end, end)
            return [*self.release(), chunk]
        self._held.append(chunk)
        self._samples += len(chunk.samples)
        self._end = end
        completes = end // self._unit > chunk.position // self._unit
        return self.release() if urgent or completes or self._samples >= self._step else []

    def release(self) -> list[AudioChunk]:
        """What is held, as one chunk."""
        held, self._held, self._samples = self._held, [], 0
        if len(held) < 2:
            return held
        samples = np.concatenate([chunk.samples for chunk in held])
        return [AudioChunk(samples, held[0].position, held[-1].arrival_s)]
