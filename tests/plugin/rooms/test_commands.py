"""The way of a command from a room to the session."""

from __future__ import annotations

from realtime_venus.plugin.rooms.base import Acknowledge, Command, TypeText
from realtime_venus.plugin.rooms.commands import LIMIT, CommandQueue


async def drained(queue: CommandQueue) -> list[Command]:
    queue.close()
    return [command async for command in queue.stream()]


async def test_commands_come_in_order_and_only_the_newest_of_reports_in_a_row() -> None:
    queue = CommandQueue()
    queue.played(3)
    queue.played(5)
    queue.played(4)
    queue.put(TypeText("hello"))
    queue.played(9)
    assert await drained(queue) == [Acknowledge(5), TypeText("hello"), Acknowledge(9)]
    assert queue.dropped == 0


async def test_when_full_the_oldest_report_gives_way_and_else_the_oldest_command() -> None:
    queue = CommandQueue()
    for number in range(LIMIT - 1):
        queue.put(TypeText(str(number)))
    queue.played(1)
    queue.put(TypeText("one more"))
    queue.put(TypeText("and another"))
    left = await drained(queue)
    assert queue.dropped == 2
    assert left[0] == TypeText("1")
    assert left[-1] == TypeText("and another")
    assert len(left) == LIMIT
