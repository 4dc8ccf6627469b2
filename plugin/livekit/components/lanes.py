"""Threads of our own for calls that block: one for each stream or request, which ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, TypeVar

from ....engines.base import VenusError

T = TypeVar("T")

CLOSING_S: Final = 30.0
"""How long a component that is closed waits for native calls that cannot be broken off."""


class Closed(VenusError):
    """The component was closed while it was in use."""


class Lane:
    """One thread, as a context manager.  Work on it asks :attr:`left`, which is true once nobody waits any more."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._newest: Future[Any] | None = None
        self._left = False

    def __enter__(self) -> Lane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    @property
    def left(self) -> bool:
        """Whether what is being worked on is for nobody any more."""
        return self._left

    @property
    def idle(self) -> bool:
        """Whether nothing is being worked on."""
        return self._newest is None or self._newest.done()

    def leave(self) -> None:
        """Take no more work; the thread ends with what it is doing, which is not waited for."""
        self._left = True
        self._pool.shutdown(wait=False)

    async def run(self, work: Callable[[], T], deadline_s: float) -> T:
        """Do ``work`` on the thread.  Raises what it raises, ``TimeoutError`` after ``deadline_s``, or :class:`Closed`.

        An awaiter that gives up, or is cancelled, leaves the lane for good.
        """
        if self._left:
            raise Closed("the component was closed while it was in use")
        self._newest = future = self._pool.submit(work)
        try:
            async with asyncio.timeout(deadline_s):
                return await asyncio.wrap_future(future)
        finally:
            if not future.done():
                self.leave()

    async def ended(self) -> None:
        """Leave, and wait until the thread is gone."""
        self.leave()
        if self._newest is not None and not self._newest.done():
            await asyncio.wait([asyncio.wrap_future(self._newest)], timeout=CLOSING_S)
        if self.idle:
            self._pool.shutdown(wait=True)


class Lanes:
    """All the lanes of one component, which wants to see them end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lanes: set[Lane] = set()

    def open(self) -> Lane:
        """A new lane."""
        self._lanes = {lane for lane in self._lanes if not (lane.left and lane.idle)}
        lane = Lane(self._name)
        self._lanes.add(lane)
        return lane

    async def aclose(self) -> None:
        """Break off whatever is being done and wait for the threads."""
        while self._lanes:
            await self._lanes.pop().ended()
