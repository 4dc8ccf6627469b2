"""``AgentSession(llm=venus.DuplexModel())`` in a room of a real server, with a person who speaks, types and shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from livekit import rtc
from livekit.agents import Agent, AgentSession, llm
from livekit.plugins import venus
from realtime_venus.engines.base import FloatPcm, MediaUnit, OverlapPhase, Verdict
from realtime_venus.plugin.livekit.attach import Attachment

from ..kit.fake_engine import FakeEngine, FakeSession
from ..kit.kits import stem
from ..kit.livekit_server import LiveKitServer
from ..plugin.livekit.agent_io import Emitter, on, start

pytestmark = pytest.mark.usefixtures("native_sockets_closed")

DEADLINE_S = 45.0
HZ = 48_000
FRAME = HZ // 50
LOUD = 0.02
QUESTION = "en_turn_taking_01"
WORDS = "one two three four five six seven eight nine ten"


@dataclass
class Watch:
    """Conditions that are looked at again whenever something happened."""

    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def move(self, *_: object) -> None:
        self.moved.set()

    async def until(self, true: Callable[[], object], what: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not true():
                    self.moved.clear()
                    await self.moved.wait()
        except TimeoutError:
            pytest.fail(f"did not come to be: {what}")


class Person:
    """Somebody in the room: a microphone, ears, a keyboard and a camera."""

    def __init__(self, room: rtc.Room, watch: Watch) -> None:
        self.room = room
        self.watch = watch
        self.heard: list[float] = []
        """Loudness of each 20 ms of the agent."""
        self.captions: dict[str, list[str]] = {}
        self._microphone = ""
        self._speech: FloatPcm = np.zeros(0, np.float32)
        self._tasks: set[asyncio.Task[None]] = set()
        cast(Emitter, room).on("track_subscribed", self._subscribed)
        room.register_text_stream_handler("lk.transcription", self._captioned)

    def say(self, audio: FloatPcm) -> None:
        """Speak ``audio`` (mono 16 kHz) from now on."""
        self._speech = np.repeat(audio, 3)

    async def type(self, text: str) -> None:
        await self.room.local_participant.send_text(text, topic="lk.chat")

    async def show(self, red: int, green: int, blue: int) -> rtc.VideoSource:
        """Publish a camera that sees one colour."""
        source = rtc.VideoSource(320, 240)
        track = rtc.LocalVideoTrack.create_video_track("camera", source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_CAMERA)
        await self.room.local_participant.publish_track(track, options)
        rgba = np.tile(np.array([red, green, blue, 255], np.uint8), (240, 320, 1))
        self._begin(self._film(source, rtc.VideoFrame(320, 240, rtc.VideoBufferType.RGBA, rgba.tobytes())))
        return source

    def quiet(self, frames: int) -> bool:
        """Whether the last ``frames`` frames of the agent were silent."""
        return len(self.heard) >= frames and max(self.heard[-frames:]) < LOUD

    def said(self, who: str) -> str:
        """Everything in the captions of the ``person`` or the ``agent``."""
        return "".join(self.captions.get(who, []))

    async def begin(self) -> None:
        source = rtc.AudioSource(HZ, 1, queue_size_ms=100)
        track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        self._microphone = (await self.room.local_participant.publish_track(track, options)).sid
        self._begin(self._talk(source))

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.room.disconnect()

    async def _talk(self, source: rtc.AudioSource) -> None:
        try:
            while True:
                part, self._speech = self._speech[:FRAME], self._speech[FRAME:]
                samples = np.concatenate([part, np.zeros(FRAME - part.size, np.float32)])
                pcm = (samples * 32767).astype(np.int16).tobytes()
                await source.capture_frame(rtc.AudioFrame(pcm, HZ, 1, FRAME))
        finally:
            await source.aclose()

    async def _film(self, source: rtc.VideoSource, frame: rtc.VideoFrame) -> None:
        loop = asyncio.get_running_loop()
        tick = asyncio.Event()
        try:
            while True:
                source.capture_frame(frame)
                loop.call_later(0.1, tick.set)  # a camera of ten frames a second
                await tick.wait()
                tick.clear()
        finally:
            await source.aclose()

    def _subscribed(self, track: rtc.Track, *_: object) -> None:
        if isinstance(track, rtc.RemoteAudioTrack):
            self._begin(self._listen(track))

    async def _listen(self, track: rtc.RemoteAudioTrack) -> None:
        stream = rtc.AudioStream(track, sample_rate=24_000, num_channels=1, frame_size_ms=20)
        try:
            async for event in stream:
                samples = np.frombuffer(cast(Any, event.frame.data), np.int16).astype(np.float64) / 32768
                self.heard.append(float(np.sqrt(np.mean(samples**2))))
                self.watch.move()
        finally:
            await stream.aclose()

    def _captioned(self, reader: rtc.TextStreamReader, identity: str) -> None:
        assert identity == "agent", "the agent writes down both sides"
        self._begin(self._read(reader))

    async def _read(self, reader: rtc.TextStreamReader) -> None:
        own = (reader.info.attributes or {}).get("lk.transcribed_track_id") == self._microphone
        parts = self.captions.setdefault("person" if own else "agent", [])
        async for part in reader:
            parts.append(part)
            self.watch.move()

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Answering(FakeEngine):
    """Answers the first speech it hears, after half a second of silence, and yields to the next; and what is typed, if
    it is told to."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        super().__init__(self._take, self._judge)
        self._watch = watch
        self._seconds = seconds
        self._loud = self._quiet = 0
        self.answered = False
        self.reads = False
        self._read = 0

    def _take(self, session: FakeSession, unit: MediaUnit) -> None:
        self._watch.move()
        if self.reads and len(session.typed) > self._read:
            self._read += 1
            session.speak(f"t{self._read}", 1.0, f"You typed: {session.typed[self._read - 1]}")
        if np.abs(unit.audio).max() > LOUD:
            self._loud, self._quiet = self._loud + 1, 0
        else:
            self._quiet += 1
        if not self.answered and self._loud >= 12 and self._quiet >= 6:
            self.answered = True
            session.hear("what was asked", final=False)
            session.hear("What was asked?")
            session.speak("u1", self._seconds, WORDS)

    def _judge(self, session: FakeSession, phase: OverlapPhase) -> None:
        if phase is OverlapPhase.STARTED:
            session.judge("u1", Verdict.YIELD, after_s=0.3)


@dataclass
class Call:
    """An agent and a person in one room."""

    engine: Answering
    session: AgentSession[Any]
    person: Person
    watch: Watch
    attachment: Attachment | None
    items: list[llm.ChatMessage] = field(default_factory=list[llm.ChatMessage])
    errors: list[object] = field(default_factory=list[object])

    async def until(self, true: Callable[[], object], what: str) -> None:
        await self.watch.until(true, what)

    def messages(self, role: str) -> list[llm.ChatMessage]:
        return [item for item in self.items if item.role == role]


@asynccontextmanager
async def call(server: LiveKitServer, *, seconds: float, attach: str) -> AsyncGenerator[Call]:
    """``attach``: ``before`` the start, ``after`` it, or ``never``."""
    watch = Watch()
    engine = Answering(watch, seconds)
    model = venus.DuplexModel(engine=engine)
    session: AgentSession[Any] = AgentSession(llm=model, **venus.session_options())
    attachment = venus.attach(session) if attach == "before" else None
    room, person = rtc.Room(), Person(rtc.Room(), watch)
    made = Call(engine, session, person, watch, attachment)

    def added(event: Any) -> None:
        if isinstance(event.item, llm.ChatMessage):
            made.items.append(event.item)
        watch.move()

    on(session, "conversation_item_added", added)
    on(session, "agent_state_changed", watch.move)
    on(session, "error", made.errors.append)
    try:
        await room.connect(server.url, server.token("agent", "plugin"))
        await start(session, Agent(instructions="Be brief."), room=room, room_options=venus.room_options())
        if attach == "after":
            made.attachment = venus.attach(session)
        await person.room.connect(server.url, server.token("person", "plugin"))
        await person.begin()
        await made.until(lambda: len(engine.session.units) >= 10, "time passing")
        yield made
        assert not made.errors
    finally:
        await person.leave()
        if made.attachment is not None:
            await made.attachment.aclose()
        await session.aclose()
        await model.aclose()
        await room.disconnect()


@pytest.mark.parametrize("attach", ["before", "after", "never"])
async def test_a_question_is_answered_and_both_sides_are_written_down(
    livekit_server: LiveKitServer, attach: str
) -> None:
    async with call(livekit_server, seconds=2.0, attach=attach) as made:
        made.person.say(stem(QUESTION))
        await made.until(lambda: made.engine.answered, "the question is heard")
        await made.until(lambda: max(made.person.heard[-50:], default=0) > LOUD, "the answer is heard")
        await made.until(lambda: made.messages("assistant"), "the answer is over")
        await made.until(lambda: made.person.quiet(25), "silence after the answer")
        assert [item.text_content for item in made.messages("user")] == ["What was asked?"]
        (answer,) = made.messages("assistant")
        assert (answer.text_content, answer.interrupted) == (WORDS, False)
        assert made.engine.session.heards[-1] == ("u1", 48_000)
        assert made.session.agent_state == "listening"
        await made.until(lambda: made.person.said("agent") == WORDS, "captions of the agent")
        await made.until(lambda: "What was asked?" in made.person.said("person"), "captions of the person")
        assert made.engine.session.options.persona == "Be brief."


