from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from livekit import rtc
from realtime_venus.engines.base import FloatPcm, SessionOptions, Verdict
from realtime_venus.plugin.livekit.gate import tag_of
from realtime_venus.plugin.livekit.options import DuplexOptions
from realtime_venus.plugin.livekit.room import DuplexRoom
from realtime_venus.plugin.livekit.speech import Words
from realtime_venus.plugin.rooms.base import Acknowledge, Interrupt, Say, TypeText
from realtime_venus.plugin.session import Session, SessionSettings
from realtime_venus.plugin.timeline import events as ev

from ...kit.fake_engine import FakeEngine, FakeSession
from ...kit.sessions import INTERRUPTION, QUESTION, Loud, answering
from .agent_io import FakeInput, passed, pcm, run_agent


@dataclass
class Ear:
    """The listener of a room, and the reader of its stream."""

    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    words: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """How many frames came before, and the text."""
    cuts: list[str] = field(default_factory=list[str])
    frames: list[tuple[float, rtc.AudioFrame, int]] = field(default_factory=list[tuple[float, rtc.AudioFrame, int]])
    """When it came, the frame, and its place in the stream."""

    def on_event(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def on_words(self, words: Words) -> None:
        self.words.append((len(self.frames), words.text))

    def on_cut(self, utterance_id: str) -> None:
        self.cuts.append(utterance_id)

    async def listen(self, room: DuplexRoom) -> None:
        async for frame, start_ms in room.stream():
            self.frames.append((asyncio.get_running_loop().time(), frame, start_ms))

    def of(self, utterance_id: str) -> list[tuple[float, rtc.AudioFrame]]:
        """The frames of an utterance, without the one that ends it."""
        found: list[tuple[float, rtc.AudioFrame]] = []
        for at_s, frame, _ in self.frames:
            tag = tag_of(frame)
            assert tag is not None
            if tag.utterance_id == utterance_id and tag.speaking:
                found.append((at_s, frame))
        return found


@asynccontextmanager
async def conversation(
    engine: FakeEngine, audio: FloatPcm, options: DuplexOptions | None = None
) -> AsyncGenerator[tuple[DuplexRoom, Ear, Session]]:
    ear = Ear()
    room = DuplexRoom(ear, options or DuplexOptions(), unit_ms=engine.unit_ms, video=True)
    session = Session(room, engine, SessionOptions(), SessionSettings(), detector=Loud())
    source = FakeInput(audio)

    async def speak() -> None:
        while True:
            room.push_audio(await source.__anext__())

    tasks = [asyncio.create_task(work) for work in (session.run(), ear.listen(room), speak())]
    await room.wait_playing()
    try:
        yield room, ear, session
    finally:
        session.stop()
        await tasks[0]
        tasks[2].cancel()
        await asyncio.wait(tasks)


def run(
    engine: FakeEngine,
    audio: FloatPcm,
    seconds: float,
    options: DuplexOptions | None = None,
    meanwhile: Callable[[DuplexRoom], None] | None = None,
) -> tuple[Ear, Session, DuplexRoom]:
    async def main() -> tuple[Ear, Session, DuplexRoom]:
        async with conversation(engine, audio, options) as (room, ear, session):
            if meanwhile is not None:
                meanwhile(room)
            await passed(seconds)
            return ear, session, room

    return run_agent(main())


def test_an_answer_comes_at_real_time_with_the_lead_and_nothing_before_or_after_it() -> None:
    ear, _, _ = run(FakeEngine(answering(1400, seconds=3.0)), QUESTION, 8.0)
    frames = ear.of("u1")
    sound = pcm([frame for _, frame in frames])
    loud = np.flatnonzero(np.abs(sound) > 0)
    assert abs((loud[-1] - loud[0]) / 24_000 - 3.0) < 0.05, "every sample of the answer, and no gap in it"
    began_s = frames[0][0]
    ahead = [(n + 1) * 0.02 - (at_s - began_s) for n, (at_s, _) in enumerate(frames[:150])]
    assert max(ahead) <= 0.1 + 1e-6
    assert min(ahead[5:]) >= 0.06
    assert len(frames) - 150 < 30, "the pause until it is heard is short"
    last = tag_of(ear.frames[-1][1])
    assert last is not None
    assert not last.speaking


def test_the_lead_can_be_set() -> None:
    ear, _, _ = run(FakeEngine(answering(1400, seconds=2.0)), QUESTION, 6.0, DuplexOptions(lead_ms=20))
    frames = ear.of("u1")
    ahead = [(n + 1) * 0.02 - (at_s - frames[0][0]) for n, (at_s, _) in enumerate(frames[:100])]
    assert max(ahead) <= 0.02 + 1e-6


def test_places_in_the_stream_are_continuous_and_words_come_before_their_frame() -> None:
    def on_unit(session: FakeSession, unit: Any) -> None:
        if unit.start_ms == 1400:
            session.speak("u1", 1.0, "one two")
        if unit.start_ms == 4000:
            session.speak("u2", 1.0, "three four")

    ear, _, _ = run(FakeEngine(on_unit), QUESTION, 8.0)
    assert [start for _, _, start in ear.frames] == [20 * n for n in range(len(ear.frames))]
    first = len(ear.of("u1")) + 1
    assert ear.words == [(0, "one two"), (first, "three four")]


def test_a_yield_ends_the_stretch_within_the_lead() -> None:
    def judge(session: FakeSession, phase: object) -> None:
        if phase == "started":
            session.judge("u1", Verdict.YIELD, after_s=0.1)

    ear, session, _ = run(FakeEngine(answering(1400, seconds=10.0), judge), INTERRUPTION, 8.0)
    (cut,) = [event for event in session.timeline.events if isinstance(event, ev.UtteranceEnded)]
    assert cut.interrupted
    assert ear.cuts == ["u1"]
    assert len(ear.of("u1")) * 20 <= cut.at_ms - 1400 + 200
    last = tag_of(ear.frames[-1][1])
    assert last is not None
    assert (last.utterance_id, last.speaking) == ("u1", False)


def test_without_reports_hearing_is_estimated_and_with_them_it_is_not() -> None:
    _, session, _ = run(FakeEngine(answering(1400, seconds=1.0)), QUESTION, 4.0)
    heard = [e for e in session.timeline.events if isinstance(e, ev.Playout) and e.state == "heard"]
    assert heard[-1].end_sample == 24_000
    assert all(event.estimated for event in heard)


def test_silence_stands_in_for_a_user_who_has_no_microphone() -> None:
    async def main() -> list[int]:
        ear, engine = Ear(), FakeEngine()
        room = DuplexRoom(ear, DuplexOptions(), unit_ms=100, video=False)
        session = Session(room, engine, SessionOptions(), SessionSettings(), detector=Loud())
        running = asyncio.create_task(session.run())
        await passed(3.0)
        session.stop()
        await running
        return [unit.start_ms for unit in engine.session.units]

    starts = run_agent(main())
    assert starts == [100 * n for n in range(len(starts))]
    assert len(starts) >= 28


def test_the_newest_picture_is_in_its_unit() -> None:
    def film(room: DuplexRoom) -> None:
        loop = asyncio.get_running_loop()
        for n in range(60):
            rgba = np.tile(np.array([n, 0, 0, 255], np.uint8), (2, 2, 1))
            picture = rtc.VideoFrame(2, 2, rtc.VideoBufferType.RGBA, rgba.tobytes())
            loop.call_later(n * 0.033, room.push_video, picture)

    engine = FakeEngine()
    run(engine, QUESTION, 2.5, meanwhile=film)
    shown = [[int(frame.image[0, 0, 0]) for frame in unit.frames] for unit in engine.session.units[:18]]
    assert all(len(frames) == 1 for frames in shown[1:])
    numbers = [frames[0] for frames in shown[1:]]
    assert all(2 <= after - before <= 4 for before, after in itertools.pairwise(numbers))


def test_commands_are_bounded_and_an_old_acknowledgement_gives_way_first() -> None:
    async def main() -> tuple[list[object], int]:
        room = DuplexRoom(Ear(), DuplexOptions(), unit_ms=100, video=False)
        room.played(3)
        room.played(5)
        room.played(4)
        for n in range(64):
            room.command(TypeText(str(n)))
        await room.close()
        return [command async for command in room.commands()], room.commands_dropped

    commands, dropped = run_agent(main())
    assert dropped == 1
    assert commands == [TypeText(str(n)) for n in range(64)]


def test_only_the_newest_report_waits() -> None:
    async def main() -> list[object]:
        room = DuplexRoom(Ear(), DuplexOptions(), unit_ms=100, video=False)
        room.played(3)
        room.played(5)
        room.command(Say("x"))
        room.played(7)
        room.command(Interrupt())
        await room.close()
        return [command async for command in room.commands()]

    assert run_agent(main()) == [Acknowledge(5), Say("x"), Acknowledge(7), Interrupt()]


def test_a_stream_that_nobody_reads_is_bounded() -> None:
    async def main() -> int:
        engine = FakeEngine(answering(1400, seconds=30.0))
        room = DuplexRoom(Ear(), DuplexOptions(), unit_ms=100, video=False)
        session = Session(room, engine, SessionOptions(), SessionSettings(), detector=Loud())
        running = asyncio.create_task(session.run())
        await passed(25.0)
        session.stop()
        await running
        return room.stream_dropped

    assert run_agent(main()) > 400


def test_a_closed_room_takes_nothing() -> None:
    async def main() -> None:
        room = DuplexRoom(Ear(), DuplexOptions(), unit_ms=100, video=True)
        await room.close()
        await room.close()
        room.push_audio(rtc.AudioFrame(bytes(640), 16_000, 1, 320))
        room.push_video(rtc.VideoFrame(2, 2, rtc.VideoBufferType.RGBA, bytes(16)))
        room.command(Interrupt())
        room.publish({"type": "session.ended"})
        assert [chunk async for chunk in room.audio()] == []
        assert [command async for command in room.commands()] == []
        assert [frame async for frame in room.stream()] == []

    run_agent(main())
