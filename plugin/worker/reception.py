"""``POST /token``: a token for a user while somebody is free to talk, and otherwise the reason why there is none.

A refused job carries no reason, and its room looks like one whose agent is late.  So users are told before they join.
The request and the answer are those of LiveKit's clients (``TokenSource.endpoint``); every part may be left out::

    {"room_name": "lobby", "participant_identity": "alice", "participant_name": "Alice"}
    201 {"server_url": "wss://…", "participant_token": "…"}
    503 {"error": "full", "message": "…"}            Retry-After: 10

It is for the program that knows the users, never for a page: without a secret what comes from a page is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable
from typing import Annotated

import aiohttp
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..rooms.livekit.tokens import admission
from .adapter import api
from .endpoint import Condition
from .metrics import WorkerMetrics
from .settings import WorkerSettings

_log = logging.getLogger(__name__)

RETRY_S = 10
"""When to ask again: about the time in which calls end."""
ASK_S = 2.0
"""How long another worker, or the LiveKit server, may take to answer."""
OUR_IDENTITIES = "venus-"
"""What the agents' identities begin with: a user of the same identity would put the agent out of its room."""

Name = Annotated[str, Field(pattern=r"^\w[\w .@+=:-]{0,127}$")]
Shown = Annotated[str, Field(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Wanted(BaseModel):
    """Who wants to come in, and where; a name that is left out is one that nobody can guess."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    room_name: Name = Field(default_factory=lambda: f"room-{secrets.token_urlsafe(18)}")
    participant_identity: Name = Field(default_factory=lambda: f"user-{secrets.token_urlsafe(12)}")
    participant_name: Shown = ""


class _Slots(BaseModel):
    """What a worker says at ``/slots``."""

    slots: int
    free: int
    trouble: str


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Reception:
    """``condition`` is this worker's, ``sees`` whether its engine takes pictures."""

    def __init__(
        self,
        settings: WorkerSettings,
        condition: Callable[[], Condition],
        sees: Callable[[], bool],
        metrics: WorkerMetrics,
    ) -> None:
        self._settings = settings
        self._condition = condition
        self._sees = sees
        self._metrics = metrics

    async def answer(self, request: web.Request) -> web.Response:
        """Give a token, or say why not."""
        try:
            self._check(request)
            wanted = await _read(request)
            await self._find_place(wanted.room_name)
        except _Refused as refused:
            self._metrics.token(refused.code)
            headers = {"Retry-After": str(RETRY_S)} if refused.status == 503 else {}
            body = {"error": refused.code, "message": str(refused)}
            return web.json_response(body, status=refused.status, headers=headers | _UNCACHED)
        self._metrics.token("given")
        body = {
            "server_url": self._settings.token_url or self._settings.url,
            "participant_token": self._token(wanted),
        }
        return web.json_response(body, status=201, headers=_UNCACHED)

    def _check(self, request: web.Request) -> None:
        secret = self._settings.token_secret
        if secret is None:
            if "Origin" in request.headers:  # as every page's POST has, also that of a page elsewhere
                raise _Refused(403, "origin", "tokens are given to programs; for pages set VENUS_WORKER__TOKEN_SECRET")
            return
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        known = secret.get_secret_value().encode()
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(errors="surrogatepass"), known):
            raise _Refused(401, "secret", "the secret (Authorization: Bearer …) is missing or wrong")

    async def _find_place(self, room: str) -> None:
        """Raise :class:`_Refused` unless a worker is free, or an agent is in the room already."""
        own = self._condition()
        if not own.trouble and own.occupancy.free:
            return
        others = await asyncio.gather(*(_slots_of(worker) for worker in self._settings.token_workers))
        if any(one.free > 0 and not one.trouble for one in others if one is not None):
            return
        if await self._agent_in(room):
            return
        working = [one.slots for one in others if one is not None and not one.trouble]
        working += [] if own.trouble else [own.occupancy.slots]
        if not working:
            raise _Refused(503, "not_ready", f"nobody is there to talk: {own.trouble}")
        raise _Refused(503, "full", f"all {sum(working)} places are taken: try again a little later")

    async def _agent_in(self, room: str) -> bool:
        settings = self._settings
        try:
            async with asyncio.timeout(ASK_S), api.LiveKitAPI(settings.url, settings.key, settings.secret) as client:
                found = await client.room.list_participants(api.ListParticipantsRequest(room=room))
        except (api.TwirpError, aiohttp.ClientError, TimeoutError, OSError):
            return False  # no such room, as a rule
        return any(one.kind == api.ParticipantInfo.Kind.AGENT for one in found.participants)

    def _token(self, wanted: Wanted) -> str:
        settings = self._settings
        made = admission(
            settings.key,
            settings.secret,
            room=wanted.room_name,
            identity=wanted.participant_identity,
            ttl_s=settings.token_ttl_s,
            sources=("microphone", "camera", "screen_share") if self._sees() else ("microphone",),
        ).with_name(wanted.participant_name)
        if settings.agent_name:  # such an agent comes only to rooms that ask for it
            dispatch = api.RoomAgentDispatch(agent_name=settings.agent_name)
            made = made.with_room_config(api.RoomConfiguration(agents=[dispatch]))
        return made.to_jwt()


_UNCACHED = {"Cache-Control": "no-store"}


async def _read(request: web.Request) -> Wanted:
    if request.content_type != "application/json":
        raise _Refused(415, "json", "send JSON (Content-Type: application/json)")
    try:
        wanted = Wanted.model_validate_json(await request.read() or b"{}")
    except web.HTTPRequestEntityTooLarge:
        raise _Refused(413, "too_large", "the request is too long") from None
    except ValidationError as error:
        wrong = ", ".join(sorted({".".join(map(str, one["loc"])) or "body" for one in error.errors()}))
        raise _Refused(400, "body", f"wrong: {wrong}; known are {', '.join(Wanted.model_fields)}") from None
    if wanted.participant_identity.startswith(OUR_IDENTITIES):
        raise _Refused(400, "body", f"wrong: participant_identity; those of agents begin with {OUR_IDENTITIES}")
    return wanted


async def _slots_of(worker: str) -> _Slots | None:
    """How full another worker is; ``None`` when it does not say."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ASK_S)) as client,
            client.get(f"{worker}/slots", allow_redirects=False) as answer,
        ):
            return _Slots.model_validate_json(await answer.content.read(4096))
    except (aiohttp.ClientError, TimeoutError, OSError, ValidationError) as error:
        _log.warning("a worker does not say how full it is", extra={"worker": worker, "error": type(error).__name__})
        return None
