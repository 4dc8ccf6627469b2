"""The timeline itself: append-only, numbered, watched by bounded subscribers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from .codec import Entry
from .events import TimelineEvent

DEFAULT_SUBSCRIPTION_LIMIT = 4096
DEFAULT_HISTORY_LIMIT = 200_000


class Subscription:
    """What one watcher has not read yet; used as an async iterator.

    Overflow rule: the oldest unread entry is dropped and counted in :attr:`dropped`; ``seq`` shows the hole.
    Lives on one event loop, the timeline's.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("a subscription holds at least one entry")
        self.dropped = 0
        self._limit = limit
        self._unread: deque[Entry] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def offer(self, entry: Entry) -> None:
        """Take an entry; called by the timeline."""
        if self._closed:
            return
        if len(self._unread) >= self._limit:
            self._unread.popleft()
            self.dropped += 1
        self._unread.append(entry)
        self._wake.set()

    def close(self) -> None:
        """End the iteration after what is unread."""
        self._closed = True
        self._wake.set()

    @property
    def closed(self) -> bool:
        """Whether nothing more will be taken."""
        return self._closed

    async def __aiter__(self) -> AsyncIterator[Entry]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()


class Timeline:
    """Everything that happened in a session, in order of becoming known.

    ``seq`` is that order; ``at_ms`` is media time and may lie earlier than that of the entry before (an engine reports
    words after they were said).  History rule: beyond ``limit`` entries the oldest leave memory (a recorder has them).
    """

    def __init__(self, limit: int = DEFAULT_HISTORY_LIMIT) -> None:
        self._entries: deque[Entry] = deque(maxlen=limit)
        self._next = 0
        self._subscriptions: list[Subscription] = []
        self._closed = False

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is in memory, oldest first."""
        return tuple(self._entries)

    @property
    def events(self) -> tuple[TimelineEvent, ...]:
        """The events of :attr:`entries`."""
        return tuple(entry.event for entry in self._entries)

    def __len__(self) -> int:
        """How many entries were ever appended."""
        return self._next

    def append(self, event: TimelineEvent) -> Entry:
        """Add ``event`` and tell the subscribers.  Raises ``RuntimeError`` after :meth:`close`."""
        if self._closed:
            raise RuntimeError("the timeline is closed: its session has ended")
        entry = Entry(self._next, event)
        self._next += 1
        self._entries.append(entry)
        for subscription in self._subscriptions:
            subscription.offer(entry)
        self._subscriptions = [item for item in self._subscriptions if not item.closed]
        return entry

    def subscribe(self, limit: int = DEFAULT_SUBSCRIPTION_LIMIT) -> Subscription:
        """Watch from now on; at most ``limit`` unread entries are kept."""
        subscription = Subscription(limit)
        if self._closed:
            subscription.close()
        else:
            self._subscriptions.append(subscription)
        return subscription

    def close(self) -> None:
        """Accept nothing more and end every subscription.  May be called repeatedly."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions = []
