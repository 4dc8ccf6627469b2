"""The agent in rooms of a real livekit-server, with people made of the Python SDK and an engine that does as told."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from livekit import rtc
from realtime_venus.engines.base import Frame, OverlapPhase, SessionOptions, Verdict
from realtime_venus.plugin.rooms.livekit import LiveKitOptions, LiveKitRoom
from realtime_venus.plugin.session import Session, SessionSettings

from ..kit.fake_engine import FakeEngine, FakeSession
from ..kit.livekit_agent import HIGHER, ROOM, SHORT, TONE, agent
from ..kit.livekit_participant import agent_token, participant, token_of_kind, until
from ..kit.livekit_server import LiveKitServer
from ..kit.sessions import Loud

pytestmark = pytest.mark.usefixtures("native_sockets_closed")


async def test_they_talk_and_all_of_it_is_told(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        microphone = await alice.microphone()
        await alice.until(lambda: alice.agent_state() == "listening", "the agent's state")
        await asyncio.gather(microphone.say(TONE), venus.hears("alice's voice"))
        assert (await alice.ask("venus.state"))["listening_to"] == ["alice"]
        venus.ear.hear("what is the time", final=False, start_ms=100)
        venus.ear.hear("What is the time?", start_ms=100)
        venus.ear.speak("u1", 1.0, "It is noon.")
        await alice.until(lambda: len(alice.loud_s) > 80, "a second of speech")
        await alice.until(lambda: alice.of("agent.utterance_ended"), "its end")
        await alice.until(lambda: [one for one in alice.shown if one.final and one.identity == "venus"], "the caption")
        (ended,) = alice.of("agent.utterance_ended")
        assert (ended["heard_text"], ended["heard_samples"]) == ("It is noon.", 24_000)
        asked = [one for one in alice.shown if one.identity == "alice"]
        assert asked[-1].text == "What is the time?"
        assert asked[-1].final
        assert microphone.publication is not None
        assert asked[-1].attributes["lk.transcribed_track_id"] == microphone.publication.sid
        said = [one for one in alice.shown if one.identity == "venus"]
        assert said[-1].text == "It is noon."
        assert len({one.attributes["lk.segment_id"] for one in said}) == 1
        (voice_track,) = alice.room.remote_participants["venus"].track_publications.values()
        assert said[-1].attributes["lk.transcribed_track_id"] == voice_track.sid
        assert voice_track.source == rtc.TrackSource.SOURCE_MICROPHONE
        assert {event["speaker"] for event in alice.of("user.text")} == {"alice"}
        assert alice.of("session.started")[0]["room"] == "livekit"


async def test_reports_of_the_page_are_playback_truth(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        await until(lambda: venus.room.listening_to, "alice")
        venus.ear.speak("u1", 4.0)
        await alice.until(lambda: any("stretch" in event for event in alice.events), "the stretch")
        stretch = next(event["stretch"] for event in alice.events if "stretch" in event)
        while not alice.of("agent.utterance_ended"):
            heard = len(alice.loud_s)
            await alice.ask("venus.ack", {"stretch": stretch, "played_ms": heard * 10})
            await alice.until(
                lambda heard=heard: len(alice.loud_s) > heard or alice.of("agent.utterance_ended"), "more of it"
            )
            if len(alice.loud_s) > 380:
                await alice.ask("venus.ack", {"stretch": stretch, "played_ms": 1e9})
        reports = [event for event in alice.of("playout") if event["state"] == "heard"]
        assert reports[-1]["end_sample"] == 96_000
        assert not any(event["estimated"] for event in reports if event["first_sample"] > 48_000)
        await alice.ask("venus.ack", {"stretch": 99, "played_ms": 20})
        assert venus.room.counters.desk.foreign_acks == 1


async def test_an_interruption_silences_the_agent(livekit_server: LiveKitServer) -> None:
    def on_overlap(session: FakeSession, phase: OverlapPhase) -> None:
        if phase is OverlapPhase.STARTED:
            session.judge("u1", Verdict.YIELD)

    async with (
        agent(livekit_server, on_overlap=on_overlap) as venus,
        participant(livekit_server, "alice") as alice,
    ):
        microphone = await alice.microphone()
        await alice.until(lambda: venus.room.listening_to, "alice")
        venus.ear.speak("u1", 20.0)
        await alice.until(lambda: len(alice.loud_s) > 50, "some of it")
        await microphone.say(TONE)
        await alice.until(lambda: alice.of("agent.utterance_ended"), "the yield")
        (ended,) = alice.of("agent.utterance_ended")
        assert ended["interrupted"]
        assert ended["heard_samples"] < 10 * 24_000
        await alice.until(lambda: alice.agent_state() == "listening", "the state")
        before = len(alice.loud_s)
        await microphone.say(TONE)
        assert len(alice.loud_s) - before < 60, "it went on speaking"


async def test_the_stop_button_and_typed_text(livekit_server: LiveKitServer) -> None:
    options = SHORT.model_copy(update={"say_from": "listened"})
    async with agent(livekit_server, options) as venus, participant(livekit_server, "alice") as alice:
        await alice.until(lambda: alice.agent_state() == "listening", "the agent")
        venus.ear.speak("u1", 20.0)
        await alice.until(lambda: len(alice.loud_s) > 20, "some of it")
        await alice.ask("venus.interrupt")
        await alice.until(lambda: alice.of("agent.utterance_ended"), "the stop")
        await alice.ask("venus.say", {"text": "Mind the gap."})
        await alice.ask("venus.type", {"text": "Where am I?"})
        await alice.ask("venus.configure", {"language": "zh"})
        await alice.room.local_participant.send_text("And who are you?", topic="lk.chat")
        await until(lambda: len(venus.ear.typed) == 2, "the typed texts")
        assert venus.ear.said == ["Mind the gap."]
        assert venus.ear.typed == ["Where am I?", "And who are you?"]
        await alice.until(lambda: len(alice.of("user.text")) == 2, "the typed texts on the timeline")
        assert {(event["speaker"], event["typed"]) for event in alice.of("user.text")} == {("alice", True)}
        await alice.until(lambda: alice.of("session.configured"), "the language")
        assert (await alice.ask("venus.state"))["language"] == "zh"


@pytest.mark.alone
async def test_two_speakers_are_mixed_and_told_apart(livekit_server: LiveKitServer) -> None:
    async with (
        agent(livekit_server) as venus,
        participant(livekit_server, "alice") as alice,
        participant(livekit_server, "bob") as bob,
    ):
        microphones = [await alice.microphone(), await bob.microphone(44_100, 2)]
        await until(lambda: venus.room.mixed_microphones == 2, "both microphones")
        spans: list[tuple[int, int]] = []
        for microphone, sound in zip(microphones, (TONE, HIGHER), strict=True):
            start_ms = venus.ear.now_ms
            await asyncio.gather(microphone.say(sound), venus.hears("somebody"))
            await until(lambda end_ms=start_ms + 1800: venus.ear.now_ms > end_ms, "the end of it")
            spans.append((start_ms, venus.ear.now_ms))
        assert [venus.room.speaker(*span) for span in spans] == ["alice", "bob"]
        (first, second) = (venus.power(span[0]) for span in spans)
        start_ms = venus.ear.now_ms
        await asyncio.gather(microphones[0].say(TONE), microphones[1].say(HIGHER))
        await until(lambda: venus.power(start_ms) > 1.5 * min(first, second), "both at once")
        venus.ear.hear("hello", start_ms=spans[1][0])
        await alice.until(lambda: alice.of("user.text"), "the words")
        assert venus.room.counters.mix.placed_anew == 0


async def test_only_the_first_is_listened_to_until_she_leaves(livekit_server: LiveKitServer) -> None:
    options = SHORT.model_copy(update={"listen_to": "first"})
    async with agent(livekit_server, options) as venus, participant(livekit_server, "bob") as bob:
        await until(lambda: venus.room.listening_to == ("bob",), "bob")
        async with participant(livekit_server, "carol") as carol:
            await carol.until(lambda: carol.agent_state() == "listening", "the agent")
            await carol.microphone()
            await bob.microphone()
            await until(lambda: venus.room.mixed_microphones == 1, "bob's microphone")
            with pytest.raises(rtc.RpcError, match="takes no requests") as refused:
                await carol.ask("venus.type", {"text": "Hear me"})
            assert refused.value.code == 403
            await carol.room.local_participant.send_text("Hear me", topic="lk.chat")
            await bob.ask("venus.type", {"text": "Hear me"})
            await until(lambda: venus.ear.typed, "bob's text")
            await bob.leave()
            await until(lambda: venus.room.listening_to == ("carol",), "carol")
            await until(lambda: venus.room.mixed_microphones == 1, "carol's microphone")
        assert venus.ear.typed == ["Hear me"]


async def test_nobody_may_make_it_speak_unless_that_is_set(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        await alice.until(lambda: alice.agent_state() == "listening", "the agent")
        with pytest.raises(rtc.RpcError, match="takes no requests of this kind") as refused:
            await alice.ask("venus.say", {"text": "I am the agent"})
        assert refused.value.code == 403
        await alice.ask("venus.type", {"text": "Hello?"})
        await until(lambda: venus.ear.typed, "the text")
        assert venus.ear.said == []


async def test_only_so_many_microphones_are_heard(livekit_server: LiveKitServer) -> None:
    options = SHORT.model_copy(update={"max_listened": 1})
    async with agent(livekit_server, options) as venus, participant(livekit_server, "bob") as bob:
        await bob.microphone()
        await until(lambda: venus.room.mixed_microphones == 1, "bob's microphone")
        async with participant(livekit_server, "carol") as carol:
            microphone = await carol.microphone()
            await until(lambda: venus.room.counters.tracks.waiting == 1, "carol's microphone waits")
            assert venus.room.mixed_microphones == 1
            await bob.leave()
            await until(lambda: venus.room.listening_to == ("carol",), "carol alone")
            await asyncio.gather(microphone.say(TONE), venus.hears("carol"))


async def test_another_agent_is_neither_heard_nor_obeyed(livekit_server: LiveKitServer) -> None:
    as_agent = token_of_kind("agent", ROOM, "robot")
    avowed = token_of_kind("standard", ROOM, "cyborg", {"lk.agent.state": "listening"})
    async with (
        agent(livekit_server) as venus,
        participant(livekit_server, "robot", token=as_agent) as robot,
        participant(livekit_server, "cyborg", token=avowed) as cyborg,
        participant(livekit_server, "alice") as alice,
    ):
        for one in (robot, cyborg, alice):
            await one.microphone()
        await until(lambda: venus.room.mixed_microphones, "alice's microphone")
        assert venus.room.listening_to == ("alice",)
        for one in (robot, cyborg):
            with pytest.raises(rtc.RpcError):
                await one.ask("venus.type", {"text": "I am a human"})
        assert venus.room.mixed_microphones == 1
        await alice.until(lambda: alice.agent_state() == "listening", "the agent")


async def test_nobody_but_agents_is_nobody(livekit_server: LiveKitServer) -> None:
    options = LiveKitOptions(join_s=1.0)
    async with (
        participant(livekit_server, "robot", token=token_of_kind("agent", ROOM, "robot")),
        agent(livekit_server, options) as venus,
    ):
        assert await venus.left() == "nobody_came"


async def test_an_empty_room_is_left(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server, LiveKitOptions(empty_s=0.5)) as venus:
        async with participant(livekit_server, "alice"):
            await until(lambda: venus.room.listening_to, "alice")
        assert await venus.left() == "empty"


async def test_one_who_publishes_nothing_can_type_and_hear(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        await until(lambda: venus.ear.now_ms > 500, "time to pass without a microphone")
        await alice.ask("venus.type", {"text": "Hello?"})
        await until(lambda: venus.ear.typed, "the text")
        venus.ear.speak("u1", 0.5)
        await alice.until(lambda: len(alice.loud_s) > 30, "the answer")
        assert not [event for event in alice.of("input.gap") if event["cause"] == "lost"]
        assert venus.power() == 0.0


async def test_a_muted_microphone_is_silent_and_comes_back(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus, participant(livekit_server, "alice") as alice:
        microphone = await alice.microphone()
        await asyncio.gather(microphone.say(TONE), venus.hears("alice"))
        microphone.track.mute()
        await until(lambda: venus.ear.now_ms > 0, "a unit")
        await microphone.say(TONE)
        start_ms = venus.ear.now_ms
        await microphone.say(TONE)
        await until(lambda: venus.ear.now_ms > start_ms + 500, "time to go on")
        assert venus.power(start_ms) < 1e-5
        microphone.track.unmute()
        await asyncio.gather(microphone.say(TONE), venus.hears("alice again"))
        await alice.unpublish(microphone)
        await until(lambda: venus.room.mixed_microphones == 0, "the end of the microphone")
        start_ms = venus.ear.now_ms
        await until(lambda: venus.ear.now_ms > start_ms + 500, "time to go on without it")
        again = await alice.microphone()
        await asyncio.gather(again.say(TONE), venus.hears("the new microphone"))


RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def _colour(frame: Frame | None, *, right: bool = False, lower: bool = False) -> str:
    if frame is None:
        return ""
    height, width, _ = frame.image.shape
    pixel = frame.image[height - 8 if lower else 8, width - 8 if right else 8]
    return ("red", "green", "blue")[int(np.argmax(pixel))] if pixel.max() > 100 else "black"


async def test_the_newest_camera_or_screen_is_seen(livekit_server: LiveKitServer) -> None:
    options = SHORT.model_copy(update={"picture_every_ms": 0})
    async with agent(livekit_server, options) as venus, participant(livekit_server, "alice") as alice:

        async def seen(colour: str) -> None:
            await until(lambda: _colour(venus.room.latest_frame()) == colour, f"{colour or 'nothing'} to be seen")

        camera = await alice.camera(RED)
        await seen("red")
        await until(lambda: any(unit.frames for unit in venus.ear.units), "a picture in a unit")
        screen = await alice.camera(GREEN, source=rtc.TrackSource.SOURCE_SCREENSHARE)
        await seen("green")
        await alice.unpublish(screen)
        await seen("red")
        camera.track.mute()
        await seen("")
        camera.track.unmute()
        await seen("red")
        await alice.unpublish(camera)
        await seen("")
        await alice.camera(BLUE)
        await seen("blue")


async def test_a_turned_picture_is_upright_and_only_cameras_are_seen(livekit_server: LiveKitServer) -> None:
    options = SHORT.model_copy(update={"video": "camera", "picture_every_ms": 0})
    async with agent(livekit_server, options) as venus, participant(livekit_server, "alice") as alice:
        camera = await alice.camera(RED, BLUE)
        camera.rotation = rtc.VideoRotation.VIDEO_ROTATION_90
        await alice.camera(GREEN, source=rtc.TrackSource.SOURCE_SCREENSHARE)
        await until(lambda: _colour(venus.room.latest_frame(), lower=True) == "blue", "the turned picture")
        frame = venus.room.latest_frame()
        assert frame is not None
        assert (_colour(frame), _colour(frame, right=True)) == ("red", "red")
        assert frame.image.shape[0] > frame.image.shape[1]


async def test_nothing_is_received_before_somebody_looks(livekit_server: LiveKitServer) -> None:
    engine = FakeEngine()
    engine.modalities = frozenset({"audio"})
    room = await LiveKitRoom.join(livekit_server.url, agent_token(ROOM), SHORT)
    session = Session(room, engine, SessionOptions(), SessionSettings(), detector=Loud())
    running = asyncio.create_task(session.run())
    async with participant(livekit_server, "alice") as alice:
        await alice.camera(RED)
        await until(lambda: engine.sessions and engine.session.now_ms > 500, "units")
        (camera,) = room.rtc_room.remote_participants["alice"].track_publications.values()
        assert not camera.subscribed
    session.stop()
    await running


async def test_a_telephone_is_heard_and_playback_is_estimated(livekit_server: LiveKitServer) -> None:
    token = token_of_kind("sip", ROOM, "sip_+4930")
    async with participant(livekit_server, "", token=token) as caller, agent(livekit_server) as venus:
        microphone = await caller.microphone(8000)
        await asyncio.gather(microphone.say(TONE), venus.hears("the caller"))
        assert not venus.room.acknowledges
        venus.ear.speak("u1", 0.5)
        await caller.until(lambda: caller.of("agent.utterance_ended"), "the end")
        assert all(event["estimated"] for event in caller.of("playout") if event["state"] == "heard")
        assert len(caller.loud_s) > 30


def _key(key: bytes) -> rtc.E2EEOptions:
    return rtc.E2EEOptions(key_provider_options=rtc.KeyProviderOptions(shared_key=key))


async def test_end_to_end_encryption(livekit_server: LiveKitServer) -> None:
    async with (
        agent(livekit_server, encryption=_key(b"our secret")) as venus,
        participant(livekit_server, "alice", encryption=_key(b"our secret")) as alice,
        participant(livekit_server, "eve", encryption=_key(b"another one")) as eve,
    ):
        microphone = await alice.microphone()
        await asyncio.gather(microphone.say(TONE), venus.hears("alice"))
        venus.ear.speak("u1", 1.0)
        await alice.until(lambda: len(alice.loud_s) > 60, "the answer")
        assert alice.of("agent.state")
        assert not eve.loud_s
        assert not eve.events


async def test_a_greeting_waits_for_its_first_listener(livekit_server: LiveKitServer) -> None:
    async with agent(livekit_server) as venus:
        venus.ear.speak("u1", 0.6)
        await until(lambda: venus.session.timeline.events, "the session")
        async with participant(livekit_server, "alice") as alice:
            await alice.until(lambda: len(alice.loud_s) > 40, "the whole greeting")
            await alice.until(lambda: alice.of("agent.utterance_ended"), "its end")
