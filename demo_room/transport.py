"""How a conversation is carried between the page and this process: what every way of doing it has to offer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..engines.base import VenusError
from ..plugin.rooms.base import MediaRoom
from ..plugin.rooms.webrtc import WebRtcOptions, WebRtcRoom


class NoConnection(VenusError):
    """No room can be made at present; ``code`` names why for the page."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class HeldRoom(MediaRoom, Protocol):
    """A room whose end can be waited for and brought about."""

    async def wait_closed(self) -> None:
        """Wait until the room has been left."""
        ...

    async def leave(self, reason: str) -> None:
        """Leave the room and tell the page why."""
        ...


async def _at_once() -> bool:
    return True


async def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Opened:
    """A room that waits for its page."""

    room: HeldRoom
    entrance: Callable[[], dict[str, Any]]
    """What the page needs to come in (JSON-ready); made anew for each time, since some of it is good for minutes."""
    arrived: Callable[[], Awaitable[bool]] = _at_once
    """Waits until talking is of use; whether it ever is, since the room may be left before."""
    clear: Callable[[], Awaitable[None]] = _nothing
    """Removes what the room left outside this process, once it is closed.  Never raises, and has a deadline."""


class Transport(Protocol):
    """One way to carry conversations."""

    @property
    def name(self) -> Literal["webrtc", "livekit"]:
        """What the page chooses its own half by."""
        ...

    @property
    def origins(self) -> tuple[str, ...]:
        """Where a page must be allowed to connect to, besides its own server."""
        ...

    async def check(self) -> str:
        """Why no room can be made at present, in words for whoever starts the server; nothing if one can.

        Raises :class:`VenusError` when that will not change by waiting.
        """
        ...

    async def open(self, *, sees: bool) -> Opened:
        """Make a room, which takes pictures only if somebody ``sees`` them.  Raises :class:`NoConnection`."""
        ...


class WebRtcTransport:
    """The page connects to this process itself."""

    name: Literal["webrtc", "livekit"] = "webrtc"
    origins: tuple[str, ...] = ()

    def __init__(self, options: WebRtcOptions) -> None:
        self._entrance = {"ice_servers": [server.model_dump(exclude_none=True) for server in options.ice_servers]}
        self._options = options
        self._seeing = options.model_copy(update={"video_sections": 1})

    async def check(self) -> str:
        return ""

    async def open(self, *, sees: bool) -> Opened:
        return Opened(WebRtcRoom(self._seeing if sees else self._options), lambda: self._entrance)
