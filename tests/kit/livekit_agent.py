"""The agent under test in a real LiveKit room: the room, a session around it, an engine that does as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from realtime_venus.engines.base import MediaUnit, OverlapPhase, SessionOptions
from realtime_venus.plugin.rooms.livekit import LiveKitOptions, LiveKitRoom
from realtime_venus.plugin.session import Session, SessionSettings

from .fake_engine import FakeEngine, FakeSession
from .livekit_participant import agent_token, until
from .livekit_server import LiveKitServer
from .sessions import Loud, voice

ROOM = "talk"
SHORT = LiveKitOptions(join_s=60, empty_s=60, reconnect_s=60)
TONE = voice((0, 1000), total_ms=1000)
HIGHER = voice((0, 1000), total_ms=1000, hz=170)
"""Another voice: no overtone is one of the first, so that the two never cancel out, whenever each begins."""


@dataclass
class Agent:
    """The agent under test."""

    room: LiveKitRoom
    engine: FakeEngine
    session: Session
    running: asyncio.Task[None]

    @property
    def ear(self) -> FakeSession:
        return self.engine.session

    def power(self, first_ms: int = 0) -> float:
        """Loudest unit (mean square) that the engine was given from ``first_ms`` on."""
        units = [unit for unit in self.ear.units if unit.start_ms >= first_ms]
        return max((float(np.mean(unit.audio**2)) for unit in units), default=0.0)

    async def hears(self, what: str, at_least: float = 1e-3) -> None:
        first_ms = self.ear.now_ms
        await until(lambda: self.power(first_ms) >= at_least, what)

    async def left(self) -> str:
        async with asyncio.timeout(60):
            await asyncio.wait([self.running])
        self.running.result()
        return self.room.reason


@asynccontextmanager
async def agent(
    server: LiveKitServer,
    options: LiveKitOptions = SHORT,
    *,
    on_unit: Callable[[FakeSession, MediaUnit], None] | None = None,
    on_overlap: Callable[[FakeSession, OverlapPhase], None] | None = None,
    identity: str = "venus",
    **more: Any,
) -> AsyncGenerator[Agent]:
    room = await LiveKitRoom.join(server.url, agent_token(ROOM, identity), options, **more)
    engine = FakeEngine(on_unit, on_overlap)
    session = Session(room, engine, SessionOptions(), SessionSettings(), detector=Loud())
    running = asyncio.create_task(session.run())
    made = Agent(room, engine, session, running)
    try:
        await until(lambda: engine.sessions, "the session")
        yield made
    finally:
        session.stop()
        await asyncio.wait([running])
        running.result()
