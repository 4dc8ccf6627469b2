"""Workers as processes of their own, with the scripted engine, at a real livekit-server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from livekit import api

from ..kit.agent_process import AgentProcess, agent_process
from ..kit.livekit_guest import agent_of, agents, alone, guest, hears_agent
from ..kit.livekit_server import KEY, SECRET, LiveKitServer

pytestmark = pytest.mark.usefixtures("native_sockets_closed")

GHOST_S = 90.0
"""How long the server may keep somebody in the room whose process was killed."""
SOON_S = 45.0
PATIENT = {"empty_s": 5.0, "connect_s": 60.0}
"""On two busy cores joining takes long, and a guest may be gone for a second until it is connected again."""


async def dispatch(server: LiveKitServer, room: str, name: str = "", metadata: str = "") -> None:
    async with server.api() as client:
        await client.agent_dispatch.create_dispatch(
            api.CreateAgentDispatchRequest(agent_name=name, room=room, metadata=metadata)
        )


async def until(true: Callable[[], object], what: str, timeout_s: float = SOON_S) -> None:
    """Wait for something in another process that tells nobody when it happens."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if true():
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"it did not come to be: {what}")


async def until_in_use(worker: AgentProcess, count: int) -> None:
    try:
        async with asyncio.timeout(SOON_S):
            while True:
                if (await worker.slots())["in_use"] == count:
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"{await worker.slots()} where {count} in use were expected:\n{worker.said()}")


# -- dispatch -------------------------------------------------------------------------------------------------------


