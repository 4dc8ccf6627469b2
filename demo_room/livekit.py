"""Conversations in rooms of a LiveKit server: this process joins each of them, and lets exactly one page in."""

from __future__ import annotations

import asyncio
import logging
import secrets
from datetime import timedelta
from typing import Any, Literal

import aiohttp

from ..engines.base import MissingExtra
from ..plugin.rooms.livekit import LiveKitOptions, LiveKitRoom
from .settings import LiveKitAccess
from .transport import NoConnection, Opened

try:
    from livekit import api, rtc
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

log = logging.getLogger(__name__)

_CLEAR_S = 3.0
"""How long the server may take to remove a room that is over."""


class LiveKitTransport:
    """Makes a room of the LiveKit server for each conversation and joins it.

    Nobody can guess the name of a room.  A page's token opens that one room, and only for the microphone and the
    camera, listening and messages: it neither administers the room nor changes what is written on the visitor.
    """

    name: Literal["webrtc", "livekit"] = "livekit"

    def __init__(self, access: LiveKitAccess, *, grace_s: float) -> None:
        self.origins: tuple[str, ...] = access.origins
        self._access = access
        self._grace_s = grace_s

    async def open(self) -> Opened:
        name, visitor = f"venus-{secrets.token_urlsafe(24)}", f"visitor-{secrets.token_urlsafe(12)}"
        agent = f"venus-{secrets.token_urlsafe(12)}"
        try:
            async with asyncio.timeout(self._access.join_deadline_s):
                await self._create(name)
                room = await self._join(name, agent, visitor)
        except TimeoutError:
            log.warning("the LiveKit server took too long", extra={"deadline_s": self._access.join_deadline_s})
            raise NoConnection("livekit_down", "the LiveKit server does not answer") from None
        except (aiohttp.ClientError, OSError) as error:
            log.warning("the LiveKit server cannot be reached", extra={"error": type(error).__name__})
            raise NoConnection("livekit_down", "the LiveKit server does not answer") from None
        except (api.TwirpError, rtc.ConnectError) as error:
            log.warning("the LiveKit server refused", extra={"error": error.message})
            raise NoConnection("livekit_refused", "the LiveKit server refuses this server") from None

        def entrance() -> dict[str, Any]:
            token = self._visitor_token(name, visitor)
            return {"livekit": {"url": self._access.url, "token": token, "agent": agent}}

        return Opened(room, entrance, lambda: self._delete(name))

    async def _create(self, name: str) -> None:
        async with self._api() as client:
            request = api.CreateRoomRequest(
                name=name,
                max_participants=2,
                # Only for when this process is gone: otherwise it removes the room itself.
                empty_timeout=int(self._grace_s) + 60,
                departure_timeout=int(self._grace_s) + 60,
            )
            await client.room.create_room(request)

    async def _join(self, name: str, agent: str, visitor: str) -> LiveKitRoom:
        options = LiveKitOptions()
        return await LiveKitRoom.join(self._access.url, self._agent_token(name, agent), options)

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
        grants = api.VideoGrants(
            room_join=True,
            room=room,
            can_publish=True,
            can_publish_sources=["microphone"],
            can_subscribe=True,
            can_publish_data=True,
            can_update_own_metadata=True,
        )
        return self._token(identity, grants).with_kind("agent").with_name("Venus").to_jwt()

    def _visitor_token(self, room: str, identity: str) -> str:
        grants = api.VideoGrants(
            room_join=True,
            room=room,
            can_publish=True,
            can_publish_sources=["microphone", "camera"],
            can_subscribe=True,
            can_publish_data=True,
            can_update_own_metadata=False,
        )
        return self._token(identity, grants).to_jwt()

    def _token(self, identity: str, grants: api.VideoGrants) -> api.AccessToken:
        access = self._access
        return (
            api.AccessToken(access.key.get_secret_value(), access.secret.get_secret_value())
            .with_identity(identity)
            .with_ttl(timedelta(seconds=access.token_ttl_s))
            .with_grants(grants)
        )
