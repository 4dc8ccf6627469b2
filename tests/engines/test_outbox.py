from __future__ import annotations

import asyncio
import threading

import pytest
from realtime_venus.engines.base import Decided, Decision, EngineError, EngineEvent, Trouble
from realtime_venus.engines.outbox import Outbox


def event(at_ms: int) -> Decided:
    return Decided(at_ms, Decision.LISTEN)


async def everything(outbox: Outbox) -> list[EngineEvent]:
    async with asyncio.timeout(10):
        return [one async for one in outbox.read()]


async def test_what_another_thread_puts_in_comes_out_in_order() -> None:
    outbox = Outbox()

    def fill() -> None:
        for at_ms in range(1000):
            outbox.put(event(at_ms))
        outbox.end()

    thread = threading.Thread(target=fill)
    thread.start()
    assert await everything(outbox) == [event(at_ms) for at_ms in range(1000)]
    thread.join()


async def test_what_waits_is_read_after_the_end_and_nothing_is_taken_then() -> None:
    outbox = Outbox()
    outbox.put(event(1))
    outbox.end()
    outbox.put(event(2))
    assert outbox.shut
    assert await everything(outbox) == [event(1)]


async def test_when_nobody_reads_it_ends_with_a_fatal_trouble() -> None:
    outbox = Outbox(unread=3)
    for at_ms in range(9):
        outbox.put(event(at_ms))
    *first, last = await everything(outbox)
    assert first == [event(0), event(1), event(2)]
    assert isinstance(last, Trouble)
    assert (last.code, last.fatal, last.at_ms) == ("engine.unread", True, 3)


async def test_nothing_follows_a_fatal_trouble() -> None:
    outbox = Outbox()
    fatal = Trouble(1, "x", "broken", fatal=True)
    for one in (Trouble(0, "x", "a picture less"), fatal, event(2)):
        outbox.put(one)
    assert (await everything(outbox))[1:] == [fatal]


async def test_the_events_can_be_asked_for_once() -> None:
    outbox = Outbox()
    outbox.read()
    with pytest.raises(EngineError, match="asked for once"):
        outbox.read()
