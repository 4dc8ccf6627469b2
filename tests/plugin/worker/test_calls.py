from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from realtime_venus.plugin.rooms.livekit import LiveKitOptions
from realtime_venus.plugin.session import SessionSettings
from realtime_venus.plugin.worker.calls import Calls, Equipment
from realtime_venus.plugin.worker.metrics import WorkerMetrics

from ...kit.fake_engine import FakeEngine


class SlowContext:
    """A job whose connection comes when ``let_in`` is set, also when nobody waits for it any more."""

    def __init__(self) -> None:
        self.job = SimpleNamespace(id="job", metadata="")
        self.room = self
        self.let_in, self.joining = asyncio.Event(), asyncio.Event()
        self.connected = False
        self.ended: list[str] = []
        self.callbacks: list[Callable[[], Coroutine[Any, Any, None]]] = []

    async def connect(self, **_: object) -> None:
        self.joining.set()
        await self.let_in.wait()
        self.connected = True

    async def disconnect(self) -> None:
        self.connected = False

    def add_shutdown_callback(self, callback: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.callbacks.append(callback)

    def shutdown(self, reason: str) -> None:
        self.ended.append(reason)


def calls(over: Callable[[str], None], connect_s: float) -> Calls:
    room = LiveKitOptions(connect_s=connect_s)
    return Calls(Equipment(FakeEngine(), SessionSettings(), room, WorkerMetrics()), over)


async def given_up(context: SlowContext) -> None:
    """The library ends the job: the connection comes meanwhile, and the callbacks are waited for."""
    ending = [asyncio.create_task(callback()) for callback in context.callbacks]
    await asyncio.sleep(0)
    assert not any(task.done() for task in ending), "the thread would be gone before the connection comes"
    context.let_in.set()
    await asyncio.wait(ending)
    assert not context.connected


async def test_a_room_that_lets_us_in_too_late_is_left_again_and_its_place_is_free_before_that() -> None:
    over: list[str] = []
    context = SlowContext()
    await calls(over.append, 0.01).hold(cast(Any, context))
    assert (over, context.ended) == (["job"], ["not_connected"])
    await given_up(context)


async def test_a_job_that_is_cancelled_while_it_joins_leaves_nobody_in_the_room() -> None:
    context = SlowContext()
    holding = asyncio.create_task(calls(lambda _: None, 60.0).hold(cast(Any, context)))
    await context.joining.wait()
    holding.cancel()
    await asyncio.wait([holding])
    assert holding.cancelled()
    await given_up(context)
