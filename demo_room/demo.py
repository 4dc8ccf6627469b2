"""The demo from start to end: listen, load, say where, serve until told to stop, and leave nothing behind."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from ..engines.base import VenusError
from ..plugin.rooms.livekit.options import LiveKitOptions
from . import tls
from .conversations import Conversations
from .host import EngineHost, HostState
from .server import RoomServer, listening
from .settings import RoomSettings
from .tokens import Door
from .transport import Transport, WebRtcTransport

Say = Callable[[str], None]


async def serve(
    settings: RoomSettings,
    host: EngineHost,
    stop: asyncio.Event,
    say: Say,
    *,
    cache_dir: Path,
    recording: bool = False,
    livekit: LiveKitOptions | None = None,
    ready: Say = lambda address: None,
) -> None:
    """Serve until ``stop`` is set.  ``say`` gets lines for the terminal, ``ready`` the address once it can answer.

    Raises ``PortInUse``, ``MissingExtra``, and ``RefusedCredentials`` of a LiveKit server before anything is loaded,
    and ``VenusError`` when the engine cannot be.
    """
    key = None if settings.key is None else settings.key.get_secret_value()
    way = transport(settings, livekit)
    conversations = Conversations(host, way, settings.max_sessions)
    door = Door(key, asyncio.get_running_loop().time)
    server = RoomServer(settings, host, conversations, door, recording)
    try:
        async with listening(server.app(), settings, _context(settings, cache_dir, say)) as address:
            trouble = await way.check()
            host.start()
            say(f"The page is at {address}; Venus is waking up")
            if settings.livekit is not None:
                say(f"Conversations take place in rooms of {settings.livekit.url}")
            if trouble:
                say(f"Warning: {trouble} Until that changes, no conversation can begin.")
            await _first(host.wait_loaded(), stop.wait())
            if host.state is HostState.FAILED:
                raise VenusError(host.error)
            if not stop.is_set():
                if host.state is not HostState.READY:
                    raise VenusError("loading was given up before the engine was there")
                still = ", but the LiveKit server is not" if trouble and await way.check() else ""
                say(f"Venus is ready at {address}{still}")
                ready(address)
                await stop.wait()
            say("Venus is going")
    finally:
        await host.close()


def transport(settings: RoomSettings, livekit: LiveKitOptions | None = None) -> Transport:
    """The way that the settings ask for; ``livekit`` are the options of LiveKit rooms.

    Raises ``MissingExtra``, and what :meth:`RoomSettings.checked` raises.
    """
    access = settings.checked().livekit
    if access is None:
        return WebRtcTransport(settings.webrtc())
    from .livekit import LiveKitTransport  # its packages come with an extra

    return LiveKitTransport(access, settings.grace_s, livekit)


def _context(settings: RoomSettings, cache_dir: Path, say: Say) -> ssl.SSLContext | None:
    if not settings.https:
        return None
    if settings.tls_cert is not None and settings.tls_key is not None:
        return tls.context(tls.given(settings.tls_cert, settings.tls_key))
    certificate = tls.self_signed(settings.host, cache_dir / "tls")
    say(
        "The browser will warn of a certificate that Venus made herself; "
        f"compare its SHA-256 fingerprint before you go on:\n  {certificate.fingerprint}"
    )
    return tls.context(certificate)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
