"""Puts numbered packets back in order without holding back those that are in order already.

A packet that arrives in its place passes at once, so the buffer adds no delay of its own.  After a hole, later packets
wait until the missing one comes or ``patience`` of them have gathered; then the hole is given up and everything behind
it passes together.  A loss therefore costs its own 20 ms and nothing after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_HALF = 1 << 15
_WRAP = 1 << 16
_RESTART = 3000
"""A number this far from the expected one (a minute of audio) means that the sender began anew."""


@dataclass(slots=True)
class ReorderCounters:
    """Packets by fate."""

    passed: int = 0
    lost: int = 0
    late: int = 0
    """Duplicates, and packets that came after their hole was given up."""
    restarts: int = 0


class Reorder(Generic[T]):
    """Orders items by a 16-bit sequence number that wraps."""

    def __init__(self, patience: int) -> None:
        if patience < 1:
            raise ValueError("patience must be at least 1")
        self._patience = patience
        self._expected: int | None = None
        self._waiting: dict[int, T] = {}
        self.counters = ReorderCounters()

    def push(self, sequence: int, item: T) -> list[T]:
        """Take one item and return those whose turn it is now, in order; often just this one."""
        if self._expected is None:
            self._expected = sequence
        ahead = (sequence - self._expected) % _WRAP
        behind = _WRAP - ahead if ahead >= _HALF else 0
        if _RESTART <= ahead < _HALF or behind >= _RESTART:
            self.counters.restarts += 1
            ready = self._drain()
            self._expected = (sequence + 1) % _WRAP
            self.counters.passed += 1
            return [*ready, item]
        if behind or sequence in self._waiting:
            self.counters.late += 1
            return []
        self._waiting[sequence] = item
        ready = self._in_order()
        if len(self._waiting) >= self._patience:
            ready += self._skip()
        return ready

    def _in_order(self) -> list[T]:
        ready: list[T] = []
        while self._expected is not None and self._expected in self._waiting:
            ready.append(self._waiting.pop(self._expected))
            self._expected = (self._expected + 1) % _WRAP
        self.counters.passed += len(ready)
        return ready

    def _skip(self) -> list[T]:
        assert self._expected is not None
        expected = self._expected
        hole = min((sequence - expected) % _WRAP for sequence in self._waiting)
        self.counters.lost += hole
        self._expected = (expected + hole) % _WRAP
        return self._in_order()

    def _drain(self) -> list[T]:
        ready: list[T] = []
        while self._waiting:
            ready += self._skip()
        return ready
