"""One conversation in one named room, without a worker: joins as any participant does, with a token of its own."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field

from ...engines.base import Engine, SessionOptions
from ..rooms.livekit.options import LiveKitOptions
from ..rooms.livekit.room import LiveKitRoom
from ..rooms.livekit.tokens import admission
from ..session import Session, SessionSettings
from .settings import WorkerSettings

_log = logging.getLogger(__name__)

TOKEN_S = 3600
"""How long the token may be used to join, also again after a lost connection."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Where to go, as whom, and how to talk there."""

    room: str
    identity: str = ""
    """Random when empty."""
    options: SessionOptions = field(default_factory=SessionOptions)


def token(settings: WorkerSettings, room: str, identity: str) -> str:
    """A token with which an agent can join ``room`` and nothing else."""
    made = admission(settings.key, settings.secret, room=room, identity=identity, ttl_s=TOKEN_S, own_metadata=True)
    return made.with_name(settings.display_name).with_kind("agent").to_jwt()


async def visit(
    where: Visit,
    engine: Engine,
    settings: WorkerSettings,
    stop: asyncio.Event,
    *,
    session: SessionSettings | None = None,
    room: LiveKitOptions | None = None,
) -> str:
    """Talk in the room until everybody has left or ``stop``; gives the reason of the end.

    Raises what joining the room raises, :class:`EngineFull`, and ``ValueError`` for a voice the engine does not have.
    """
    settings = settings.checked()
    identity = where.identity or f"venus-{secrets.token_hex(4)}"
    joined = await LiveKitRoom.join(settings.url, token(settings, where.room, identity), room)
    _log.info("in the room", extra={"room": where.room, "identity": identity})
    conversation = Session(joined, engine, where.options, session or SessionSettings())

    async def stop_it() -> None:
        await stop.wait()
        conversation.stop("stopped")

    stopping = asyncio.create_task(stop_it(), name="venus-stop")
    try:
        await conversation.run()
    finally:
        stopping.cancel()
        await asyncio.wait((stopping,))
    return joined.reason
