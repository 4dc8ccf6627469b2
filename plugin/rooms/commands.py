"""Commands on their way to the session; bounded, and reports of playback give way first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from .base import Acknowledge, Command

LIMIT = 64
"""Commands that may wait for the session; beyond this the oldest acknowledgement gives way (a later one says more),
and where there is none the oldest command."""


class CommandQueue:
    """A queue in order of arrival, for one event loop.  ``dropped`` counts what gave way."""

    def __init__(self) -> None:
        self._commands: deque[Command] = deque()
        self._filled = asyncio.Event()
        self._acknowledged = -1
        self._closed = False
        self.dropped = 0

    def put(self, command: Command) -> None:
        """Append ``command``."""
        if len(self._commands) >= LIMIT:
            self.dropped += 1
            del self._commands[next((n for n, c in enumerate(self._commands) if isinstance(c, Acknowledge)), 0)]
        self._commands.append(command)
        self._filled.set()

    def played(self, number: int) -> None:
        """The listener has heard every frame up to ``number``; what says less is nothing new."""
        if number > self._acknowledged:
            self._acknowledged = number
            if self._commands and isinstance(self._commands[-1], Acknowledge):
                self._commands.pop()
            self.put(Acknowledge(number))

    def close(self) -> None:
        """End :meth:`stream`; what waits is still given."""
        self._closed = True
        self._filled.set()

    async def stream(self) -> AsyncIterator[Command]:
        """The commands, until :meth:`close`."""
        while True:
            while self._commands:
                yield self._commands.popleft()
            if self._closed:
                return
            self._filled.clear()
            await self._filled.wait()
