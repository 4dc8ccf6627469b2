"""The check for leaks finds what it is there for."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from ..kit.leaks import Sockets, lasting_threads, leaked_sockets, leaked_tasks, leaked_threads


async def test_finds_a_task_that_goes_on() -> None:
    before = asyncio.all_tasks()
    forever = asyncio.Event()
    task = asyncio.create_task(forever.wait(), name="forgotten")
    assert [line.split(":")[0] for line in await leaked_tasks(before, grace_s=0.01)] == ["forgotten"]
    forever.set()
    await task
    assert await leaked_tasks(before, grace_s=0.01) == []


@pytest.mark.parametrize(
    ("name", "daemon", "found"),
    [
        ("forgotten", False, ["forgotten"]),
        ("forgotten", True, []),
        ("venus-forgotten", False, ["venus-forgotten"]),
        ("venus-forgotten", True, ["venus-forgotten"]),
    ],
)
def test_finds_a_thread_that_goes_on(name: str, daemon: bool, found: list[str]) -> None:
    before = lasting_threads()
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name=name, daemon=daemon)
    thread.start()
    assert leaked_threads(before, grace_s=0.01) == found
    done.set()
    thread.join()
    assert leaked_threads(before) == []


def test_finds_a_socket_that_stays_open() -> None:
    before = Sockets.now()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as open_socket:
        open_socket.bind(("127.0.0.1", 0))
        assert leaked_sockets(before) == [f"SOCK_DGRAM 127.0.0.1:{open_socket.getsockname()[1]}"]
    assert leaked_sockets(before) == []
