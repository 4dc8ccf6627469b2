"""Where requests of the participants come in, by RPC and by chat, and commands for the session go out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from ..base import Command
from ..commands import CommandQueue
from . import requests
from .options import LiveKitOptions, Who
from .people import People
from .sdk import rtc
from .status import Status

PlayedFrame = Callable[[int, float], int | None]
"""Number of the newest frame that is played when so many milliseconds of a stretch are."""

Acquaint = Callable[[str], Awaitable[None]]
"""Waits until the participant is known.  The server tells of those who publish nothing up to 3 s after they came, while
their requests arrive at once."""


@dataclass(slots=True)
class DeskCounters:
    """What participants sent in vain."""

    refused_requests: int = 0
    ignored_lines: int = 0
    """Lines of chat from those who may not type, or that are no text the model could take."""
    oversized: int = 0
    """Data packets and typed texts of more than 16 KiB."""
    foreign_acks: int = 0
    """Acknowledgements of stretches that were never sent."""
    commands_dropped: int = 0


class Desk:
    """Checks who asks and what, and queues the rest."""

    def __init__(
        self, people: People, options: LiveKitOptions, status: Status, played: PlayedFrame, acquaint: Acquaint
    ) -> None:
        self._people = people
        self._open_to: dict[str, Who] = {"venus.say": options.say_from, "venus.interrupt": options.interrupt_from}
        self._status = status
        self._played = played
        self._acquaint = acquaint
        self._commands = CommandQueue()
        self.counters = DeskCounters()

    def commands(self) -> AsyncIterator[Command]:
        """What is to be done, until :meth:`close`."""
        return self._commands.stream()

    def close(self) -> None:
        """End :meth:`commands`."""
        self._commands.close()

    async def request(self, call: rtc.RpcInvocationData) -> str:
        """Answer an RPC call.  Raises ``rtc.RpcError`` for one that is refused."""
        await self._acquaint(call.caller_identity)
        try:
            request = self._checked(call)
        except requests.BadRequest as error:
            self.counters.refused_requests += 1
            raise rtc.RpcError(error.code, str(error)) from None
        match request:
            case requests.AskState():
                return json.dumps({**self._status.facts(), "listening_to": list(self._people.heard)})
            case requests.Played(stretch, played_ms):
                self._acknowledge(self._played(stretch, played_ms))
            case _:
                self._put(request)
        return "{}"

    async def typed(self, identity: str, text: str) -> None:
        """A line of chat."""
        await self._acquaint(identity)
        command = requests.typed(text, identity)
        if command is not None and self._people.may_command(identity):
            self._put(command)
        else:
            self.counters.ignored_lines += 1

    def data(self, packet: rtc.DataPacket) -> None:
        """A data packet: nothing is asked for by these, but one that is too large is counted."""
        if len(packet.data) > requests.MAX_BYTES:
            self.too_large()

    def too_large(self) -> None:
        """Something was longer than 16 KiB and is ignored."""
        self.counters.oversized += 1

    def _checked(self, call: rtc.RpcInvocationData) -> requests.Request:
        if not self._people.allows(self._open_to.get(call.method, "listened"), call.caller_identity):
            raise requests.BadRequest(requests.FORBIDDEN, "this agent takes no requests of this kind from you")
        return requests.parse(call.method, call.payload, call.caller_identity)

    def _acknowledge(self, number: int | None) -> None:
        if number is None:
            self.counters.foreign_acks += 1
        else:
            self._commands.played(number)
            self.counters.commands_dropped = self._commands.dropped

    def _put(self, command: Command) -> None:
        self._commands.put(command)
        self.counters.commands_dropped = self._commands.dropped
