"""The HTTP side of the room: sessions, offers and answers, and the page."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..engines.base import Language, SessionOptions, VenusError
from ..plugin.rooms.webrtc import AlreadyConnected, OfferRefused, RoomClosed, WebRtcRoom
from .conversations import Conversation, Conversations, NoSpace
from .host import Host, HostState
from .settings import RoomSettings
from .tokens import Door, TooManyTries, WrongKey
from .transport import NoConnection

log = logging.getLogger(__name__)

PAGE = Path(__file__).parent / "page"
MAX_BODY = 256 * 1024
"""Bytes of the largest request; an offer has about 10 kB."""
_FAILED = "the engine could not be loaded; the reason is in the log of the server"
"""What anybody may know, even without a key; the reason itself may name files of this machine."""
SHUTDOWN_S = 8.0
"""How long conversations may take to end when the server stops."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src {}; "
    "media-src 'self' blob: mediastream:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PERMISSIONS = "microphone=(self), camera={}, geolocation=()"
_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PortInUse(VenusError):
    """Another program listens on the port."""


class Refusal(VenusError):
    """An answer other than success: ``code`` for the page, ``status`` for HTTP."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _SessionBody(_Body):
    language: Language | None = None
    voice: str | None = Field(default=None, min_length=1, max_length=64)


class _OfferBody(_Body):
    token: str = Field(min_length=1, max_length=128)
    type: str = Field(pattern="^offer$")
    sdp: str = Field(min_length=1, max_length=MAX_BODY)
    resume: str = Field(default="", max_length=128)


class _TokenBody(_Body):
    token: str = Field(min_length=1, max_length=128)


@dataclass(frozen=True, slots=True)
class RoomServer:
    """What the handlers share."""

    settings: RoomSettings
    host: Host
    conversations: Conversations
    door: Door
    recording: bool = False
    own_hosts: frozenset[str] = field(default_factory=lambda: frozenset({"localhost", "127.0.0.1", "::1"}))

    def app(self) -> web.Application:
        """The application; stopping it ends every conversation."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[_explain, self._guard])
        app.add_routes(
            [
                web.get("/", _index),
                web.get("/healthz", self._health),
                web.get("/api/info", self._info),
                web.post("/api/session", self._begin),
                web.delete("/api/session/{token}", self._delete),
                web.post("/api/offer", self._offer),
                web.post("/api/entrance", self._entrance),
                web.post("/api/close", self._close),
                web.static("/page", PAGE),
            ]
        )
        app.on_response_prepare.append(self._add_headers)
        app.on_shutdown.append(self._shutdown)
        return app

    # -- handlers ---------------------------------------------------------------------------------------------------

    async def _health(self, _request: web.Request) -> web.Response:
        state = self.host.state
        return web.json_response({"state": state}, status=200 if state is HostState.READY else 503)

    async def _info(self, _request: web.Request) -> web.Response:
        profile, progress = self.host.profile, self.host.progress
        return web.json_response(
            {
                "version": metadata.version("realtime-venus"),
                "transport": self.conversations.transport.name,
                "engine": {
                    "name": profile.name,
                    "state": self.host.state,
                    "stage": progress.stage,
                    "share": progress.share,
                    "error": _FAILED if self.host.state is HostState.FAILED else "",
                },
                "languages": list(profile.languages),
                "voices": {language: list(names) for language, names in (profile.voices or {}).items()},
                "can_type": profile.capabilities.type,
                "text_chars": profile.capabilities.text_chars,
                "can_see": profile.sees,
                "key_required": self.door.locked,
                "recording": self.recording,
                "sessions": {"open": len(self.conversations), "limit": self.conversations.limit},
            }
        )

    async def _begin(self, request: web.Request) -> web.Response:
        self._check_key(request)
        body = await _read(request, _SessionBody)
        if self.host.state is HostState.FAILED:
            raise Refusal(503, "engine_failed", self.host.error if self.door.locked else _FAILED)
        if self.host.state is HostState.LOADING:
            raise Refusal(503, "loading", "Venus is still waking up")
        voices = self.host.profile.voices or {}
        if body.voice is not None and not any(body.voice in names for names in voices.values()):
            raise Refusal(400, "voice", "there is no such voice")
        try:
            conversation = await self.conversations.begin(SessionOptions(language=body.language, voice=body.voice))
        except NoSpace as error:
            raise Refusal(429, "full", str(error)) from None
        except NoConnection as error:
            raise Refusal(503, error.code, str(error)) from None
        known = {"token": conversation.token, "grace_s": self.settings.grace_s, "can_see": self.host.profile.sees}
        return web.json_response({**known, **conversation.entrance()}, status=201)

    async def _entrance(self, request: web.Request) -> web.Response:
        """For a page that was lost and comes back: what it needs to come in may have ended meanwhile."""
        body = await _read(request, _TokenBody)
        return web.json_response(self._find(body.token).entrance())

    async def _offer(self, request: web.Request) -> web.Response:
        body = await _read(request, _OfferBody)
        room = self._find(body.token).room
        if not isinstance(room, WebRtcRoom):
            raise Refusal(409, "transport", "conversations take place in LiveKit rooms here; reload the page")
        try:
            answer = await room.accept(body.sdp, body.resume)
        except AlreadyConnected as error:
            raise Refusal(409, "connected", str(error)) from None
        except OfferRefused as error:
            raise Refusal(422 if error.code == "codec" else 400, error.code, str(error)) from None
        except RoomClosed as error:
            raise Refusal(404, "gone", str(error)) from None
        return web.json_response({"type": "answer", "sdp": answer.sdp, "resume": answer.resume})

    async def _close(self, request: web.Request) -> web.Response:
        """For ``navigator.sendBeacon``, which knows neither DELETE nor headers."""
        body = await _read(request, _TokenBody)
        await self.conversations.end(body.token, "left")
        return web.Response(status=204)

    async def _delete(self, request: web.Request) -> web.Response:
        if not await self.conversations.end(request.match_info["token"], "left"):
            raise Refusal(404, "gone", "this session has ended already")
        return web.Response(status=204)

    # -- checks -----------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Let in only pages of this server, under a name of this server."""
        if self.settings.loopback and _hostname(f"//{request.host}") not in self._known_hosts():
            # A foreign name that resolves to this machine is how a web page elsewhere would reach a local server.
            raise Refusal(403, "host", f"this server is not called {request.host}")
        origin = request.headers.get("Origin")
        if origin is not None and not self._own(origin, request.host):
            raise Refusal(403, "origin", "pages of other sites may not talk to this room")
        return await handler(request)

    def _known_hosts(self) -> frozenset[str]:
        own = _hostname(address(self.settings, self.settings.port, secure=self.settings.https))
        return self.own_hosts | {own} | {_hostname(origin) for origin in self.settings.allowed_origins}

    def _own(self, origin: str, host: str) -> bool:
        scheme = "https" if self.settings.https else "http"
        return origin == f"{scheme}://{host}" or origin in self.settings.allowed_origins

    def _check_key(self, request: web.Request) -> None:
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        try:
            self.door.check(key.strip() if scheme.lower() == "bearer" else "")
        except WrongKey as error:
            raise Refusal(401, "key", str(error)) from None
        except TooManyTries as error:
            raise Refusal(429, "tries", str(error)) from None

    def _find(self, token: str) -> Conversation:
        conversation = self.conversations.find(token)
        if conversation is None:
            raise Refusal(404, "gone", "this session has ended; start a new one")
        return conversation

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.headers["Permissions-Policy"] = _PERMISSIONS.format("(self)" if self.host.profile.sees else "()")
        response.headers["Content-Security-Policy"] = _POLICY.format(
            " ".join(("'self'", *self.conversations.transport.origins))
        )
        response.headers["Cache-Control"] = "no-store" if request.path.startswith("/api/") else "no-cache"

    async def _shutdown(self, _app: web.Application) -> None:
        try:
            async with asyncio.timeout(SHUTDOWN_S):
                await self.conversations.close("shutdown")
        except TimeoutError:
            log.warning("some conversations did not end in time", extra={"open": len(self.conversations)})


