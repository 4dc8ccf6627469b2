"""Sessions that break, that are not read, that are closed in the middle, and several on one thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
import torch
from realtime_venus.engines.base import Decided, MediaUnit, Speech, Trouble
from realtime_venus.engines.omni import session as module
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.kv import Full
from realtime_venus.engines.omni.pieces import Piece, SpeechPiece
from realtime_venus.engines.omni.session import OmniSession, Ways

from ...kit.omni_session import Script, ScriptedCore, Stage, end


def breaks(error: BaseException) -> Script:
    def run() -> Iterator[Piece]:
        raise error
        yield end()  # pyright: ignore[reportUnreachable]

    return run


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (Full("the cache is full"), "context.full", "VENUS_OMNI__POSITIONS"),
        (torch.OutOfMemoryError("cuda"), "engine.memory", "VENUS_OMNI__MAX_SESSIONS"),
        (RuntimeError("odd"), "engine.broken", "RuntimeError: odd"),
    ],
)
async def test_what_breaks_ends_the_session_and_says_why(error: Exception, code: str, told: str) -> None:
    stage = Stage(breaks(error))
    stage.push(2)
    events = await stage.told()
    last = events[-1]
    assert isinstance(last, Trouble)
    assert (last.code, last.fatal) == (code, True)
    assert told in last.message
    assert len(stage.core.fed) == 1
    assert stage.returned == [stage.core]


async def test_input_that_nobody_works_off_ends_the_session() -> None:
    stage = Stage()
    stage.push(module.INBOX + 2)
    events = await stage.told()
    assert [event.code for event in events if isinstance(event, Trouble)] == ["engine.stalled"]


async def test_closed_in_the_middle_of_a_unit_it_breaks_off_and_gives_everything_back() -> None:
    reached, go_on = threading.Event(), threading.Event()

    def talks() -> Iterator[Piece]:
        yield SpeechPiece(np.ones(240, np.float32))
        reached.set()
        assert go_on.wait(10)
        yield SpeechPiece(np.ones(480, np.float32))
        stage.core.fed.clear()  # never reached

    stage = Stage(talks)
    stage.push()
    working = asyncio.create_task(asyncio.to_thread(stage.work))
    assert await asyncio.to_thread(reached.wait, 10)
    closing = asyncio.create_task(stage.session.close())
    await asyncio.sleep(0)
    go_on.set()
    await working
    await closing
    assert [type(event) async for event in stage.session.events()] == [Decided, Speech]
    assert (len(stage.core.fed), stage.core.broken) == (1, 1)
    assert stage.returned == [stage.core]


async def test_closing_has_a_deadline_after_which_the_events_end_and_the_core_comes_back_later() -> None:
    stage = Stage(close_timeout_s=0.01)
    stage.work()
    stage.push()
    await stage.session.close()  # nobody works off the steps
    assert [event async for event in stage.session.events()] == []
    assert stage.returned == []
    stage.work()
    assert stage.returned == [stage.core]
    stage.push()
    stage.session.type("hello")
    assert not stage.steps
    await stage.session.close()


async def test_it_begins_before_anything_was_said_to_it() -> None:
    stage = Stage()
    stage.work()
    assert (stage.begun, stage.core.fed) == (1, [])
    stage.units()
    assert stage.begun == 1
    await stage.told()


async def test_sessions_take_turns_unit_by_unit() -> None:
    steps: deque[Callable[[], None]] = deque()
    order: list[str] = []

    def session(name: str) -> OmniSession:
        class Core(ScriptedCore):
            def prefill(self, *args: Any, **rest: Any) -> None:
                order.append(name)

        core = Core()
        return OmniSession(Ways(steps.append, lambda: cast("Duplex", core), lambda core: None, "me"))

    first, second = session("a"), session("b")
    for one in (first, second):
        for index in range(3):
            one.push(MediaUnit(index, index * 1000, np.zeros(16_000, np.float32)))
    while steps:
        steps.popleft()()
    assert order == list("ababab")
    for one in (first, second):
        closing = asyncio.create_task(one.close())
        await asyncio.sleep(0)
        while steps:
            steps.popleft()()
        await closing
