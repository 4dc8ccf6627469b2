from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, cast

from realtime_venus.plugin.rooms.livekit.chat import ChatReader


class Stream:
    """A text stream that brings ``pieces`` and, unless it is ``endless``, ends."""

    def __init__(self, *pieces: str, endless: bool = False) -> None:
        self._pieces = pieces
        self._endless = endless
        self.over = asyncio.Event()
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[str]:
        for piece in self._pieces:
            yield piece
        if self._endless:
            await self.over.wait()

    def close(self) -> None:
        self.closed = True


class Chat:
    """A reader, and what came of what it read."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.refused = 0
        self.known = asyncio.Event()
        self.known.set()
        self.waiting = asyncio.Semaphore(0)
        self.tasks: list[asyncio.Task[None]] = []
        self.reader = ChatReader(self._typed, self._count)
        self.reader.begin(self._spawn)

    def opened(self, stream: Stream, identity: str = "alice") -> Stream:
        self.reader.opened(cast(Any, stream), identity)
        return stream

    async def settled(self) -> None:
        await asyncio.wait(self.tasks)
        for task in self.tasks:
            task.result()

    async def _typed(self, identity: str, text: str) -> None:
        self.waiting.release()
        await self.known.wait()
        self.lines.append((identity, text))

    def _count(self) -> None:
        self.refused += 1

    def _spawn(self, work: Coroutine[Any, Any, None], _name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]


async def test_a_line_may_come_in_pieces() -> None:
    chat = Chat()
    stream = chat.opened(Stream("Where ", "am I?"))
    await chat.settled()
    assert (chat.lines, chat.refused, stream.closed) == ([("alice", "Where am I?")], 0, True)


async def test_a_line_that_does_not_end_is_read_up_to_16_kib() -> None:
    chat = Chat()
    stream = chat.opened(Stream(*["x" * 1000] * 17, endless=True))
    await chat.settled()
    assert (chat.lines, chat.refused, stream.closed) == ([], 1, True)


async def test_nobody_keeps_more_than_two_lines_open_and_all_no_more_than_eight() -> None:
    chat = Chat()
    streams = [chat.opened(Stream("x", endless=True), name) for name in "aaabbbccdde"]
    assert [stream.closed for stream in streams] == [name in (2, 5, 10) for name in range(11)]
    assert chat.refused == 3
    for stream in streams:
        stream.over.set()
    await chat.settled()
    chat.opened(Stream("again"), "a")
    await chat.settled()
    assert chat.lines[-1] == ("a", "again")


async def test_lines_of_somebody_who_is_not_known_yet_count_until_they_are_taken() -> None:
    chat = Chat()
    chat.known.clear()
    for _ in range(2):
        chat.opened(Stream("hello"))
        await chat.waiting.acquire()
    chat.opened(Stream("hello"))
    assert chat.refused == 1
    chat.known.set()
    await chat.settled()
    assert len(chat.lines) == 2


async def test_nothing_is_read_after_the_end() -> None:
    chat = Chat()
    chat.reader.end()
    stream = chat.opened(Stream("late"))
    assert (stream.closed, chat.tasks, chat.refused) == (True, [], 0)