# -- plain helpers --------------------------------------------------------------------------------------------------

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_BodyT = TypeVar("_BodyT", bound=_Body)


async def _index(_request: web.Request) -> web.FileResponse:
    return web.FileResponse(PAGE / "index.html")


async def _read(request: web.Request, kind: type[_BodyT]) -> _BodyT:
    if request.content_type != "application/json":
        raise Refusal(415, "json", "send JSON (Content-Type: application/json)")
    try:
        return kind.model_validate_json(await request.read())
    except ValidationError as error:
        wrong = ", ".join(sorted({".".join(str(part) for part in e["loc"]) or "body" for e in error.errors()}))
        raise Refusal(400, "body", f"wrong or missing: {wrong}") from None


@web.middleware
async def _explain(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Turn every refusal into JSON with a code that the page has words for."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return _error(refusal.status, refusal.code, str(refusal))
    except web.HTTPRequestEntityTooLarge:
        return _error(413, "too_large", f"a request may have {MAX_BODY // 1024} KiB at most")
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return _error(error.status, "http", error.reason)


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": code, "message": message}, status=status)


def _hostname(url: str) -> str:
    return urlsplit(url).hostname or ""


# -- listening ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(app: web.Application, settings: RoomSettings, tls: ssl.SSLContext | None) -> AsyncGenerator[str]:
    """Serve ``app`` while the context lasts; gives the address.  Raises :class:`PortInUse`."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, lingering_time=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise _explained(error, settings) from error
        yield address(settings, _port(runner.addresses[0]), secure=tls is not None)
    finally:
        await runner.cleanup()


def address(settings: RoomSettings, port: int, *, secure: bool) -> str:
    """What to open in the browser."""
    host = settings.host
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        shown = host
    else:
        shown = "localhost" if ip.is_unspecified else f"[{ip}]" if ip.version == 6 else str(ip)
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def _port(name: Any) -> int:
    return int(name[1])


def _explained(error: OSError, settings: RoomSettings) -> VenusError:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(
            f"port {settings.port} on {settings.host} is in use: stop the other program, or choose another port with "
            "VENUS_ROOM__PORT or --port (0 takes any free one)"
        )
    return VenusError(
        f"cannot listen on {settings.host} port {settings.port} ({error.strerror}): "
        "check VENUS_ROOM__HOST and VENUS_ROOM__PORT"
    )
