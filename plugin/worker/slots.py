"""Who has a place: the one count that admits calls, reports the load and is told to operators."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

BELOW_TARGET = 0.65


class Refusal(StrEnum):
    """Why a job was not taken."""

    FULL = "full"
    DRAINING = "draining"
    BAD_METADATA = "bad_metadata"
    NOT_ASSIGNED = "not_assigned"
    """It was accepted, but the server gave it to nobody or took too long."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """A moment's count."""

    slots: int
    in_use: int
    open: bool

    @property
    def free(self) -> int:
        """How many more calls can be taken now."""
        return max(0, self.slots - self.in_use) if self.open else 0

    @property
    def load(self) -> float:
        """What is reported as load: 1 when nobody is taken, else the share of the slots in use, times 0.65.

        A LiveKit server passes over whoever reports its ``agents.target_load`` (0.7) or more, full or not; a worker of
        four would never get its fourth call.
        """
        return BELOW_TARGET * self.in_use / self.slots if self.free else 1.0


class Slots:
    """At most ``count`` jobs at a time.  Safe from any thread: every job runs on one of its own.

    A place is taken when a job is accepted, not when it begins, so that two requests can never get the last one.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError("a worker has at least one slot")
        self._count = count
        self._lock = threading.Lock()
        self._launched: dict[str, bool] = {}
        self._open = True

    @property
    def occupancy(self) -> Occupancy:
        with self._lock:
            return Occupancy(self._count, len(self._launched), self._open)

    def take(self, job_id: str) -> Refusal | None:
        """Take a place for a job, or say why there is none."""
        with self._lock:
            if not self._open:
                return Refusal.DRAINING
            if job_id not in self._launched and len(self._launched) >= self._count:
                return Refusal.FULL
            self._launched[job_id] = False
            return None

    def launched(self, job_id: str) -> None:
        """The job was handed to the thread that runs it."""
        with self._lock:
            if job_id in self._launched:
                self._launched[job_id] = True

    def release(self, job_id: str) -> None:
        """Give the place back.  May be called repeatedly."""
        with self._lock:
            self._launched.pop(job_id, None)

    def reconcile(self, running: Collection[str]) -> list[str]:
        """Free the places of launched jobs that run no longer: a thread that died could not give its own back."""
        with self._lock:
            lost = [job_id for job_id, launched in self._launched.items() if launched and job_id not in running]
            for job_id in lost:
                del self._launched[job_id]
            return lost

    def close(self) -> None:
        """Take nobody any more."""
        with self._lock:
            self._open = False
