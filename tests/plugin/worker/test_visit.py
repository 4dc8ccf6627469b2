from __future__ import annotations

import asyncio
import dataclasses

import pytest
from livekit import api
from realtime_venus.engines.base import MediaUnit
from realtime_venus.plugin.rooms.livekit.sdk import JoinRefused
from realtime_venus.plugin.worker.settings import MissingCredentials, WorkerSettings
from realtime_venus.plugin.worker.visit import Visit, token, visit

from ...kit.fake_engine import FakeEngine, FakeSession
from ...kit.livekit_guest import agent_of, alone, guest, hears_agent
from ...kit.livekit_server import KEY, SECRET, LiveKitServer

pytestmark = pytest.mark.usefixtures("native_sockets_closed")


def settings_of(server: LiveKitServer, secret: str = SECRET) -> WorkerSettings:
    return WorkerSettings.model_validate({"url": server.url, "api_key": KEY, "api_secret": secret})


def greet(session: FakeSession, unit: MediaUnit) -> None:
    if unit.index == 0:
        session.speak("greeting", 20.0)


async def test_an_agent_joins_one_room_by_itself_and_leaves_when_told(livekit_server: LiveKitServer) -> None:
    stop = asyncio.Event()
    engine = FakeEngine(greet)
    async with guest(livekit_server, "lobby") as user:
        where = Visit("lobby", "venus-itself")
        talking = asyncio.create_task(visit(where, engine, settings_of(livekit_server), stop))
        agent = await agent_of(user)
        assert (agent.identity, agent.name) == ("venus-itself", "Venus")
        await hears_agent(user)
        stop.set()
        await talking
        await alone(user, 10)
    assert engine.open_sessions == 0


async def test_a_wrong_secret_is_said(livekit_server: LiveKitServer) -> None:
    with pytest.raises(JoinRefused, match="does not accept the token"):
        await visit(Visit("lobby"), FakeEngine(), settings_of(livekit_server, "x" * 40), asyncio.Event())


async def test_without_credentials_nothing_is_tried() -> None:
    nothing = WorkerSettings.model_validate({"url": "", "api_key": None, "api_secret": None})
    with pytest.raises(MissingCredentials):
        await visit(Visit("lobby"), FakeEngine(), nothing, asyncio.Event())


def test_the_token_opens_one_room_and_nothing_else(livekit_server: LiveKitServer) -> None:
    claims = api.TokenVerifier(KEY, SECRET).verify(token(settings_of(livekit_server), "lobby", "venus-itself"))
    assert claims.video is not None
    given = {name for name, value in dataclasses.asdict(claims.video).items() if value}
    expected = {"room_join", "room", "can_publish", "can_subscribe", "can_publish_data", "can_update_own_metadata"}
    assert given == expected | {"can_publish_sources"}
    assert claims.video.can_publish_sources == ["microphone"]
    assert (claims.video.room, claims.kind, claims.identity) == ("lobby", "agent", "venus-itself")
