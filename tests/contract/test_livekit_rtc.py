"""What the LiveKit room relies on, observed on the SDK ``livekit`` 1.1.21 with livekit-server v1.13.5.

A failure here after an upgrade says what has changed; look at ``plugin/rooms/livekit`` then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, cast

import numpy as np
import pytest
from livekit import api, rtc

from ..kit.livekit_participant import agent_token, participant, until
from ..kit.livekit_server import LiveKitServer

pytestmark = pytest.mark.usefixtures("native_sockets_closed")

OBSERVED = "1.1.21"
ROOM = "talk"
MICROPHONE = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)


def changed(what: str) -> str:
    return f"livekit {rtc.__version__} no longer does what {OBSERVED} did: {what}"


class _Emitter(Protocol):
    def on(self, event: str, callback: Callable[..., object]) -> object: ...


def on(room: rtc.Room, event: str, callback: Callable[..., object]) -> None:
    cast(_Emitter, room).on(event, callback)


@asynccontextmanager
async def connected(
    server: LiveKitServer, token: str, options: rtc.RoomOptions | None = None
) -> AsyncGenerator[rtc.Room]:
    room = rtc.Room()
    await room.connect(server.url, token, options or rtc.RoomOptions(auto_subscribe=False))
    try:
        yield room
    finally:
        await room.disconnect()


@asynccontextmanager
async def source(hz: int = 24_000, queue_ms: int = 60) -> AsyncGenerator[rtc.AudioSource]:
    made = rtc.AudioSource(hz, 1, queue_size_ms=queue_ms)
    try:
        yield made
    finally:
        await made.aclose()


def silence(samples: int, hz: int = 24_000) -> rtc.AudioFrame:
    return rtc.AudioFrame(bytes(2 * samples), hz, 1, samples)


def test_this_is_the_version_that_was_observed() -> None:
    assert rtc.__version__ == OBSERVED, "read this file's tests again with the new version, then change OBSERVED"


# -- sound out ------------------------------------------------------------------------------------------------------


async def test_a_full_queue_makes_the_sender_wait_and_a_long_one_does_not() -> None:
    took: list[float] = []
    loop = asyncio.get_running_loop()
    for queue_ms in (60, 1000):
        async with source(queue_ms=queue_ms) as made:
            began = loop.time()
            for _ in range(30):
                await made.capture_frame(silence(480))
            took.append(loop.time() - began)
    assert took[0] > 0.45, changed("600 ms into a queue of 60 ms take their time")
    assert took[1] < took[0], changed("600 ms into a queue of 1000 ms do not")


async def test_a_frame_at_another_rate_is_a_bare_exception() -> None:
    async with source() as made:
        with pytest.raises(Exception, match=r"(?i)sample.?rate|invalid") as refused:
            await made.capture_frame(silence(960, 48_000))
    assert type(refused.value) is Exception, changed("its errors derive from nothing narrower")


async def test_a_frame_of_any_length_is_taken_and_a_closed_source_ignores_it() -> None:
    async with source() as made:
        await made.capture_frame(silence(168))
    await made.capture_frame(silence(480))


# -- sound in -------------------------------------------------------------------------------------------------------


async def test_a_stream_goes_on_in_frames_of_20_ms_whatever_the_sender_does(livekit_server: LiveKitServer) -> None:
    async with (
        participant(livekit_server, "alice") as alice,
        connected(livekit_server, agent_token(ROOM), rtc.RoomOptions()) as room,
    ):
        microphone = await alice.microphone(44_100, 2)
        await until(lambda: _track(room, "alice") is not None, "the track")
        track = _track(room, "alice")
        assert track is not None
        stream = rtc.AudioStream(track, sample_rate=16_000, num_channels=1, frame_size_ms=20)
        try:
            assert {await _samples(stream) for _ in range(20)} == {320}, changed("it resamples and mixes down")
            microphone.track.mute()
            assert {await _samples(stream) for _ in range(100)} == {320}, changed("a muted track gives frames")
        finally:
            await asyncio.wait_for(stream.aclose(), 5)


async def _samples(stream: rtc.AudioStream) -> int:
    async with asyncio.timeout(5):
        return (await anext(stream)).frame.samples_per_channel


def _track(room: rtc.Room, identity: str) -> rtc.Track | None:
    there = room.remote_participants.get(identity)
    found = [] if there is None else [pub.track for pub in there.track_publications.values() if pub.track is not None]
    return found[0] if found else None


async def test_a_frame_that_its_sender_turned_arrives_turned(livekit_server: LiveKitServer) -> None:
    async with (
        participant(livekit_server, "alice") as alice,
        connected(livekit_server, agent_token(ROOM), rtc.RoomOptions()) as room,
    ):
        camera = await alice.camera((255, 0, 0))
        camera.rotation = rtc.VideoRotation.VIDEO_ROTATION_90
        await until(lambda: _track(room, "alice") is not None, "the track")
        track = _track(room, "alice")
        assert track is not None
        stream = rtc.VideoStream(track, capacity=1)
        try:
            async with asyncio.timeout(10):
                while (event := await anext(stream)).frame.height <= event.frame.width:
                    continue  # black ones of 8 by 8 come first
        finally:
            await asyncio.wait_for(stream.aclose(), 5)
        assert event.rotation == rtc.VideoRotation.VIDEO_ROTATION_0, changed("no turn is left to do")
        rgb = event.frame.convert(rtc.VideoBufferType.RGB24)
        assert memoryview(rgb.data).nbytes == rgb.width * rgb.height * 3


async def test_of_pictures_that_nobody_took_only_the_newest_waits(livekit_server: LiveKitServer) -> None:
    async with (
        participant(livekit_server, "alice") as alice,
        connected(livekit_server, agent_token(ROOM), rtc.RoomOptions()) as room,
    ):
        camera = await alice.camera((255, 0, 0))
        await until(lambda: _track(room, "alice") is not None, "the track")
        track = _track(room, "alice")
        assert track is not None
        stream = rtc.VideoStream(track, capacity=1)
        try:
            async with asyncio.timeout(10):
                while (await anext(stream)).frame.width != 128:
                    continue
                camera.image[:] = (0, 255, 0, 255)
                await asyncio.sleep(1.5)  # thirty pictures, in real time: the camera has no other
                frame = (await anext(stream)).frame.convert(rtc.VideoBufferType.RGB24)
            red, green, _ = np.frombuffer(frame.data, np.uint8).reshape(96, 128, 3)[48, 64]
            assert (red < 60, green > 200) == (True, True), changed("capacity 1 keeps the newest")
            camera.track.mute()
            assert await _within(stream, 1.0) <= 1, changed("a muted camera sends nothing")  # one may be on its way
        finally:
            await asyncio.wait_for(stream.aclose(), 5)


async def test_of_sound_that_nobody_took_only_so_many_frames_wait(livekit_server: LiveKitServer) -> None:
    async with (
        participant(livekit_server, "alice") as alice,
        connected(livekit_server, agent_token(ROOM), rtc.RoomOptions()) as room,
    ):
        await alice.microphone()
        await until(lambda: _track(room, "alice") is not None, "the track")
        track = _track(room, "alice")
        assert track is not None
        stream = rtc.AudioStream(track, capacity=10, sample_rate=16_000, num_channels=1, frame_size_ms=20)
        try:
            await asyncio.sleep(1.0)  # fifty frames, in real time
            waited = await _within(stream, 0.015)  # less than a frame
        finally:
            await asyncio.wait_for(stream.aclose(), 5)
        assert 1 <= waited <= 12, changed("what nobody takes is dropped beyond the capacity")


async def _within(stream: rtc.AudioStream | rtc.VideoStream, seconds: float) -> int:
    """How many frames there are to take within a time."""
    count = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                await anext(stream)
                count += 1
    return count


# -- words ----------------------------------------------------------------------------------------------------------


async def test_data_packets_of_60_000_bytes_pass_and_of_64_000_do_not(livekit_server: LiveKitServer) -> None:
    async with (
        connected(livekit_server, agent_token(ROOM)) as room,
        connected(livekit_server, livekit_server.token("alice", ROOM)) as alice,
    ):
        sizes: list[int] = []

        def received(packet: rtc.DataPacket) -> None:
            sizes.append(len(packet.data))

        on(alice, "data_received", received)
        await room.local_participant.publish_data(b"x" * 60_000)
        with pytest.raises(Exception, match="64000"):
            await room.local_participant.publish_data(b"x" * 64_000)
        await until(lambda: sizes == [60_000], changed("a packet of 60 000 bytes arrives"))


async def test_requests_carry_more_than_15_kib_and_errors_their_code(livekit_server: LiveKitServer) -> None:
    async with (
        connected(livekit_server, agent_token(ROOM)) as room,
        connected(livekit_server, livekit_server.token("alice", ROOM)) as alice,
    ):

        async def answer(call: rtc.RpcInvocationData) -> str:
            if len(call.payload) < 20_000:
                raise rtc.RpcError(400, "too short")
            return call.caller_identity

        cast(Any, room.local_participant).register_rpc_method("longer", answer)
        me = alice.local_participant
        assert await me.perform_rpc(destination_identity="venus", method="longer", payload="x" * 20_000) == "alice"
        with pytest.raises(rtc.RpcError) as refused:
            await me.perform_rpc(destination_identity="venus", method="longer", payload="x")
        assert (refused.value.code, refused.value.message) == (400, "too short"), changed("errors pass as they are")


@pytest.mark.parametrize("kind", ["agent", "standard"])
async def test_only_agents_write_in_the_name_of_others(livekit_server: LiveKitServer, kind: str) -> None:
    token = agent_token(ROOM) if kind == "agent" else livekit_server.token("venus", ROOM)
    async with participant(livekit_server, "alice") as alice, connected(livekit_server, token) as room:
        writer = await room.local_participant.stream_text(
            topic="lk.transcription", sender_identity="alice", attributes={"lk.segment_id": "1"}
        )
        await writer.write("hello")
        await writer.aclose()
        await alice.until(lambda: alice.shown, "the text")
        assert alice.shown[0].identity == ("alice" if kind == "agent" else "venus"), changed("whose name is shown")


async def test_attributes_need_a_permission_and_say_nothing_without(livekit_server: LiveKitServer) -> None:
    async with participant(livekit_server, "alice") as alice:
        for token, seen in ((livekit_server.token("venus", ROOM), ""), (agent_token(ROOM), "listening")):
            async with connected(livekit_server, token) as room:
                async with asyncio.timeout(10):
                    await room.local_participant.set_attributes({"lk.agent.state": "listening"})
                await room.local_participant.publish_data(b'{"type": "mark"}', topic="venus.events")
                await alice.until(lambda: alice.events, "the packet behind it")
                await alice.until(lambda seen=seen: alice.agent_state() == seen, changed("permission for attributes"))
                alice.events.clear()
            await alice.until(lambda: "venus" not in alice.room.remote_participants, "the leave")


async def test_a_topic_has_one_handler() -> None:
    room = rtc.Room()
    room.register_text_stream_handler("lk.chat", _ignore)
    with pytest.raises(ValueError, match=r"lk\.chat"):
        room.register_text_stream_handler("lk.chat", _ignore)


def _ignore(reader: rtc.TextStreamReader, identity: str) -> None:
    reader.close()


# -- connection -----------------------------------------------------------------------------------------------------


async def test_a_subscription_is_waited_for_and_stays_waited_for(livekit_server: LiveKitServer) -> None:
    async with connected(livekit_server, agent_token(ROOM)) as room, source() as made:
        track = rtc.LocalAudioTrack.create_audio_track("venus", made)
        publication = await room.local_participant.publish_track(track, MICROPHONE)
        waiting = asyncio.create_task(publication.wait_for_subscription())
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done, changed("nobody has subscribed")
        async with participant(livekit_server, "alice"):
            async with asyncio.timeout(10):
                await waiting
        async with asyncio.timeout(1):
            await publication.wait_for_subscription()


async def test_who_can_be_told_something_is_announced_once_and_after_joining(livekit_server: LiveKitServer) -> None:
    happened: list[str] = []
    async with connected(livekit_server, agent_token(ROOM)) as room:
        for name in ("participant_connected", "participant_active"):
            on(room, name, _noting(happened, name))
        async with participant(livekit_server, "alice") as alice:
            await until(lambda: "participant_active" in happened, changed("the data channel of one who came is open"))
            await room.local_participant.publish_data(
                '{"type": "mark"}', topic="venus.events", destination_identities=["alice"]
            )
            await alice.until(lambda: alice.events, "what was sent then")
        assert happened == ["participant_connected", "participant_active"], changed("once each")


async def test_an_agent_takes_no_place_among_max_participants(livekit_server: LiveKitServer) -> None:
    async with livekit_server.api() as client:
        await client.room.create_room(api.CreateRoomRequest(name="small", max_participants=1))
    async with connected(livekit_server, agent_token("small")) as room, participant(livekit_server, "alice", "small"):
        await until(lambda: "alice" in room.remote_participants, changed("the agent is not counted"))
        with pytest.raises(rtc.ConnectError):
            await rtc.Room().connect(livekit_server.url, livekit_server.token("bob", "small"))


def test_handlers_must_be_synchronous() -> None:
    async def handler() -> None:
        return

    emitter: rtc.EventEmitter[str] = rtc.EventEmitter()
    with pytest.raises(ValueError, match="async"):
        on(cast(rtc.Room, emitter), "connected", handler)


async def test_a_refusal_quotes_the_token(livekit_server: LiveKitServer) -> None:
    token = livekit_server.token("venus", ROOM, ttl_s=-100)
    with pytest.raises(rtc.ConnectError) as refused:
        await rtc.Room().connect(livekit_server.url, token)
    assert "401" in refused.value.message, changed("the status is in the message")
    assert "token is expired" in refused.value.message, changed("an expired token is called so")
    assert token in refused.value.message, changed("the message holds the token, which we take out")


async def test_whoever_takes_the_name_gets_the_place(livekit_server: LiveKitServer) -> None:
    reasons: list[int] = []
    async with connected(livekit_server, agent_token(ROOM)) as room:
        on(room, "disconnected", reasons.append)
        async with connected(livekit_server, agent_token(ROOM)):
            await until(lambda: reasons, "the end of the first")
            assert reasons == [rtc.DisconnectReason.DUPLICATE_IDENTITY], changed("the reason of a takeover")
            assert not room.isconnected()


async def test_a_full_reconnection_brings_everybody_back_and_our_track_under_a_new_sid(
    livekit_server: LiveKitServer,
) -> None:
    happened: list[str] = []
    async with (
        participant(livekit_server, "alice") as alice,
        connected(livekit_server, agent_token(ROOM)) as room,
        source() as made,
    ):
        track = rtc.LocalAudioTrack.create_audio_track("venus", made)
        publication = await room.local_participant.publish_track(track, MICROPHONE)
        await alice.microphone()
        await until(lambda: "alice" in room.remote_participants, "alice")
        await until(lambda: room.remote_participants["alice"].track_publications, "her microphone")
        before = publication.sid
        for name in ("participant_disconnected", "reconnecting", "participant_connected", "reconnected"):
            on(room, name, _noting(happened, name))
        await room.simulate_scenario(rtc.SimulateScenarioKind.SIMULATE_FULL_RECONNECT)
        await until(lambda: "reconnected" in happened, changed("it reconnects"))
        assert happened.index("participant_disconnected") < happened.index("reconnected"), changed("all leave")
        assert "participant_connected" in happened, changed("and come back")
        assert publication.sid != before, changed("our publication has a new sid")
        assert np.all([not pub.subscribed for pub in room.remote_participants["alice"].track_publications.values()])


def _noting(happened: list[str], name: str) -> Callable[..., None]:
    return lambda *_: happened.append(name)


async def test_nobody_is_asked_before_the_connection() -> None:
    room = rtc.Room()
    assert not room.isconnected()
    with pytest.raises(Exception, match="before connecting"):
        _ = room.local_participant
