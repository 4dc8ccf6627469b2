"""Conversations in rooms of a LiveKit server: this process joins each of them, and lets exactly one page in."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from typing import Any, Literal, cast

import aiohttp

from ..engines.base import MissingExtra
from ..plugin.rooms.livekit import JoinRefused, LiveKitOptions, LiveKitRoom, sdk
from ..plugin.rooms.livekit.server import NoAnswer, check_server
from ..plugin.rooms.livekit.tokens import admission
from ..plugin.rooms.livekit.wire import EVENTS
from .settings import LiveKitAccess
from .transport import NoConnection, Opened

try:
    from livekit import api, rtc
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

log = logging.getLogger(__name__)

_SAID = {
    "livekit_down": "the LiveKit server does not answer",
    "livekit_refused": "the LiveKit server does not let this server in",
}
_VARIABLES = ("VENUS_ROOM__LIVEKIT__URL", "VENUS_ROOM__LIVEKIT__KEY", "VENUS_ROOM__LIVEKIT__SECRET")
_CHECK_S = 3.0
_JOIN_S = 30.0
"""How long a room waits for its page."""
_FAREWELL_S = 1.0
"""How long a page may take to hear why it is over and to go by itself."""
_CLEAR_S = 3.0
"""How long the server may take to remove a room that is over."""


class PageRoom(LiveKitRoom):
    """A LiveKit room for the page of a visitor whom ``options.listen_to`` names.

    It knows when the page is there, and tells it why it is over.
    """

    def __init__(self, rtc_room: rtc.Room, options: LiveKitOptions | None = None, **more: Any) -> None:
        super().__init__(rtc_room, options, **more)
        self._visitors = () if options is None or isinstance(options.listen_to, str) else options.listen_to
        self._there, self._gone = asyncio.Event(), asyncio.Event()
        self._gone.set()
        sdk.on(rtc_room, "participant_active", self._visitor_there)
        sdk.on(rtc_room, "participant_disconnected", self._visitor_left)

    async def arrived(self) -> bool:
        """Wait until the page can be told something, or the room is left; which of them."""
        waits = [asyncio.create_task(self._there.wait()), asyncio.create_task(self.wait_closed())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        return self._there.is_set()

    async def leave(self, reason: str) -> None:
        if not self.closed and not self._gone.is_set():
            await self._farewell(reason)
        await super().leave(reason)

    async def _farewell(self, reason: str) -> None:
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await sdk.send(self.rtc_room, EVENTS, json.dumps({"type": "closing", "reason": reason}))
                await self._gone.wait()
        except (TimeoutError, sdk.MediaFailed):
            log.info("a page was not told why it is over", extra={"reason": reason})

    def _visitor_there(self, participant: rtc.RemoteParticipant) -> None:
        if participant.identity in self._visitors:
            self._there.set()
            self._gone.clear()

    def _visitor_left(self, participant: rtc.RemoteParticipant) -> None:
        if participant.identity in self._visitors:
            self._gone.set()


class LiveKitTransport:
    """Makes a room of the LiveKit server for each conversation and joins it.

    Nobody can guess the name of a room.  A page's token opens that one room, and only for the microphone, the camera if
    the engine sees, listening and messages: it neither administers the room nor changes what is written on the visitor.
    """

    name: Literal["webrtc", "livekit"] = "livekit"

    def __init__(self, access: LiveKitAccess, grace_s: float, options: LiveKitOptions | None = None) -> None:
        """``options`` are those of every room, but for whom it hears and sees and how long it waits."""
        self.origins: tuple[str, ...] = access.origins
        self._access = access
        self._grace_s = grace_s
        self._options = options or LiveKitOptions()
        self._deleting: set[asyncio.Task[None]] = set()

    async def check(self) -> str:
        """See :meth:`Transport.check`.  Raises ``RefusedCredentials``."""
        key, secret = self._access.key.get_secret_value(), self._access.secret.get_secret_value()
        try:
            await check_server(self._access.url, key, secret, _VARIABLES, _CHECK_S)
        except NoAnswer as error:
            return str(error)
        return ""

    async def open(self, *, sees: bool) -> Opened:
        name, visitor = f"venus-{secrets.token_urlsafe(24)}", f"visitor-{secrets.token_urlsafe(12)}"
        agent = f"venus-{secrets.token_urlsafe(12)}"
        try:
            async with asyncio.timeout(self._access.join_deadline_s):
                await self._create(name)
                room = await self._join_or_delete(name, agent, visitor, sees=sees)
        except JoinRefused as error:
            log.warning("a LiveKit room could not be joined", extra={"error": str(error)})
            code = "livekit_refused" if error.code in ("token", "expired") else "livekit_down"
            raise NoConnection(code, _SAID[code]) from None
        except TimeoutError:
            log.warning("the LiveKit server took too long", extra={"deadline_s": self._access.join_deadline_s})
            raise NoConnection("livekit_down", _SAID["livekit_down"]) from None
        except (aiohttp.ClientError, OSError) as error:
            log.warning("the LiveKit server cannot be reached", extra={"error": type(error).__name__})
            raise NoConnection("livekit_down", _SAID["livekit_down"]) from None
        except (api.TwirpError, sdk.MediaFailed) as error:
            log.warning("the LiveKit server refused", extra={"error": str(error)})
            raise NoConnection("livekit_refused", _SAID["livekit_refused"]) from None

        def entrance() -> dict[str, Any]:
            token = self._visitor_token(name, visitor, sees=sees)
            return {"livekit": {"url": self._access.url, "token": token, "agent": agent}}

        return Opened(room, entrance, room.arrived, lambda: self._delete(name))

    async def _create(self, name: str) -> None:
        async with self._api() as client:
            request = api.CreateRoomRequest(
                name=name,
                max_participants=1,  # the visitor: the server does not count agents
                # Only for when this process is gone: otherwise it removes the room itself.
                empty_timeout=int(self._grace_s) + 60,
                departure_timeout=int(self._grace_s) + 60,
            )
            await client.room.create_room(request)

    async def _join_or_delete(self, name: str, agent: str, visitor: str, *, sees: bool) -> PageRoom:
        try:
            return await self._join(name, agent, visitor, sees=sees)
        except BaseException:
            # On a task of its own: what could not be joined in time must not hold up who is told so.
            deleting = asyncio.create_task(self._delete(name), name="livekit-delete")
            self._deleting.add(deleting)
            deleting.add_done_callback(self._deleting.discard)
            raise

    async def _join(self, name: str, agent: str, visitor: str, *, sees: bool) -> PageRoom:
        only = {
            "listen_to": (visitor,),
            "obey": "heard",
            "interrupt_from": "listened",  # the page has a button for it
            "video": "camera" if sees else "off",
            "video_from": None,
            "join_s": _JOIN_S,
            "empty_s": self._grace_s,
            "connect_s": self._access.join_deadline_s,
        }
        options = self._options.model_copy(update=only)
        return cast(PageRoom, await PageRoom.join(self._access.url, self._agent_token(name, agent), options))

    async def _delete(self, name: str) -> None:
        """Put whoever is still there out of the room, and forget it."""
        try:
            async with asyncio.timeout(_CLEAR_S), self._api() as client:
                await client.room.delete_room(api.DeleteRoomRequest(room=name))
        except (TimeoutError, OSError, aiohttp.ClientError, api.TwirpError) as error:
            log.info("a room was left to the LiveKit server", extra={"error": type(error).__name__})

    def _api(self) -> api.LiveKitAPI:
        access = self._access
        return api.LiveKitAPI(access.http_url, access.key.get_secret_value(), access.secret.get_secret_value())

    def _agent_token(self, room: str, identity: str) -> str:
        admitted = self._admission(room, identity, ("microphone",), own_metadata=True)
        return admitted.with_kind("agent").with_name("Venus").to_jwt()

    def _visitor_token(self, room: str, identity: str, *, sees: bool) -> str:
        sources = ("microphone", "camera") if sees else ("microphone",)
        return self._admission(room, identity, sources, own_metadata=False).to_jwt()

    def _admission(self, room: str, identity: str, sources: tuple[str, ...], *, own_metadata: bool) -> api.AccessToken:
        key, secret = self._access.key.get_secret_value(), self._access.secret.get_secret_value()
        return admission(
            key,
            secret,
            room=room,
            identity=identity,
            ttl_s=self._access.token_ttl_s,
            sources=sources,
            own_metadata=own_metadata,
        )
