"""Events on their way to the page; bounded, and passing ones give way first."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any


def is_passing(event: dict[str, Any]) -> bool:
    """Whether a later event makes this one worthless: partial words and measurements."""
    return event.get("type") == "unit" or (event.get("type") == "user.text" and event.get("final") is False)


class Outbox:
    """A queue in order of arrival.  When full, the oldest passing event is dropped, else the oldest of all."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: deque[dict[str, Any]] = deque()
        self._filled = asyncio.Event()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: dict[str, Any]) -> None:
        """Append ``event``."""
        if len(self._events) >= self._limit:
            self._drop_one()
        self._events.append(event)
        self._filled.set()

    async def wait(self) -> None:
        """Wait until there is something to take."""
        await self._filled.wait()

    def take(self) -> dict[str, Any] | None:
        """The oldest event, or ``None``."""
        event = self._events.popleft() if self._events else None
        if not self._events:
            self._filled.clear()
        return event

    def _drop_one(self) -> None:
        self.dropped += 1
        for index, event in enumerate(self._events):
            if is_passing(event):
                del self._events[index]
                return
        self._events.popleft()
