"""The engine's thread: order, what is given back, and its end."""

from __future__ import annotations

import asyncio
import threading

import pytest
from realtime_venus.engines import daemons
from realtime_venus.engines.omni.worker import Worker


async def test_work_is_done_in_order_on_one_thread_and_given_back() -> None:
    worker = Worker("venus-test-omni")
    done: list[tuple[int, str]] = []

    def note(number: int) -> int:
        done.append((number, threading.current_thread().name))
        return number

    results = [worker.call(lambda number=number: note(number)) for number in range(5)]
    worker.stop()
    assert await worker.ended(10)
    assert [one.result(0) for one in results] == list(range(5))
    assert done == [(number, "venus-test-omni") for number in range(5)]


async def test_what_fails_is_told_to_whoever_waits_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker("venus-test-omni")
    late: list[int] = []

    def fails() -> int:
        raise ValueError("odd")

    waits = worker.call(fails)
    worker.submit(lambda: late.append(fails()))
    after = worker.call(lambda: 7)
    with pytest.raises(ValueError, match="odd"):
        await asyncio.wrap_future(waits)
    assert await asyncio.wrap_future(after) == 7
    assert "a piece of work of the omni engine failed" in caplog.text
    worker.stop()
    assert await worker.ended(10)


async def test_its_end_has_a_deadline_and_nothing_is_done_after_it() -> None:
    worker, go_on = Worker("venus-test-omni"), threading.Event()
    late: list[int] = []
    busy = worker.call(lambda: go_on.wait(30))
    worker.stop()
    worker.submit(lambda: late.append(1))
    assert not await worker.ended(0.01)
    go_on.set()
    assert await worker.ended(10)
    assert busy.result(0)
    assert late == []


def test_the_exit_of_the_process_stops_it_without_doing_what_waits() -> None:
    worker, reached, go_on = Worker("venus-test-omni"), threading.Event(), threading.Event()
    late: list[int] = []

    def busy() -> None:
        reached.set()
        go_on.wait(30)

    worker.submit(busy)
    worker.submit(lambda: late.append(1))
    assert reached.wait(10)
    assert "venus-test-omni" in daemons.end_all(0.01)
    go_on.set()
    assert daemons.end_all(10) == []
    assert late == []