@pytest.mark.parametrize("attach", ["before", "never"])
async def test_the_agent_falls_silent_when_it_yields(livekit_server: LiveKitServer, attach: str) -> None:
    async with call(livekit_server, seconds=20.0, attach=attach) as made:
        made.person.say(stem(QUESTION))
        await made.until(lambda: max(made.person.heard[-50:], default=0) > LOUD, "the answer is heard")
        begun = len(made.person.heard)
        await made.until(lambda: len(made.person.heard) > begun + 100, "two seconds of the answer")
        made.person.say(stem(QUESTION))
        await made.until(lambda: made.person.quiet(50), "a second of silence")
        await made.until(lambda: made.messages("assistant"), "the answer is written down")
        (answer,) = made.messages("assistant")
        assert answer.interrupted or attach == "never"
        heard = max(samples for utterance, samples in made.engine.session.heards if utterance == "u1")
        assert 24_000 < heard < 10 * 24_000
        if attach == "before":
            assert WORDS.startswith(answer.text_content or "?")
            assert len(answer.text_content or "") < len(WORDS)
        await made.until(lambda: made.session.agent_state == "listening", "listening again")


async def test_typed_text_reaches_the_engine_and_interrupts_nothing(livekit_server: LiveKitServer) -> None:
    async with call(livekit_server, seconds=4.0, attach="before") as made:
        made.person.say(stem(QUESTION))
        await made.until(lambda: max(made.person.heard[-50:], default=0) > LOUD, "the answer is heard")
        await made.person.type("and in winter?")
        await made.until(lambda: made.engine.session.typed, "the text has come")
        await made.until(lambda: len(made.messages("user")) == 2, "the text is written down")
        assert made.engine.session.typed == ["and in winter?"]
        assert made.messages("user")[-1].text_content == "and in winter?"
        await made.until(lambda: made.messages("assistant"), "the answer is over")
        assert not made.messages("assistant")[0].interrupted


async def test_a_reply_that_is_asked_for_is_heard_and_written_down(livekit_server: LiveKitServer) -> None:
    """``generate_reply``: ``user_input`` is a line of the user's, ``instructions`` are typed and nobody's words."""
    async with call(livekit_server, seconds=1.0, attach="before") as made:
        made.engine.reads = True
        for keywords, typed, users in (
            ({"user_input": "How are you?"}, "How are you?", ["How are you?"]),
            ({"instructions": "Greet the user."}, "Greet the user.", ["How are you?"]),
            (
                {"user_input": "And now?", "instructions": "Be brief."},
                "And now?",
                ["How are you?", "And now?"],
            ),
        ):
            answers, begun = len(made.messages("assistant")), len(made.person.heard)
            reply = made.session.generate_reply(**cast(dict[str, Any], keywords))
            await made.until(lambda begun=begun: max(made.person.heard[begun:], default=0) > LOUD, "it is heard")
            await made.until(lambda answers=answers: len(made.messages("assistant")) > answers, "it is over")
            await made.until(reply.done, "the reply is done")
            assert reply.exception() is None
            assert made.engine.session.typed[-1] == typed
            said = made.messages("assistant")[-1]
            assert (said.text_content, said.interrupted) == (f"You typed: {typed}", False)
            assert [item.text_content for item in made.messages("user")] == users
            await made.until(lambda typed=typed: f"You typed: {typed}" in made.person.said("agent"), "its captions")
            await made.until(lambda: made.person.quiet(25), "silence after it")
        assert made.engine.session.typed == ["How are you?", "Greet the user.", "And now?"]


async def test_a_reply_about_nothing_says_what_to_ask_for(livekit_server: LiveKitServer) -> None:
    async with call(livekit_server, seconds=1.0, attach="before") as made:
        reply = made.session.generate_reply()
        await made.until(reply.done, "the reply is done")
        error = reply.exception()
        assert isinstance(error, llm.RealtimeError)
        assert "user_input" in str(error)
        assert made.engine.session.typed == []


async def test_the_camera_is_seen(livekit_server: LiveKitServer) -> None:
    async with call(livekit_server, seconds=1.0, attach="before") as made:
        await made.person.show(220, 30, 30)
        units = made.engine.session.units
        await made.until(lambda: sum(len(unit.frames) for unit in units) >= 3, "pictures in units")
        seen = [frame for unit in units for frame in unit.frames]
        assert all(len(unit.frames) <= 1 for unit in units)
        assert seen[-1].image.shape[2] == 3
        red, green, blue = seen[-1].image.reshape(-1, 3).mean(axis=0)
        assert red > 150
        assert max(green, blue) < 100


async def test_the_application_speaks_and_interrupts(livekit_server: LiveKitServer) -> None:
    async with call(livekit_server, seconds=20.0, attach="after") as made:
        assert made.attachment is not None
        made.attachment.say("This call is recorded.")
        await made.until(lambda: made.engine.session.said, "the line has come")
        assert made.engine.session.said == ["This call is recorded."]
        with pytest.raises(llm.RealtimeError, match=r"venus\.attach"):
            made.session.say("This call is recorded.")
        made.person.say(stem(QUESTION))
        await made.until(lambda: max(made.person.heard[-50:], default=0) > LOUD, "the answer is heard")
        await made.session.interrupt()
        await made.until(lambda: made.engine.session.interrupts == ["u1"], "the engine knows")
        await made.until(lambda: made.person.quiet(50), "a second of silence")
