"""From whatever a room delivers to units: exactly ``unit_ms`` long, gaps filled and counted, nothing replayed late.

:class:`Aligner` puts chunks on one line of samples and names the gaps; :class:`Chunker` cuts it into units and holds
those the engine has not taken yet.  Here, and only here, input is dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from ..engines.base import INPUT_HZ, FloatPcm, Frame, MediaUnit
from .rooms.base import AudioChunk

SAMPLES_PER_MS = INPUT_HZ // 1000
MAX_FRAME_AGE_MS = 1500
MAX_START_MS = 30_000
"""What may wait while the engine has not taken its first unit yet."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """New samples of the user, never seen before.  ``lost`` samples before ``position`` did not arrive."""

    position: int
    samples: FloatPcm
    lost: int = 0


class Aligner:
    """Removes what arrives twice or too late and names what did not arrive.  Pure; one per session."""

    def __init__(self) -> None:
        self._next = 0
        self.lost_samples = 0
        self.repeated_samples = 0
        """Samples that came again, or after their place had been given up."""
        self.broken_samples = 0
        """Samples that were no finite numbers and became silence."""

    @property
    def position(self) -> int:
        """Where the next sample is expected."""
        return self._next

    def add(self, chunk: AudioChunk) -> Aligned | None:
        """The new part of ``chunk``, or ``None`` when there is none."""
        samples, position = chunk.samples, chunk.position
        if position < self._next:
            repeated = min(self._next - position, len(samples))
            self.repeated_samples += repeated
            samples, position = samples[repeated:], position + repeated
        if len(samples) == 0:
            return None
        finite = np.isfinite(samples)
        if not finite.all():
            self.broken_samples += int(len(samples) - np.count_nonzero(finite))
            samples = np.where(finite, samples, np.float32(0.0)).astype(np.float32)
        lost = position - self._next
        self.lost_samples += lost
        self._next = position + len(samples)
        return Aligned(position, samples, lost)


class Chunker:
    """Cuts aligned audio into units and keeps those that wait for the engine.

    Overflow rule ("keep the newest"): when more than max(2 s, 2 units) wait, all but the newest waiting unit are
    dropped; what they held reaches the next unit as ``missing_ms`` and is returned by :meth:`take_dropped_ms` for the
    timeline.  The rule rests until the engine has taken its first units and caught up once (a burst at the start is
    normal; more than 30 s of it is not), and in fast mode, where media time stands still.
    """

    def __init__(self, unit_ms: int, *, fast: bool = False) -> None:
        if unit_ms < 1:
            raise ValueError("a unit lasts at least 1 ms")
        self.unit_ms = unit_ms
        self._unit_samples = unit_ms * SAMPLES_PER_MS
        self._fast = fast
        self._limit_units = max(2000 // unit_ms, 2)
        self._start_limit_units = max(MAX_START_MS // unit_ms, self._limit_units)
        self._starting = True
        self._waiting: deque[MediaUnit] = deque()
        self._buffer = np.zeros(self._unit_samples, dtype=np.float32)
        self._filled = 0
        self._unit_start = 0  # in samples
        self._lost_here = 0  # lost samples inside the unit being filled
        self._missing_before_ms = 0  # dropped before the oldest waiting unit
        self._frame: Frame | None = None
        self._used_frame_ms = -1.0
        self._index = 0
        self._dropped_ms = 0
        self.dropped_units = 0
        self.stale_frames = 0

    @property
    def waiting(self) -> int:
        """Complete units that were not taken yet."""
        return len(self._waiting)

    def offer_frame(self, frame: Frame) -> None:
        """Keep ``frame`` for the unit being filled; the newest capture wins."""
        if self._frame is None or frame.captured_ms >= self._frame.captured_ms:
            self._frame = frame

    def add(self, aligned: Aligned) -> None:
        """Append audio; ``aligned.lost`` samples before it become zeros."""
        self._fill_gap(aligned.lost)
        rest = aligned.samples
        while len(rest):
            space = self._unit_samples - self._filled
            part, rest = rest[:space], rest[space:]
            self._buffer[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            if self._filled == self._unit_samples:
                self._complete()
        self._enforce_limit()

    def take(self) -> MediaUnit | None:
        """The oldest waiting unit, or ``None``.  Indices count from 0 without gaps; ``start_ms`` may jump."""
        if not self._waiting:
            return None
        unit = self._waiting.popleft()
        unit = replace(unit, index=self._index, missing_ms=unit.missing_ms + self._missing_before_ms)
        self._missing_before_ms = 0
        self._index += 1
        return unit

    def caught_up(self) -> None:
        """Say that the engine has worked off what it was given; ends the leniency of the start when nothing waits."""
        if not self._waiting:
            self._starting = False

    def restart(self) -> None:
        """Count indices from 0 again, for a new engine session, with the leniency of a start."""
        self._index = 0
        self._starting = True

    def take_dropped_ms(self) -> int:
        """Milliseconds of arrived audio dropped by the overflow rule since the last call."""
        dropped, self._dropped_ms = self._dropped_ms, 0
        return dropped

    def _fill_gap(self, lost: int) -> None:
        if not lost:
            return
        space = self._unit_samples - self._filled
        if lost < space:
            self._buffer[self._filled : self._filled + lost] = 0.0
            self._filled += lost
            self._lost_here += lost
            return
        self._buffer[self._filled :] = 0.0
        self._filled = self._unit_samples
        self._lost_here += space
        self._complete()
        whole, rest = divmod(lost - space, self._unit_samples)
        if not self._fast and whole > self._limit_units:
            # Units of nothing are not worth making: their time is counted and skipped.  Those that wait come before
            # it and are older than the limit by now.
            self._drop(len(self._waiting))
            self._missing_before_ms += whole * self.unit_ms
            self._unit_start += whole * self._unit_samples
            whole = 0
        for _ in range(whole):
            self._buffer[:] = 0.0
            self._lost_here = self._unit_samples
            self._complete()
        self._buffer[:rest] = 0.0
        self._filled = self._lost_here = rest

    def _complete(self) -> None:
        start_ms = self._unit_start // SAMPLES_PER_MS
        self._waiting.append(
            MediaUnit(
                index=-1,  # given when taken
                start_ms=start_ms,
                audio=self._buffer.copy(),
                frames=self._fresh_frames(start_ms + self.unit_ms),
                missing_ms=-(-self._lost_here // SAMPLES_PER_MS),
            )
        )
        self._unit_start += self._unit_samples
        self._filled = 0
        self._lost_here = 0

    def _fresh_frames(self, end_ms: int) -> tuple[Frame, ...]:
        frame = self._frame
        if frame is None or frame.captured_ms <= self._used_frame_ms:
            return ()
        self._used_frame_ms = frame.captured_ms
        self._frame = None
        if end_ms - frame.captured_ms > MAX_FRAME_AGE_MS:
            self.stale_frames += 1
            return ()
        return (frame,)

    def _enforce_limit(self) -> None:
        limit = self._start_limit_units if self._starting else self._limit_units
        if not self._fast and len(self._waiting) > limit:
            self._drop(len(self._waiting) - 1)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            unit = self._waiting.popleft()
            self.dropped_units += 1
            self._dropped_ms += self.unit_ms - unit.missing_ms
            self._missing_before_ms += self.unit_ms
