from __future__ import annotations

import asyncio
import threading

import pytest
from realtime_venus.plugin.livekit.components.lanes import Closed, Lanes

from ....kit.cascade import DEADLINE_S, Gate


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("venus-try")]


async def test_work_runs_on_a_thread_of_that_name_which_ends_with_the_lane() -> None:
    lanes = Lanes("venus-try")
    with lanes.open() as lane:
        names = [await lane.run(lambda: threading.current_thread().name, DEADLINE_S) for _ in range(3)]
    assert len(set(names)) == 1
    assert names[0].startswith("venus-try")
    await lanes.aclose()
    assert own_threads() == []


async def test_what_the_work_raises_is_raised() -> None:
    def work() -> None:
        raise LookupError("no such thing")

    with Lanes("venus-try").open() as lane, pytest.raises(LookupError, match="no such thing"):
        await lane.run(work, DEADLINE_S)


async def test_work_beyond_its_deadline_is_for_nobody_any_more() -> None:
    lanes, gate = Lanes("venus-try"), Gate()
    with lanes.open() as lane:
        with pytest.raises(TimeoutError):
            await lane.run(gate.hold, 0.01)
        assert lane.left
        assert not lane.idle
    gate.open()
    await lanes.aclose()
    assert own_threads() == []


async def test_a_cancelled_awaiter_is_let_go_at_once_and_the_work_is_told() -> None:
    lanes, gate = Lanes("venus-try"), Gate()
    told: list[bool] = []

    async def ask() -> None:
        with lanes.open() as lane:

            def work() -> None:
                gate.hold()
                told.append(lane.left)

            await lane.run(work, DEADLINE_S)

    asking = asyncio.create_task(ask())
    await asyncio.to_thread(gate.reached)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert told == []
    gate.open()
    await lanes.aclose()
    assert told == [True]


async def test_a_lane_that_was_left_takes_no_work() -> None:
    lanes = Lanes("venus-try")
    with lanes.open() as lane:
        await lanes.aclose()
        with pytest.raises(Closed, match="closed while it was in use"):
            await lane.run(own_threads, DEADLINE_S)


async def test_closing_waits_for_the_threads() -> None:
    lanes, gate = Lanes("venus-try"), Gate()
    lane = lanes.open()
    running = asyncio.create_task(lane.run(gate.hold, DEADLINE_S))
    await asyncio.to_thread(gate.reached)
    closing = asyncio.create_task(lanes.aclose())
    await asyncio.to_thread(gate.open)
    await closing
    assert own_threads() == []
    await running
