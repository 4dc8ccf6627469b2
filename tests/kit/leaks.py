"""A test that leaves a task, a thread or a socket behind fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
import pytest_asyncio

GRACE_S = 2.0
"""How long what is already ending may take to end.  Counted on the loop's own clock for tasks."""
THREAD_GRACE_S = 20.0
"""The same for threads: on a busy machine a prefill that a close left to itself ends within it."""

LIBRARY_THREADS = ("asyncio_",)
"""Prefixes of the names of pool threads that libraries keep for the life of the process."""

OWN_THREADS = "venus-"
"""Prefix of the names of our own threads, which must end with what began them, daemons or not."""

_TASK_CHECK = "no_leaked_tasks"

Socket = tuple[int, str, str]
"""Descriptor, kind, local address."""

closing: set[Socket] = set()
"""Sockets that a library closes in its own time; whoever puts them here sees to it that it does."""


@dataclass(frozen=True, slots=True)
class Sockets:
    """The open internet sockets of this process."""

    open: frozenset[Socket]

    @staticmethod
    def now() -> Sockets:
        return Sockets(
            frozenset(
                (c.fd, c.type.name, f"{c.laddr.ip}:{c.laddr.port}" if c.laddr else "unbound")
                for c in psutil.Process().net_connections(kind="inet")
            )
        )


def lasting_threads() -> set[threading.Thread]:
    """Threads that would keep the process alive, without the pools that libraries keep on purpose; and all our own."""
    return {
        t
        for t in threading.enumerate()
        if t.name.startswith(OWN_THREADS) or (not t.daemon and not t.name.startswith(LIBRARY_THREADS))
    }


def leaked_threads(before: set[threading.Thread], grace_s: float = THREAD_GRACE_S) -> list[str]:
    """Names of the lasting threads that are not in ``before`` and do not end within ``grace_s``."""
    leaked: list[str] = []
    for thread in lasting_threads() - before:
        thread.join(grace_s)
        if thread.is_alive():
            leaked.append(thread.name)
    return sorted(leaked)


def leaked_sockets(before: Sockets) -> list[str]:
    """The sockets opened since ``before`` and still open, but for those that are :data:`closing`."""
    return sorted(f"{kind} {address}" for _, kind, address in Sockets.now().open - before.open - closing)


async def leaked_tasks(before: set[asyncio.Task[Any]], grace_s: float = GRACE_S) -> list[str]:
    """What the tasks begun since ``before`` run, for those that do not end within ``grace_s``."""
    current = asyncio.current_task()
    begun = {t for t in asyncio.all_tasks() if t is not current} - before
    if not begun:
        return []
    _, pending = await asyncio.wait(begun, timeout=grace_s)
    return sorted(f"{task.get_name()}: {task.get_coro()}" for task in pending)


@pytest_asyncio.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    """Given to every asynchronous test by :func:`pytest_collection_modifyitems`, set up before its other fixtures."""
    before: set[asyncio.Task[Any]] = asyncio.all_tasks()
    yield
    leaked = await leaked_tasks(before)
    if leaked:
        pytest.fail("tasks left running: " + "; ".join(leaked), pytrace=False)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Every test ends with the threads and sockets that it began with."""
    threads, sockets = lasting_threads(), Sockets.now()
    yield
    left = [f"thread {name}" for name in leaked_threads(threads)] + leaked_sockets(sockets)
    if left:
        pytest.fail("left open: " + "; ".join(left), pytrace=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the check for tasks in front of the fixtures of every asynchronous test."""
    for item in items:
        if isinstance(item, pytest.Function) and pytest_asyncio.is_async_test(item):
            item.fixturenames.insert(0, _TASK_CHECK)
