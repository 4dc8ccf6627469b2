"""One ordered stream of events from the threads of an engine session to whoever reads it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator

from .base import EngineError, EngineEvent, Trouble

UNREAD = 16_384
"""Events that may wait to be read: half an hour of them; beyond it nobody is there and the session ends."""


class Outbox:
    """Events go in from any thread and come out on the event loop that asks for them, once.

    Overflow rule ("nobody reads"): when ``unread`` events wait, the next one becomes a fatal :class:`Trouble` and
    everything after it is dropped.  The same goes for whatever follows a fatal :class:`Trouble` or :meth:`end`.
    """

    def __init__(self, unread: int = UNREAD) -> None:
        self._unread = unread
        self._events: deque[EngineEvent] = deque()
        self._lock = threading.Lock()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._shut = False
        self._asked = False

    @property
    def shut(self) -> bool:
        """Whether nothing is taken any more."""
        return self._shut

    def put(self, event: EngineEvent) -> None:
        """Append an event; never waits."""
        with self._lock:
            if self._shut:
                return
            if len(self._events) >= self._unread:
                event = Trouble(event.at_ms, "engine.unread", "nobody reads what the engine says", fatal=True)
            self._shut = isinstance(event, Trouble) and event.fatal
            self._events.append(event)
        self._rouse()

    def end(self) -> None:
        """No more events; those that wait are still read."""
        with self._lock:
            self._shut = True
        self._rouse()

    def read(self) -> AsyncIterator[EngineEvent]:
        """The stream.  Raises :class:`~.base.EngineError` when it was asked for before."""
        if self._asked:
            raise EngineError("the events of a session can be asked for once")
        self._asked = True
        return self._stream()

    async def _stream(self) -> AsyncIterator[EngineEvent]:
        self._loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            with self._lock:
                ready, self._events = self._events, deque()
                over = self._shut
            for event in ready:
                yield event
            if over:
                return
            await self._wake.wait()

    def _rouse(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop closed between the two lines: nobody listens any more
                self._loop = None
