"""The conversations that are going on: one room and one task for each token, and never more than allowed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..engines.base import SessionOptions, VenusError
from .host import Host
from .tokens import new_token
from .transport import HeldRoom, NoConnection, Opened, Transport

log = logging.getLogger(__name__)

END_DEADLINE_S = 5.0
"""How long a conversation may take to end after its room was left."""


class NoSpace(VenusError):
    """All conversations that are allowed are going on already."""


@dataclass(slots=True)
class Conversation:
    """One visitor.  ``task`` ends when everything of it is gone."""

    token: str
    opened: Opened
    task: asyncio.Task[None]

    @property
    def room(self) -> HeldRoom:
        return self.opened.room

    def entrance(self) -> dict[str, Any]:
        """What the page needs to come into the room, now."""
        return self.opened.entrance()


class Conversations:
    """Begins, finds and ends conversations, however they are carried."""

    def __init__(self, host: Host, transport: Transport, limit: int, token: Callable[[], str] = new_token) -> None:
        self.transport = transport
        self._host = host
        self._limit = limit
        self._token = token
        self._open: dict[str, Conversation] = {}
        self._opening = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._open) + self._opening

    @property
    def limit(self) -> int:
        """How many may go on at once."""
        return min(self._limit, self._host.profile.max_sessions)

    async def begin(self, options: SessionOptions) -> Conversation:
        """Make a room and start to talk in it.  Raises :class:`NoSpace` and :class:`NoConnection`."""
        if len(self) >= self.limit:
            raise NoSpace("everybody Venus can talk to at once is talking to her; try again in a while")
        self._opening += 1
        try:
            opened = await self.transport.open(sees=self._host.profile.sees)
        finally:
            self._opening -= 1
        token = self._token()
        task = asyncio.create_task(self._hold(token, opened, options), name="conversation")
        conversation = self._open[token] = Conversation(token, opened, task)
        if self._closed:
            await self.end(token, "shutdown")
            raise NoConnection("shutdown", "the server is stopping")
        return conversation

    def find(self, token: str) -> Conversation | None:
        """The conversation of ``token``, or ``None`` when there is none (any more)."""
        return self._open.get(token)

    async def end(self, token: str, reason: str) -> bool:
        """End the conversation of ``token``; whether there was one."""
        conversation = self._open.get(token)
        if conversation is None:
            return False
        await conversation.room.leave(reason)
        await asyncio.wait([conversation.task])
        return True

    async def close(self, reason: str) -> None:
        """End all of them; whoever is just beginning will be ended too."""
        self._closed = True
        open_now = list(self._open)
        await asyncio.gather(*(self.end(token, reason) for token in open_now))

    async def _hold(self, token: str, opened: Opened, options: SessionOptions) -> None:
        room = opened.room
        talk = asyncio.create_task(self._talk(opened, options), name="talk")
        left = asyncio.create_task(room.wait_closed(), name="room-left")
        try:
            await asyncio.wait([talk, left], return_when=asyncio.FIRST_COMPLETED)
            if talk.done():
                await room.leave("session_failed" if _failure(talk) else "session_ended")
            await asyncio.wait([talk], timeout=END_DEADLINE_S)
        finally:
            for task in (talk, left):
                task.cancel()
            await asyncio.wait([talk, left])
            await room.close()
            await opened.clear()
            self._open.pop(token, None)
            failure = _failure(talk)
            if failure is not None:
                log.error("a conversation failed", exc_info=failure)

    async def _talk(self, opened: Opened, options: SessionOptions) -> None:
        if await opened.arrived():
            await self._host.converse(opened.room, options)


def _failure(task: asyncio.Future[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
