"""What goes wrong in a LiveKit room: connections, servers, tokens, and participants who send nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from livekit import api, rtc
from realtime_venus.plugin.rooms.livekit import JoinRefused, LiveKitOptions, LiveKitRoom

from ..kit.livekit_agent import ROOM, SHORT, TONE, agent
from ..kit.livekit_participant import agent_token, participant, until
from ..kit.livekit_server import KEY, LiveKitServer

pytestmark = pytest.mark.usefixtures("native_sockets_closed")


@pytest.mark.parametrize(
    "scenario", [rtc.SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT, rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT]
)
async def test_a_reconnection_is_survived(
    livekit_server: LiveKitServer, scenario: rtc.SimulateScenarioKind.ValueType
) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        microphone = await alice.microphone()
        await asyncio.gather(microphone.say(TONE), venus.hears("alice"))
        back = asyncio.Event()
        venus.room.rtc_room.on("reconnected", back.set)  # pyright: ignore[reportUnknownMemberType]
        await venus.room.rtc_room.simulate_scenario(scenario)
        async with asyncio.timeout(30):
            await back.wait()
        await until(lambda: venus.room.mixed_microphones == 1, "alice's microphone")

        async def talk() -> None:
            while True:
                await microphone.say(TONE)

        talking = alice.spawn(talk())
        await venus.hears("alice again")
        talking.cancel()
        before = len(alice.loud_s)
        venus.ear.speak("u1", 1.0)
        await alice.until(lambda: len(alice.loud_s) - before > 50, "the agent again")
        await alice.until(lambda: alice.agent_state() in ("speaking", "listening"), "its state")
        assert (await alice.ask("venus.state"))["state"] in ("speaking", "listening")


async def test_whoever_takes_the_agents_name_ends_it(livekit_server: LiveKitServer) -> None:
    async with (
        agent(livekit_server) as venus,
        agent(livekit_server) as other,
        participant(livekit_server, "alice") as alice,
    ):
        assert await venus.left() == "duplicate_identity"
        await alice.until(lambda: alice.agent_state() == "listening", "the new agent")
        assert not other.room.closed


async def test_a_user_who_comes_back_under_her_name_is_heard(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        await alice.microphone()
        await until(lambda: venus.room.mixed_microphones == 1, "the microphone")
        async with participant(livekit_server, "alice") as again:
            await alice.until(lambda: alice.ended, "being replaced")
            assert alice.ended == ["DUPLICATE_IDENTITY"]
            microphone = await again.microphone()
            await until(lambda: venus.room.mixed_microphones == 1, "the new microphone")
            await asyncio.gather(microphone.say(TONE), venus.hears("her"))


async def test_a_deleted_room_ends_the_session(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, livekit_server.api() as server:
        await server.room.delete_room(api.DeleteRoomRequest(room=ROOM))
        assert await venus.left() == "room_deleted"


async def test_a_removed_agent_goes(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, livekit_server.api() as server:
        await server.room.remove_participant(api.RoomParticipantIdentity(room=ROOM, identity="venus"))
        assert await venus.left() == "participant_removed"


async def test_a_restarted_server_is_found_again(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        microphone = await alice.microphone()
        await asyncio.gather(microphone.say(TONE), venus.hears("alice"))
        livekit_server.stop()
        await until(lambda: not venus.room.connected, "the loss")
        await livekit_server.start()
        await until(lambda: venus.room.connected, "the connection")
        await until(lambda: venus.room.mixed_microphones == 1, "alice's microphone", 45)

        async def talk() -> None:
            while True:
                await microphone.say(TONE)

        talking = alice.spawn(talk())
        await venus.hears("alice again")
        talking.cancel()
        before = len(alice.loud_s)
        venus.ear.speak("u1", 1.0)
        await alice.until(lambda: len(alice.loud_s) - before > 50, "the agent again")


async def test_a_server_that_stays_away_ends_the_session(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server, LiveKitOptions(reconnect_s=1.0)) as venus:
        livekit_server.stop()
        assert await venus.left() == "connection_lost"


async def test_what_is_too_large_is_ignored_and_counted(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        await alice.until(lambda: alice.agent_state() == "listening", "the agent")
        me = alice.room.local_participant
        await me.publish_data(b"x" * 20_000, topic="venus.events")
        await me.send_text("x" * 20_000, topic="lk.chat")
        with pytest.raises(rtc.RpcError) as refused:
            await alice.ask("venus.type", {"text": "x" * 20_000})
        assert refused.value.code == 413
        await me.send_text("short", topic="lk.chat")
        await until(lambda: venus.ear.typed, "the short one")
        assert venus.ear.typed == ["short"]
        assert venus.room.counters.desk.oversized == 2
        long = {"type": "agent.text", "seq": 0, "utterance_id": "u", "first_sample": 0, "text": "你" * 20_000}
        venus.room.publish(long)
        await alice.until(lambda: long in alice.events, "a long event, in pieces")


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        ("venus.say", "no json"),
        ("venus.say", '{"text": ""}'),
        ("venus.type", '{"text": 5}'),
        ("venus.ack", '{"stretch": -1, "played_ms": 0}'),
        ("venus.ack", '{"stretch": 0, "played_ms": NaN}'),
        ("venus.configure", '{"language": "fr"}'),
        ("venus.interrupt", "[]"),
    ],
)
async def test_a_malformed_request_is_refused_with_a_reason(
    livekit_server: LiveKitServer, method: str, payload: str
) -> None:
    options = SHORT.model_copy(update={"say_from": "listened"})
    async with agent(livekit_server, options) as venus, participant(livekit_server, "alice") as alice:
        await alice.until(lambda: alice.agent_state() == "listening", "the agent")
        with pytest.raises(rtc.RpcError, match=method) as refused:
            await alice.ask(method, payload)
        assert refused.value.code == 400
        assert venus.room.counters.desk.refused_requests == 1
        assert not venus.ear.said + venus.ear.typed


def _expired(server: LiveKitServer) -> str:
    return server.token("venus", ROOM, ttl_s=-100)


def _nonsense(server: LiveKitServer) -> str:
    return "nonsense"


def _without_grant(server: LiveKitServer) -> str:
    return server.token("venus", ROOM, grants=api.VideoGrants(room_create=True))


def _of_another_secret(server: LiveKitServer) -> str:
    made = api.AccessToken(KEY, "another-secret-that-is-32-letters-long").with_identity("venus")
    return made.with_grants(api.VideoGrants(room_join=True, room=ROOM)).to_jwt()


@pytest.mark.parametrize(
    ("token", "code"),
    [(_expired, "expired"), (_nonsense, "token"), (_without_grant, "token"), (_of_another_secret, "token")],
)
async def test_a_token_that_is_not_accepted(
    livekit_server: LiveKitServer, token: Callable[[LiveKitServer], str], code: str
) -> None:
    secret = token(livekit_server)
    with pytest.raises(JoinRefused) as refused:
        await LiveKitRoom.join(livekit_server.url, secret)
    assert refused.value.code == code
    assert secret not in str(refused.value)


async def test_a_token_that_lets_an_agent_neither_speak_nor_hear(livekit_server: LiveKitServer) -> None:
    mute = api.VideoGrants(room_join=True, room=ROOM, can_publish=False, can_subscribe=False)
    with pytest.raises(JoinRefused, match="can_publish, can_subscribe") as refused:
        await LiveKitRoom.join(livekit_server.url, livekit_server.token("venus", ROOM, grants=mute))
    assert refused.value.code == "grants"


async def test_a_server_that_is_not_there() -> None:
    with pytest.raises(JoinRefused, match="no LiveKit server answers") as refused:
        await LiveKitRoom.join("ws://127.0.0.1:1", "token")
    assert refused.value.code == "unreachable"


async def test_in_a_connection_of_somebody_else_it_takes_back_only_its_own(livekit_server: LiveKitServer) -> None:
    connection = rtc.Room()
    with pytest.raises(ValueError, match="connect"):
        LiveKitRoom(connection)
    await connection.connect(livekit_server.url, agent_token(ROOM))
    try:
        async with participant(livekit_server, "alice") as alice:
            await alice.microphone()
            for _ in range(2):
                room = LiveKitRoom(connection, SHORT)
                await room.wait_ready()
                await until(lambda room=room: room.mixed_microphones == 1, "the microphone")
                await room.close()
                assert connection.isconnected()
                tracks = alice.room.remote_participants["venus"].track_publications
                await alice.until(lambda tracks=tracks: not tracks, "its track to go")
                with pytest.raises(rtc.RpcError):
                    await alice.ask("venus.state")
    finally:
        await connection.disconnect()
