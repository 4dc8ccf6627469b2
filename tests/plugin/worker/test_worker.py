from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from realtime_venus.engines.base import EngineFull, MediaUnit, NotEnoughMemory, SessionOptions
from realtime_venus.plugin.rooms.livekit import LiveKitOptions
from realtime_venus.plugin.rooms.livekit.server import RefusedCredentials
from realtime_venus.plugin.worker.endpoint import EndpointTaken
from realtime_venus.plugin.worker.settings import MissingCredentials, WorkerSettings
from realtime_venus.plugin.worker.worker import Unreachable, Worker

from ...kit.fake_engine import FakeEngine, FakeSession
from ...kit.livekit_guest import agent_of, alone, environment_kept, guest, hears_agent
from ...kit.livekit_participant import until
from ...kit.livekit_server import KEY, SECRET, LiveKitServer

__all__ = ["environment_kept"]

pytestmark = pytest.mark.usefixtures("environment_kept", "native_sockets_closed")

END_S = 60.0


def settings_of(server: LiveKitServer, **more: object) -> WorkerSettings:
    return WorkerSettings.model_validate(
        {"url": server.url, "api_key": KEY, "api_secret": SECRET, "port": 0, "agent_name": "", **more}
    )


def greet(session: FakeSession, unit: MediaUnit) -> None:
    if unit.index == 0:
        session.speak("greeting", 60.0)


class Hungry(FakeEngine):
    """An engine that does not fit into this machine."""

    async def load(self) -> None:
        raise NotEnoughMemory("The models need 3 GB of free memory.")


@asynccontextmanager
async def working(worker: Worker, *, drain: bool = True) -> AsyncGenerator[asyncio.Event]:
    """The worker, ready for jobs; told to stop afterwards, if it was not before."""
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, drain=drain))
    ready: list[int] = []
    try:
        async with aiohttp.ClientSession() as client, asyncio.timeout(END_S):
            while ready != [200]:
                assert not running.done(), running
                await asyncio.sleep(0.05)
                if worker.port:
                    async with client.get(f"http://127.0.0.1:{worker.port}/readyz") as answer:
                        ready = [answer.status]
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(END_S):
            await running


async def test_calls_are_held_on_threads_of_their_own_and_all_is_freed(livekit_server: LiveKitServer) -> None:
    engine = FakeEngine(greet)
    worker = Worker(settings_of(livekit_server), lambda: engine)
    async with working(worker, drain=False) as stop, guest(livekit_server, "lobby") as user:
        await hears_agent(user)
        assert engine.open_sessions == 1
        stop.set()
        await alone(user, 10)
    assert engine.open_sessions == 0
    assert not worker.stuck


async def test_a_draining_worker_waits_for_its_call(livekit_server: LiveKitServer) -> None:
    engine = FakeEngine(greet)
    worker = Worker(settings_of(livekit_server), lambda: engine, room=LiveKitOptions(empty_s=0.2))
    async with working(worker) as stop:
        async with guest(livekit_server, "lobby") as user:
            await hears_agent(user)
            stop.set()
            await hears_agent(user)
        await until(lambda: not engine.open_sessions, "the call's end")


async def test_a_full_worker_tells_who_would_join_and_lets_back_in_whose_room_has_its_agent(
    livekit_server: LiveKitServer,
) -> None:
    settings = settings_of(livekit_server, max_sessions=1, token_endpoint=True)
    worker = Worker(settings, lambda: FakeEngine(greet))
    async with working(worker, drain=False), aiohttp.ClientSession(f"http://127.0.0.1:{worker.port}") as client:
        async with client.post("/token", json={"room_name": "lobby", "participant_identity": "alice"}) as answer:
            given = await answer.json()
            assert (answer.status, given["server_url"]) == (201, livekit_server.url)
        async with guest(livekit_server, "lobby", token=given["participant_token"]) as user:
            await hears_agent(user)
            async with client.post("/token", json={"room_name": "elsewhere"}) as answer:
                assert (answer.status, (await answer.json())["error"]) == (503, "full")
                assert answer.headers["Retry-After"] == "10"
            async with client.post("/token", json={"room_name": "lobby", "participant_identity": "alice"}) as answer:
                assert answer.status == 201


