"""The conversations that are going on: one room and one task for each token, and never more than allowed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ..engines.base import SessionOptions, VenusError
from ..plugin.rooms.webrtc import WebRtcOptions, WebRtcRoom
from .host import Host
from .tokens import new_token

log = logging.getLogger(__name__)

END_DEADLINE_S = 5.0
"""How long a conversation may take to end after its room was left."""


class NoSpace(VenusError):
    """All conversations that are allowed are going on already."""


@dataclass(slots=True)
class Conversation:
    """One visitor.  ``task`` ends when everything of it is gone."""

    token: str
    room: WebRtcRoom
    task: asyncio.Task[None]


class Conversations:
    """Begins, finds and ends conversations."""

    def __init__(self, host: Host, options: WebRtcOptions, limit: int, token: Callable[[], str] = new_token) -> None:
        self._host = host
        self._options = options
        self._limit = limit
        self._token = token
        self._open: dict[str, Conversation] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def limit(self) -> int:
        """How many may go on at once."""
        return min(self._limit, self._host.profile.max_sessions)

    def begin(self, options: SessionOptions) -> Conversation:
        """Make a room and start to talk in it.  Raises :class:`NoSpace`."""
        if len(self._open) >= self.limit:
            raise NoSpace("everybody Venus can talk to at once is talking to her; try again in a while")
        token = self._token()
        room = WebRtcRoom(self._options)
        task = asyncio.create_task(self._hold(token, room, options), name="conversation")
        conversation = self._open[token] = Conversation(token, room, task)
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
        """End all of them."""
        open_now = list(self._open)
        await asyncio.gather(*(self.end(token, reason) for token in open_now))

    async def _hold(self, token: str, room: WebRtcRoom, options: SessionOptions) -> None:
        talk = asyncio.ensure_future(self._host.converse(room, options))
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
            self._open.pop(token, None)
            failure = _failure(talk)
            if failure is not None:
                log.error("a conversation failed", exc_info=failure)


def _failure(task: asyncio.Future[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
