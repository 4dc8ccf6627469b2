from __future__ import annotations

import asyncio
from typing import Any

from realtime_venus.plugin.rooms.outbox import Outbox


def partial(number: int) -> dict[str, Any]:
    return {"type": "user.text", "final": False, "n": number}


def final(number: int) -> dict[str, Any]:
    return {"type": "user.text", "final": True, "n": number}


def taken(outbox: Outbox) -> list[int]:
    numbers: list[int] = []
    while (event := outbox.take()) is not None:
        numbers.append(event["n"])
    return numbers


def test_events_leave_in_order() -> None:
    outbox = Outbox(16)
    for number in range(3):
        outbox.put(final(number))
    assert taken(outbox) == [0, 1, 2]


def test_when_full_passing_events_give_way_first() -> None:
    outbox = Outbox(3)
    for event in (final(0), partial(1), final(2), final(3), {"type": "unit", "n": 4}, final(5)):
        outbox.put(event)
    assert taken(outbox) == [2, 3, 5]
    assert outbox.dropped == 3


async def test_waiting_ends_with_the_first_event_and_begins_again_after_the_last() -> None:
    outbox = Outbox(16)
    waiting = asyncio.create_task(outbox.wait())
    outbox.put(final(1))
    await waiting
    await outbox.wait()
    assert taken(outbox) == [1]
    waiting = asyncio.create_task(outbox.wait())
    done, _ = await asyncio.wait([waiting], timeout=0)
    assert not done
    outbox.put(final(2))
    await waiting