async def test_nobody_gives_tokens_unless_told_to(livekit_server: LiveKitServer) -> None:
    worker = Worker(settings_of(livekit_server), FakeEngine)
    async with (
        working(worker),
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{worker.port}/token", json={}) as answer,
    ):
        assert answer.status == 404


async def test_an_agent_with_bad_metadata_leaves_when_the_worker_ends(livekit_server: LiveKitServer) -> None:
    from livekit import api

    engine = FakeEngine(greet)
    async with (
        working(Worker(settings_of(livekit_server, agent_name="clerk"), lambda: engine), drain=False) as stop,
        guest(livekit_server, "lobby") as user,
        livekit_server.api() as client,
    ):
        wrong = api.CreateAgentDispatchRequest(agent_name="clerk", room="lobby", metadata="hello")
        await client.agent_dispatch.create_dispatch(wrong)
        assert "not JSON" in (await agent_of(user)).attributes["venus.refused"]
        stop.set()
        await alone(user, 10)
    assert engine.sessions == []


@pytest.mark.parametrize(
    ("error", "said"), [(EngineFull(1), "engine is full"), (OSError("the disk is gone"), "cannot begin")]
)
async def test_a_conversation_that_cannot_begin_is_told_in_the_room(
    error: Exception, said: str, livekit_server: LiveKitServer
) -> None:
    class Refusing(FakeEngine):
        def open(self, options: SessionOptions) -> FakeSession:
            raise error

    async with (
        working(Worker(settings_of(livekit_server), Refusing), drain=False) as stop,
        guest(livekit_server, "lobby") as user,
    ):
        agent = await agent_of(user)
        await user.until(lambda: said in agent.attributes.get("venus.refused", ""), "why")
        stop.set()
        await alone(user, 10)


async def test_a_wrong_secret_is_said_and_no_engine_is_made(livekit_server: LiveKitServer) -> None:
    made: list[FakeEngine] = []

    def make() -> FakeEngine:
        made.append(FakeEngine())
        return made[-1]

    worker = Worker(settings_of(livekit_server, api_secret="x" * 40), make)
    with pytest.raises(RefusedCredentials, match="LIVEKIT_API_SECRET"):
        await worker.run(asyncio.Event())
    assert made == []


async def test_a_server_that_is_not_there_is_given_up_after_as_many_attempts(livekit_server: LiveKitServer) -> None:
    livekit_server.stop()
    worker = Worker(settings_of(livekit_server, connect_attempts=1), FakeEngine)
    with pytest.raises(Unreachable, match="1 times in a row"):
        await worker.run(asyncio.Event())


async def test_an_engine_that_cannot_load_ends_the_worker_with_its_own_words(livekit_server: LiveKitServer) -> None:
    with pytest.raises(NotEnoughMemory, match="3 GB"):
        await Worker(settings_of(livekit_server), Hungry).run(asyncio.Event())


async def test_told_to_stop_while_it_loads_a_worker_takes_no_job(livekit_server: LiveKitServer) -> None:
    stop = asyncio.Event()
    stop.set()
    await Worker(settings_of(livekit_server), FakeEngine).run(stop)
    assert "worker registered" not in livekit_server.log.read_text()


async def test_a_second_worker_on_the_same_port_says_so(livekit_server: LiveKitServer) -> None:
    first = Worker(settings_of(livekit_server), FakeEngine)
    async with working(first):
        with pytest.raises(EndpointTaken, match=str(first.port)):
            await Worker(settings_of(livekit_server, port=first.port), FakeEngine).run(asyncio.Event())


def test_credentials_are_asked_for_before_anything_else() -> None:
    with pytest.raises(MissingCredentials):
        Worker(WorkerSettings.model_validate({"url": "", "api_key": None, "api_secret": None}), FakeEngine)
