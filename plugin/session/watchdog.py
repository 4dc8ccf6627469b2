"""Liveness: notices when something that should go on does not.  Pure; seconds of a monotonic clock go in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Stall:
    """``what`` made no progress for ``stalled_s``."""

    what: Literal["engine", "playout"]
    stalled_s: float


class Watchdog:
    """Three things must go on: pushed units get done, begun utterances get on or end, queued speech is pulled."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._undone: dict[int, float] = {}
        self._open: dict[str, float] = {}
        self._pulled = 0
        self._pull_at: float | None = None

    def pushed(self, index: int, at_s: float) -> None:
        """A unit was given to the engine."""
        self._undone[index] = at_s

    def done(self, index: int, at_s: float) -> None:
        """The engine has taken a unit in: those that still wait were waiting for it."""
        self._undone.pop(index, None)
        self._undone = dict.fromkeys(self._undone, at_s)

    def utterance(self, utterance_id: str, at_s: float) -> None:
        """An utterance began or got on."""
        self._open[utterance_id] = at_s

    def utterance_over(self, utterance_id: str) -> None:
        """Nothing more is expected of the utterance."""
        self._open.pop(utterance_id, None)

    def playout(self, pulled_frames: int, at_s: float, *, wanted: bool) -> None:
        """How many frames were pulled so far, and whether there is speech to pull."""
        if not wanted or pulled_frames != self._pulled or self._pull_at is None:
            self._pull_at = at_s
        self._pulled = pulled_frames

    def engine_restarted(self) -> None:
        """Nothing is expected of the engine session that was."""
        self._undone.clear()
        self._open.clear()

    def check(self, at_s: float) -> Stall | None:
        """The first stall there is, or ``None``.  A stall of the playout is told once per limit."""
        waiting = [*self._undone.values(), *self._open.values()]
        if waiting and at_s - min(waiting) >= self._limit_s:
            return Stall("engine", at_s - min(waiting))
        if self._pull_at is not None and at_s - self._pull_at >= self._limit_s:
            stalled = at_s - self._pull_at
            self._pull_at = at_s
            return Stall("playout", stalled)
        return None
