"""The engine's one thread: work in the order in which it was given, and an end that can be waited for."""

from __future__ import annotations

import asyncio
import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from .. import daemons

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Worker:
    """A daemon thread of that name, which the exit of the process stops and waits for (:mod:`~..daemons`)."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._dropping = False
        self._thread = daemons.begin(self._run, name, self._drop)

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job`` behind what waits; after :meth:`stop` it is dropped.  Never waits."""
        self._jobs.put(job)

    def call(self, job: Callable[[], T]) -> Future[T]:
        """Run ``job`` behind what waits, and give what it gives."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to whoever waits
                future.set_exception(error)

        self.submit(run)
        return future

    def stop(self) -> None:
        """Let the thread end once it has done what was given to it until now."""
        self._jobs.put(None)

    async def ended(self, deadline_s: float) -> bool:
        """Wait for the thread's end; ``False``: it still computes."""
        await asyncio.to_thread(self._thread.join, deadline_s)
        return not self._thread.is_alive()

    def _drop(self) -> None:
        """End as soon as what is under way is over."""
        self._dropping = True
        self.stop()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._dropping:
            try:
                job()
            except Exception:  # noqa: BLE001 - one session must not end the thread of all
                _log.exception("a piece of work of the omni engine failed")
