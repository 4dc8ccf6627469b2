"""How busy the machine is, and by whom: us, those who belong to the measurement, or somebody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import psutil

EVERY_S = 0.1
QUIET_CORES = 0.1
"""Less than this of others for :data:`QUIET_S` is a quiet machine, as in ``peers/harness.py``."""
QUIET_S = 2.0


def busy_s(pid: int | None = None) -> float:
    """CPU seconds that a process (this one unless named) has used; 0 for one that has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def machine_s() -> float:
    """CPU seconds that the whole machine has used."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - float(getattr(times, "iowait", 0.0))


@dataclass(frozen=True, slots=True)
class Cores:
    """Busy cores over a span."""

    own: float
    companions: float
    others: float


@dataclass
class Load:
    """Rows of [second, own, machine, companions] (CPU seconds so far), the first three as the harness writes them."""

    companions: Sequence[int] = ()
    began_s: float = 0.0
    rows: list[list[float]] = field(default_factory=list[list[float]])

    def look(self) -> None:
        """Add a row."""
        with_us = sum(busy_s(pid) for pid in self.companions)
        at = time.monotonic() - self.began_s
        self.rows.append([round(value, 3) for value in (at, busy_s(), machine_s(), with_us)])

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        """Look every 100 ms."""
        self.began_s = time.monotonic()

        async def watch() -> None:
            while True:
                self.look()
                await asyncio.sleep(EVERY_S)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            self.look()


def cores(rows: Sequence[Sequence[float]]) -> Cores:
    """Over all rows; those of the harness have no companions."""
    first, last = rows[0], rows[-1]
    span = max(0.1, last[0] - first[0])
    own, machine = last[1] - first[1], last[2] - first[2]
    companions = last[3] - first[3] if len(first) > 3 and len(last) > 3 else 0.0
    others = max(0.0, machine - own - companions)
    return Cores(round(own / span, 3), round(companions / span, 3), round(others / span, 3))


async def wait_quiet(limit_s: float, companions: Sequence[int] = ()) -> bool:
    """Wait until others leave the machine alone; false when ``limit_s`` passes first."""
    end = time.monotonic() + limit_s
    while True:
        load = Load(companions)
        async with load.watched():
            await asyncio.sleep(QUIET_S)
        quiet = cores(load.rows).others < QUIET_CORES
        if quiet or time.monotonic() > end:
            return quiet


async def settled(limit_s: float = 40.0) -> None:
    """Wait until we ourselves are idle: what is done after loading is done."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        before = busy_s()
        await asyncio.sleep(1.0)
        if busy_s() - before < QUIET_CORES:
            return