async def test_a_new_room_gets_an_agent_that_talks(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    async with (
        agent_process(livekit_server, tmp_path, display_name="Clerk") as worker,
        guest(livekit_server, "lobby") as user,
    ):
        agent = await agent_of(user)
        assert agent.name == "Clerk"
        await hears_agent(user)
        assert await worker.slots() == {"slots": 2, "in_use": 1, "free": 1, "trouble": ""}
        assert await worker.metric("venus_active_jobs") == 1
        assert await worker.metric("venus_jobs_accepted_total") == 1
        assert (await worker.get("/healthz"))[0] == 200
        (options,) = worker.sessions()
        assert (options["language"], options["voice"], options["persona"], options["facts"]) == (None, None, None, [])


async def test_jobs_are_spread_and_a_full_house_takes_no_more(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    """Four rooms at once for two workers with two places each: four calls, and the fifth room has none."""
    async with (
        agent_process(livekit_server, tmp_path, "one", room=PATIENT) as one,
        agent_process(livekit_server, tmp_path, "two", room=PATIENT) as two,
        asyncio.TaskGroup() as group,
    ):
        leave = asyncio.Event()
        arrived = [asyncio.Event() for _ in range(4)]

        async def call(number: int) -> None:
            async with guest(livekit_server, f"room {number}") as user:
                try:
                    await hears_agent(user)
                except pytest.fail.Exception as error:
                    pytest.fail(f"{number}: {error}\n{one.said()}\n{two.said()}", pytrace=False)
                arrived[number].set()
                await leave.wait()

        for number in range(4):
            group.create_task(call(number))
        async with asyncio.timeout(120):
            for event in arrived:
                await event.wait()
        for worker in (one, two):
            assert await worker.slots() == {"slots": 2, "in_use": 2, "free": 0, "trouble": ""}
            assert len(worker.sessions()) == 2
            assert (await worker.get("/readyz"))[0] == 200

        async with guest(livekit_server, "room 4") as fifth:
            nobody = "no servers available"
            await until(lambda: nobody in livekit_server.log.read_text(), "the server has found no worker")
            assert not agents(fifth)
            leave.set()  # there are places again
            await until_in_use(one, 0)
            await dispatch(livekit_server, "room 4")
            await hears_agent(fifth)


async def test_the_last_place_is_used_too(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    """Three of four places are a load from which on the server passes a worker over, unless the worker knows that."""
    async with (
        agent_process(livekit_server, tmp_path, max_sessions=4) as worker,
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(4):
            user = await stack.enter_async_context(guest(livekit_server, f"room {number}"))
            await hears_agent(user)
        assert (await worker.slots())["free"] == 0


async def test_a_named_agent_comes_only_when_asked_for_and_knows_its_metadata(
    livekit_server: LiveKitServer, tmp_path: Path
) -> None:
    said = {"language": "zh", "voice": "tenor", "persona": "A clerk.", "facts": ["Open from 9."]}
    async with agent_process(livekit_server, tmp_path, agent_name="clerk") as worker:
        async with guest(livekit_server, "by api") as user:
            await dispatch(livekit_server, "by api", "somebody else")
            await dispatch(livekit_server, "by api", "clerk", json.dumps(said))
            await hears_agent(user)
            (first,) = worker.sessions()
            assert {name: first[name] for name in said} == said
        asked = api.RoomConfiguration(agents=[api.RoomAgentDispatch(agent_name="clerk", metadata='{"voice": "alto"}')])
        token = (
            api.AccessToken(KEY, SECRET)
            .with_identity("guest")
            .with_grants(api.VideoGrants(room_join=True, room="by token"))
            .with_room_config(asked)
            .to_jwt()
        )
        async with guest(livekit_server, "by token", token=token) as user:
            await hears_agent(user)
        assert [session["voice"] for session in worker.sessions()] == ["tenor", "alto"]


@pytest.mark.parametrize("metadata", ["hello", '{"voice": "nobody"}'])
async def test_bad_metadata_is_told_in_the_room_and_costs_no_place(
    livekit_server: LiveKitServer, tmp_path: Path, metadata: str
) -> None:
    async with (
        agent_process(livekit_server, tmp_path, agent_name="clerk", max_sessions=1) as worker,
        guest(livekit_server, "lobby") as user,
    ):
        await dispatch(livekit_server, "lobby", "clerk", metadata)
        agent = await agent_of(user)
        assert re.search("not JSON|no voice", agent.attributes["venus.refused"])
        assert (await worker.slots())["in_use"] == 0
        assert await worker.metric('venus_jobs_refused_total{reason="bad_metadata"}') == 1
        await dispatch(livekit_server, "lobby", "clerk", '{"voice": "alto"}')
        able = "an agent that can talk"
        await user.until(lambda: any("venus.refused" not in one.attributes for one in agents(user)), able)
        await user.until(lambda: len(agents(user)) == 1, "the one that could not has left")
        await hears_agent(user)
        assert [session["voice"] for session in worker.sessions()] == ["alto"]
        assert "hello" not in worker.said()


async def test_calls_share_the_engine_that_was_loaded_once(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    async with (
        agent_process(livekit_server, tmp_path) as worker,
        guest(livekit_server, "one") as first,
        guest(livekit_server, "two") as second,
    ):
        for user in (first, second):
            await hears_agent(user)
        loaded = [note["loaded"] for note in worker.notes() if "loaded" in note]
        assert len(loaded) == 1
        assert [session["engine"] for session in worker.sessions()] == loaded * 2


# -- how calls end --------------------------------------------------------------------------------------------------


async def test_a_deleted_room_and_a_deleted_dispatch_give_their_places_back(
    livekit_server: LiveKitServer, tmp_path: Path
) -> None:
    async with agent_process(livekit_server, tmp_path, agent_name="clerk") as worker:
        async with guest(livekit_server, "lobby") as user, livekit_server.api() as client:
            made = await client.agent_dispatch.create_dispatch(
                api.CreateAgentDispatchRequest(agent_name="clerk", room="lobby")
            )
            await hears_agent(user)
            await client.agent_dispatch.delete_dispatch(made.id, "lobby")
            await alone(user, 10)  # well before the library would cancel what does not end by itself
            await until_in_use(worker, 0)
            assert await worker.metric('venus_sessions_ended_total{reason="terminated"}') == 1
            await dispatch(livekit_server, "lobby", "clerk")
            await hears_agent(user)
            await client.room.delete_room(api.DeleteRoomRequest(room="lobby"))
            await until_in_use(worker, 0)
        assert await worker.metric("venus_active_jobs") == 0
        # A deleted room ends its jobs too; which of the two the agent hears of first is chance.
        reasons = [f'venus_sessions_ended_total{{reason="{why}"}}' for why in ("terminated", "room_deleted")]
        assert sum([await worker.metric(one) for one in reasons]) == 2


async def test_after_everybody_left_the_agent_leaves(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    async with agent_process(livekit_server, tmp_path, room=PATIENT) as worker:
        async with guest(livekit_server, "lobby") as user:
            await hears_agent(user)
        await until_in_use(worker, 0)
        assert await worker.metric("venus_active_jobs") == 0


# -- how workers end ------------------------------------------------------------------------------------------------


async def test_a_killed_worker_leaves_no_ghost_and_another_takes_over(
    livekit_server: LiveKitServer, tmp_path: Path
) -> None:
    async with agent_process(livekit_server, tmp_path, "one") as one, guest(livekit_server, "lobby") as user:
        await hears_agent(user)
        one.send(signal.SIGKILL)
        assert await one.ended() == -signal.SIGKILL
        await alone(user, GHOST_S)
        async with agent_process(livekit_server, tmp_path, "two"):
            await dispatch(livekit_server, "lobby")
            await hears_agent(user)


async def test_told_to_stop_a_worker_finishes_its_call_and_takes_no_other(
    livekit_server: LiveKitServer, tmp_path: Path
) -> None:
    async with agent_process(livekit_server, tmp_path, "one", room=PATIENT) as one:
        async with guest(livekit_server, "lobby") as user:
            await hears_agent(user)
            one.send(signal.SIGTERM)
            await one.until_status("/readyz", 503)
            assert (await one.get("/healthz"))[0] == 200
            slots = await one.slots()
            assert (slots["in_use"], slots["free"]) == (1, 0)
            async with agent_process(livekit_server, tmp_path, "two") as two, guest(livekit_server, "other") as other:
                await hears_agent(other)
                assert (await two.slots())["in_use"] == 1
                await hears_agent(user)
            assert len(one.sessions()) == 1
        assert await one.ended() == 0
        assert [note for note in one.notes() if "closed" in note], "the engine was not closed"


@pytest.mark.parametrize(("drain", "timeout_s"), [(True, 1), (False, 3600)], ids=["deadline", "dev"])
async def test_a_call_that_may_not_go_on_is_left_politely(
    livekit_server: LiveKitServer, tmp_path: Path, drain: bool, timeout_s: int
) -> None:
    async with (
        agent_process(livekit_server, tmp_path, drain=drain, drain_timeout_s=timeout_s) as worker,
        guest(livekit_server, "lobby") as user,
    ):
        await hears_agent(user)
        worker.send(signal.SIGTERM)
        await alone(user, 10)  # a participant that only vanished would stay longer
        assert await worker.ended() == 0
        assert "worker_stopped" in worker.said()


async def test_a_second_signal_ends_at_once(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    async with agent_process(livekit_server, tmp_path) as worker, guest(livekit_server, "lobby") as user:
        await hears_agent(user)
        worker.send(signal.SIGINT)
        await worker.until_status("/readyz", 503)
        worker.send(signal.SIGTERM)
        assert await worker.ended(10) == -signal.SIGTERM


async def test_an_idle_worker_ends_by_itself(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    async with agent_process(livekit_server, tmp_path) as worker:
        worker.send(signal.SIGTERM)
        assert await worker.ended() == 0


# -- the server -----------------------------------------------------------------------------------------------------


async def test_after_a_restart_of_the_server_calls_go_on_and_others_begin(
    livekit_server: LiveKitServer, tmp_path: Path
) -> None:
    async with agent_process(livekit_server, tmp_path) as worker, guest(livekit_server, "lobby") as user:
        await hears_agent(user)
        livekit_server.stop()
        await worker.until_status("/readyz", 503)
        assert "connection" in (await worker.slots())["trouble"]
        await livekit_server.start()
        await worker.ready()
        await hears_agent(user)
        async with guest(livekit_server, "another") as other:
            await hears_agent(other)
        assert len(worker.sessions()) == 2


async def test_a_worker_may_start_before_the_server(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    livekit_server.stop()
    async with agent_process(livekit_server, tmp_path, wait=False) as worker:
        await worker.until_status("/healthz", 200)
        await worker.until_status("/readyz", 503)
        await livekit_server.start()
        await worker.ready()


async def test_a_server_that_never_comes_is_given_up(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    livekit_server.stop()
    async with agent_process(livekit_server, tmp_path, wait=False, connect_attempts=1) as worker:
        assert await worker.ended() == 1
        assert f"The LiveKit server at {livekit_server.url} could not be reached" in worker.said()


async def test_a_wrong_secret_is_said_before_anything_is_loaded(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    wrong = "a-secret-nobody-may-see-in-a-log-of-32-letters"
    async with agent_process(livekit_server, tmp_path, wait=False, api_secret=wrong) as worker:
        assert await worker.ended() == 1
        assert "refuses the API key or its secret" in worker.said()
        assert wrong not in worker.said()
        assert worker.notes() == []
