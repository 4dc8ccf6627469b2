"""The promises of the session, each on the whole runtime: room from memory, scripted engine, virtual time."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from realtime_venus.engines.base import (
    Capabilities,
    Changes,
    EngineFull,
    FloatPcm,
    Language,
    MediaUnit,
    OverlapPhase,
    SessionOptions,
    Speech,
    Trouble,
    Verdict,
)
from realtime_venus.plugin.rooms.base import Acknowledge, AudioChunk, Configure, Interrupt, PlayoutSource, Say, TypeText
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions, TimedCommand
from realtime_venus.plugin.session import Session, SessionSettings
from realtime_venus.plugin.timeline import events as ev
from realtime_venus.plugin.timeline import read_recording

from ...kit.fake_engine import ABLE, FakeEngine, FakeSession, coded_voice
from ...kit.virtual_time import run_virtual

E = TypeVar("E", bound=ev.TimelineEvent)


class Loud:
    """A detector for made-up speech: a window is speech when it is loud."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def reset(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def push(self, samples: FloatPcm) -> list[float]:
        audio = np.concatenate([self._rest, samples])
        count = len(audio) // 512
        self._rest = audio[count * 512 :]
        return [1.0 if np.abs(window).max() > 0.01 else 0.0 for window in audio[: count * 512].reshape(count, 512)]


def voice(*spans_ms: tuple[int, int], total_ms: int) -> FloatPcm:
    """A made-up vowel, which webrtcvad takes for speech, in the spans; silence elsewhere."""
    time = np.arange(total_ms * 16) / 16000
    vowel = sum(np.sin(2 * np.pi * 120 * k * time) / k for k in range(1, 12))
    mask = np.zeros(total_ms * 16)
    for start, end in spans_ms:
        mask[start * 16 : end * 16] = 1
    return (0.2 * vowel * mask).astype(np.float32)


@dataclass
class Run:
    """What a session left behind."""

    engine: FakeEngine
    room: MemoryRoom
    session: Session

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.session.timeline.events if isinstance(event, kind)]

    def one(self, kind: type[E]) -> E:
        (event,) = self.all(kind)
        return event

    def phases(self) -> list[str]:
        return [event.phase for event in self.all(ev.OverlapEvent)]

    def states(self) -> list[str]:
        return [event.state for event in self.all(ev.AgentState)]

    def loudness(self) -> list[int]:
        """Peak of the agent's track for each 20 ms."""
        return np.abs(self.room.agent_audio.astype(int)).reshape(-1, 480).max(axis=1).tolist()


def run(
    audio: FloatPcm,
    engine: FakeEngine,
    commands: Sequence[TimedCommand] = (),
    *,
    room: MemoryRoomOptions | None = None,
    options: SessionOptions | None = None,
    settings: SessionSettings | None = None,
    made: Callable[[FloatPcm, Sequence[TimedCommand], MemoryRoomOptions], MemoryRoom] = MemoryRoom,
) -> Run:
    chosen = options or SessionOptions()
    room_options = replace_fast(room or MemoryRoomOptions(ack_every_ms=20), fast=chosen.fast)

    async def main() -> Run:
        memory = made(audio, commands, room_options)
        session = Session(memory, engine, chosen, settings or SessionSettings(), detector=Loud(), session_id="test")
        await session.run()
        return Run(engine, memory, session)

    return run_virtual(main())


def replace_fast(options: MemoryRoomOptions, *, fast: bool) -> MemoryRoomOptions:
    return options.model_copy(update={"fast": fast})


def answering(at_ms: int, seconds: float = 4.0, **more: object) -> Callable[[FakeSession, MediaUnit], None]:
    """Speak utterance ``u1`` once ``at_ms`` has been taken in."""

    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.start_ms + session.engine.unit_ms == at_ms:
            session.speak("u1", seconds, **more)  # pyright: ignore[reportArgumentType]

    return on_unit


QUESTION = voice((200, 1000), total_ms=6000)
INTERRUPTION = voice((200, 1000), (3000, 4500), total_ms=8000)


# -- units in, speech out ------------------------------------------------------------------------------------------


def test_the_engine_gets_every_sample_in_order() -> None:
    result = run(QUESTION, FakeEngine())
    units = result.engine.session.units
    assert [unit.index for unit in units] == list(range(60))
    assert np.array_equal(np.concatenate([unit.audio for unit in units]), QUESTION)


def test_an_answer_is_played_told_and_measured() -> None:
    result = run(QUESTION, FakeEngine(answering(1500, 2.0, text="It is ten.")))
    assert result.states() == ["listening", "thinking", "speaking", "listening"]
    latency = result.one(ev.Latency)
    first_ms = next(index for index, peak in enumerate(result.loudness()) if peak > 0) * 20
    assert latency.edge_ms == first_ms - 1000
    assert abs(latency.at_ms - first_ms) <= 1
    ended = result.one(ev.UtteranceEnded)
    assert (ended.heard_text, ended.heard_samples, ended.interrupted) == ("It is ten.", 48000, False)
    assert result.engine.session.heards[-1] == ("u1", 48000)
    audio = result.room.agent_audio
    assert np.array_equal(audio[first_ms * 24 : first_ms * 24 + 48000], coded_voice(48000))
    assert [event.phase for event in result.all(ev.UserSpeech)] == ["started", "ended"]


def test_an_opener_is_reported_beside_the_answer() -> None:
    latency = run(QUESTION, FakeEngine(answering(1500, 2.0, opener_ms=400))).one(ev.Latency)
    assert latency.opener_ms is not None
    assert latency.edge_ms - latency.opener_ms == 400


def test_speech_streams_while_its_unit_still_computes() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.index == 10:
            session.engine.unit_takes_s = 1.0
            session.emit(Speech(0, "u1", 0, coded_voice(4800)))
        else:
            session.engine.unit_takes_s = 0.0

    result = run(QUESTION, FakeEngine(on_unit))
    order = [
        event.type
        for event in result.session.timeline.events
        if isinstance(event, ev.Playout) or (isinstance(event, ev.UnitTimed) and event.index == 10)
    ]
    assert order[0] == "playout"
    assert next(index for index, peak in enumerate(result.loudness()) if peak > 0) * 20 <= 1140


def test_the_page_gets_every_event_of_the_timeline() -> None:
    result = run(QUESTION, FakeEngine(answering(1500, 1.0)))
    assert [event["seq"] for event in result.room.published] == list(range(len(result.session.timeline)))
    assert result.room.published[0]["type"] == "session.started"
    assert result.room.published[-1]["type"] == "session.ended"
    assert result.one(ev.SessionEnded).reason == "left"


# -- overlap ---------------------------------------------------------------------------------------------------------


def judging(verdict: Verdict, after_s: float, start_ms: int = 1500) -> FakeEngine:
    def on_overlap(session: FakeSession, phase: OverlapPhase) -> None:
        if phase is OverlapPhase.STARTED:
            session.judge("u1", verdict, after_s=after_s)

    return FakeEngine(answering(start_ms), on_overlap)


def test_speech_over_the_agent_ducks_holds_and_yields() -> None:
    result = run(INTERRUPTION, judging(Verdict.YIELD, 0.4))
    assert result.phases() == ["started", "duck", "hold", "yield", "ended"]
    times = {event.phase: event.at_ms for event in result.all(ev.OverlapEvent)}
    assert times["duck"] - 3000 <= 150
    assert times["hold"] - 3000 <= 300
    loudness = result.loudness()
    plain, ducked = loudness[2900 // 20], loudness[times["duck"] // 20 + 1]
    assert 20 * np.log10(ducked / plain) == pytest.approx(-12, abs=0.5)
    assert max(loudness[(times["hold"] + 40) // 20 :]) == 0
    ended = result.one(ev.UtteranceEnded)
    assert ended.interrupted
    assert ended.heard_samples < 96000
    assert ended.heard_text in ("one", "one two")
    assert result.engine.session.overlaps[0][0] is OverlapPhase.STARTED
    assert abs(result.engine.session.overlaps[0][1] - 3000) <= 20
    assert result.states() == ["listening", "thinking", "speaking", "ducked", "held", "listening"]
    assert result.engine.session.heards[-1] == ("u1", ended.heard_samples)


def test_go_on_continues_and_everything_is_heard() -> None:
    result = run(INTERRUPTION, judging(Verdict.GO_ON, 0.4))
    assert result.phases() == ["started", "duck", "hold", "go_on", "ended"]
    ended = result.one(ev.UtteranceEnded)
    assert (ended.heard_samples, ended.interrupted) == (96000, False)
    assert result.states() == ["listening", "thinking", "speaking", "ducked", "held", "speaking", "listening"]
    held = next(event.at_ms for event in result.all(ev.OverlapEvent) if event.phase == "hold")
    silent = [index for index, peak in enumerate(result.loudness()) if peak == 0 and held < index * 20 < held + 400]
    assert len(silent) >= 8


def test_held_too_long_without_a_verdict_it_goes_on_ducked() -> None:
    result = run(INTERRUPTION, FakeEngine(answering(2000), unit_ms=1000))
    events = result.all(ev.OverlapEvent)
    limit = next(event for event in events if event.kind == "hold_limit")
    held = next(event for event in events if event.phase == "hold")
    final = next(event for event in events if event.kind == "no_verdict")
    start = next(event for event in events if event.phase == "started")
    assert 600 <= limit.at_ms - held.at_ms <= 660
    assert limit.phase == "duck"
    assert 1700 <= final.at_ms - start.at_ms <= 1760
    loudness = result.loudness()
    assert loudness[(limit.at_ms + 80) // 20] == pytest.approx(8000 * 0.251, rel=0.05)
    assert loudness[(final.at_ms + 120) // 20] == pytest.approx(8000, rel=0.05)
    assert result.one(ev.UtteranceEnded).heard_samples == 96000


def test_a_hold_verdict_keeps_it_paused_past_the_short_limit() -> None:
    result = run(INTERRUPTION, judging(Verdict.HOLD, 0.2))
    events = result.all(ev.OverlapEvent)
    verdict = next(event for event in events if event.kind == "test")
    assert not any(event.kind == "hold_limit" for event in events)
    final = next(event for event in events if event.kind == "no_verdict")
    assert 800 <= final.at_ms - verdict.at_ms <= 860


def test_an_engine_without_verdicts_is_not_told_and_the_agent_goes_on() -> None:
    able = replace(ABLE, overlap=False)
    result = run(INTERRUPTION, FakeEngine(answering(1500), capabilities=able))
    assert result.engine.session.overlaps == []
    assert "no_verdict" in [event.kind for event in result.all(ev.OverlapEvent)]
    assert result.one(ev.UtteranceEnded).heard_samples == 96000


def test_what_a_yielded_utterance_still_says_is_dropped() -> None:
    def on_overlap(session: FakeSession, phase: OverlapPhase) -> None:
        if phase is OverlapPhase.STARTED:
            session.judge("u1", Verdict.YIELD, after_s=0.3)
            session.speak("u1", 1.0, "too late", after_s=0.31)
            session.speak("u2", 1.0, "Yes?", after_s=2.0)

    result = run(INTERRUPTION, FakeEngine(answering(1500, ended=False), on_overlap))
    assert not any(event.text == "too late" for event in result.all(ev.AgentText))
    assert [event.utterance_id for event in result.all(ev.UtteranceEnded)] == ["u1", "u2"]
    assert result.all(ev.UtteranceEnded)[1].heard_text == "Yes?"


def test_the_engine_may_yield_before_the_reflex_noticed() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        answering(1500)(session, unit)
        if unit.index == 25:
            session.judge("u1", Verdict.YIELD)

    result = run(QUESTION, FakeEngine(on_unit))
    assert result.phases() == ["yield"]
    assert result.one(ev.UtteranceEnded).interrupted
    assert max(result.loudness()[2700 // 20 :]) == 0


# -- heard -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ack_delay_ms", [0, 100, 300, None])
def test_heard_is_told_whatever_the_listener_reports(ack_delay_ms: int | None) -> None:
    room = MemoryRoomOptions(ack_delay_ms=ack_delay_ms, playout_delay_ms=60)
    result = run(QUESTION, FakeEngine(answering(1500, 2.0)), room=room)
    assert result.one(ev.UtteranceEnded).heard_samples == 48000
    heard = [event for event in result.all(ev.Playout) if event.state == "heard"]
    assert all(event.estimated == (ack_delay_ms is None) for event in heard)
    assert [samples for _, samples in result.engine.session.heards] == sorted(
        samples for _, samples in result.engine.session.heards
    )


# -- commands --------------------------------------------------------------------------------------------------------


def test_the_stop_button_flushes_and_tells_the_engine() -> None:
    result = run(QUESTION, FakeEngine(answering(1500)), [TimedCommand(2500, Interrupt())])
    assert result.engine.session.interrupts == ["u1"]
    assert max(result.loudness()[2600 // 20 :]) == 0
    assert result.one(ev.UtteranceEnded).interrupted
    assert result.states()[-1] == "listening"


def test_stopping_words_that_have_no_sound_yet_ends_them() -> None:
    result = run(QUESTION, FakeEngine(answering(1500, 0.0, ended=False)), [TimedCommand(2000, Interrupt())])
    ended = result.one(ev.UtteranceEnded)
    assert (ended.heard_text, ended.total_samples, ended.interrupted) == ("", 0, True)


def test_typed_text_say_and_settings_reach_the_engine() -> None:
    commands = [
        TimedCommand(100, TypeText("  What time is it? ")),
        TimedCommand(200, Say("Welcome.")),
        TimedCommand(300, Configure(Changes(language=Language.ZH, voice="tenor"))),
        TimedCommand(400, TypeText("你好")),
    ]
    result = run(QUESTION, FakeEngine(), commands)
    session = result.engine.session
    assert session.typed == ["What time is it?", "你好"]
    assert session.said == ["Welcome."]
    assert session.changes == [Changes(language=Language.ZH, voice="tenor")]
    typed = result.all(ev.UserText)
    assert [(event.text, event.typed, event.language) for event in typed] == [
        ("What time is it?", True, "en"),
        ("你好", True, "zh"),
    ]
    configured = result.one(ev.SessionConfigured)
    assert (configured.language, configured.voice) == ("zh", "tenor")


def test_what_cannot_be_done_is_said_and_nothing_else_happens() -> None:
    commands = [
        TimedCommand(100, TypeText("hello")),
        TimedCommand(200, Say("hello")),
        TimedCommand(300, Configure(Changes(voice="nobody"))),
        TimedCommand(400, Acknowledge(10**9)),
    ]
    result = run(QUESTION, FakeEngine(capabilities=Capabilities()), commands)
    assert [event.code for event in result.all(ev.TroubleEvent)] == ["unsupported", "unsupported", "refused"]
    assert not any(event.fatal for event in result.all(ev.TroubleEvent))
    assert len(result.engine.session.units) == 60


@pytest.mark.parametrize("text", ["", "   ", "x" * 4001])
def test_empty_and_endless_texts_are_refused(text: str) -> None:
    result = run(QUESTION, FakeEngine(), [TimedCommand(100, TypeText(text))])
    assert result.one(ev.TroubleEvent).code == "bad_text"
    assert result.engine.session.typed == []


# -- input that is not as it should be -------------------------------------------------------------------------------


class Patchy(MemoryRoom):
    """Loses what lies between 2000 and 2300 ms."""

    async def audio(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        async for chunk in super().audio():
            if not 32000 <= chunk.position < 36800:
                yield chunk


def test_a_gap_is_on_the_timeline_and_in_the_unit() -> None:
    result = run(QUESTION, FakeEngine(), made=Patchy)
    gap = result.one(ev.InputGap)
    assert (gap.cause, gap.missing_ms) == ("lost", 300)
    assert [unit.missing_ms for unit in result.engine.session.units[20:24]] == [100, 100, 100, 0]


def test_a_backlog_is_dropped_once_and_named() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        session.engine.unit_takes_s = 4.0 if unit.index == 10 else 0.0

    result = run(voice(total_ms=9000), FakeEngine(on_unit))
    gap = result.one(ev.InputGap)
    assert gap.cause == "backlog"
    units = result.engine.session.units
    assert [unit.index for unit in units] == list(range(len(units)))
    assert sum(unit.missing_ms for unit in units) == gap.missing_ms >= 2000
    jumps = [b.start_ms - a.start_ms for a, b in pairwise(units)]
    assert sorted(set(jumps)) == [100, 100 + gap.missing_ms]


def test_speech_out_of_order_gives_the_utterance_up() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.index == 10:
            session.emit(Speech(0, "u1", 0, coded_voice(4800)), Speech(0, "u1", 9600, coded_voice(4800)))

    result = run(QUESTION, FakeEngine(on_unit))
    assert result.one(ev.TroubleEvent).code == "bad_speech"
    assert result.engine.session.interrupts == ["u1"]
    assert result.one(ev.UtteranceEnded).interrupted


# -- liveness and ends -----------------------------------------------------------------------------------------------


def test_a_stalled_engine_is_replaced_and_the_conversation_carried_over() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        answering(1500, 1.0)(session, unit)
        session.engine.stalled = session.number == 0 and unit.start_ms >= 2000
        if session.number == 1 and unit.index == 5:
            session.speak("u1", 1.0, "Here again.")

    result = run(voice(total_ms=20000), FakeEngine(on_unit))
    recovered = result.one(ev.Recovered)
    assert recovered.what == "engine"
    assert 10_000 <= recovered.stalled_ms <= 10_100
    first, second = result.engine.sessions
    assert first.closed
    assert second.restored == b"snapshot of 0"
    assert second.units[0].index == 0
    assert [event.heard_text for event in result.all(ev.UtteranceEnded)] == ["one two three four", "Here again."]
    assert second.heards[-1] == ("u1", 24000)


def test_an_utterance_that_never_ends_is_recovered_from() -> None:
    result = run(voice(total_ms=16000), FakeEngine(answering(1500, 1.0, ended=False)))
    assert result.one(ev.Recovered).what == "engine"
    assert result.one(ev.UtteranceEnded).heard_text.startswith("one")
    assert result.states()[-1] == "listening"


def test_a_room_that_stops_pulling_is_asked_again() -> None:
    class Deaf(MemoryRoom):
        asked = 0

        def play(self, source: PlayoutSource) -> None:
            type(self).asked += 1
            if type(self).asked > 1:
                super().play(source)

    result = run(voice(total_ms=16000), FakeEngine(answering(1500, 1.0)), made=Deaf)
    assert result.one(ev.Recovered).what == "playout"
    assert result.one(ev.UtteranceEnded).heard_samples == 24000


def test_an_engine_that_keeps_stalling_ends_the_session() -> None:
    engine = FakeEngine()
    engine.stalled = True
    result = run(voice(total_ms=90_000), engine, settings=SessionSettings(max_recoveries=2))
    assert len(result.engine.sessions) == 3
    assert result.all(ev.TroubleEvent)[-1].fatal
    assert result.one(ev.SessionEnded).reason == "engine_stalled"
    assert result.engine.open_sessions == 0


def test_an_engine_whose_events_end_is_reopened() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if session.number == 0 and unit.index == 10:
            session.fail()

    result = run(QUESTION, FakeEngine(on_unit))
    assert len(result.engine.sessions) == 2
    assert result.engine.sessions[1].units


def test_fatal_trouble_ends_the_session_and_closes_everything() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.index == 10:
            session.emit(Trouble(1000, "out_of_memory", "No memory is left.", fatal=True))

    result = run(QUESTION, FakeEngine(on_unit))
    assert result.one(ev.TroubleEvent).fatal
    assert result.one(ev.SessionEnded).reason == "out_of_memory"
    assert result.engine.session.closed


def test_a_full_engine_is_an_error_and_the_room_is_left() -> None:
    engine = FakeEngine()
    engine.max_sessions = 0

    async def main() -> None:
        room = MemoryRoom(QUESTION)
        session = Session(room, engine, SessionOptions(), SessionSettings(), detector=Loud())
        with pytest.raises(EngineFull):
            await session.run()
        assert [chunk async for chunk in room.audio()] == []

    run_virtual(main())


def test_cancelling_closes_everything_and_is_passed_on() -> None:
    engine = FakeEngine()

    async def main() -> None:
        session = Session(MemoryRoom(QUESTION), engine, SessionOptions(), SessionSettings(), detector=Loud())
        task = asyncio.create_task(session.run())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.session.closed
        assert session.timeline.events[-1] == ev.SessionEnded(at_ms=1000, reason="failed")

    run_virtual(main())


def test_stop_ends_a_session_from_outside() -> None:
    async def main() -> str:
        session = Session(MemoryRoom(QUESTION), FakeEngine(), SessionOptions(), SessionSettings(), detector=Loud())
        asyncio.get_running_loop().call_later(1, session.stop)
        await session.run()
        ended = session.timeline.events[-1]
        assert isinstance(ended, ev.SessionEnded)
        return ended.reason

    assert run_virtual(main()) == "stopped"


# -- fast mode -------------------------------------------------------------------------------------------------------


def test_fast_mode_feeds_one_unit_at_a_time_and_measures_nothing() -> None:
    undone: list[int] = []

    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        done = sum(isinstance(event, ev.UnitTimed) for event in run_events)
        undone.append(unit.index - done)
        answering(1500, 2.0)(session, unit)

    run_events: list[ev.TimelineEvent] = []
    engine = FakeEngine(on_unit)
    engine.unit_takes_s = 0.5  # slower than real time: media time waits

    async def main() -> Run:
        room = MemoryRoom(QUESTION, options=MemoryRoomOptions(fast=True, ack_every_ms=20))
        session = Session(room, engine, SessionOptions(fast=True), SessionSettings(), detector=Loud())
        subscription = session.timeline.subscribe()

        async def watch() -> None:
            async for entry in subscription:  # one by one: the engine's script looks at them on the way
                run_events.extend([entry.event])

        watcher = asyncio.create_task(watch())
        await session.run()
        await watcher
        return Run(engine, room, session)

    result = run_virtual(main())
    assert set(undone) == {0}
    assert len(engine.session.units) == 60
    assert result.all(ev.Latency) == []
    assert result.one(ev.UtteranceEnded).heard_samples == 48000
    assert len(result.room.agent_audio) == 6000 * 24
    begun = next(index for index, peak in enumerate(result.loudness()) if peak > 0) * 20
    assert begun == 1500


def test_fast_mode_counts_wall_time_for_liveness() -> None:
    engine = FakeEngine()
    engine.stalled = True
    result = run(QUESTION, engine, options=SessionOptions(fast=True), settings=SessionSettings(max_recoveries=1))
    assert result.one(ev.Recovered).stalled_ms >= 60_000
    assert result.one(ev.SessionEnded).reason == "engine_stalled"


# -- recording -------------------------------------------------------------------------------------------------------


def test_nothing_is_recorded_unless_the_setting_says_so(tmp_path: Path) -> None:
    result = run(QUESTION, FakeEngine(), settings=SessionSettings(recordings_dir=tmp_path))
    assert not result.one(ev.SessionStarted).recording
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_session_is_the_session(tmp_path: Path) -> None:
    settings = SessionSettings(record=True, recordings_dir=tmp_path)
    result = run(QUESTION, FakeEngine(answering(1500, 1.0)), settings=settings)
    found = read_recording(tmp_path / "test")
    assert result.one(ev.SessionStarted).recording
    assert found.entries == result.session.timeline.entries
    assert np.array_equal(found.user, np.rint(QUESTION * 32767).astype(np.int16))
    assert np.array_equal(found.agent, result.room.agent_audio)


@contextmanager
def largest_file(size: int) -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_ends_the_recording_not_the_session(tmp_path: Path) -> None:
    with largest_file(40_000):
        settings = SessionSettings(record=True, recordings_dir=tmp_path)
        result = run(QUESTION, FakeEngine(answering(1500, 1.0)), settings=settings)
    assert result.one(ev.TroubleEvent).code == "recording_stopped"
    assert result.one(ev.SessionEnded).reason == "left"
    assert result.one(ev.UtteranceEnded).heard_samples == 24000


def test_chunks_of_any_size_are_taken() -> None:
    class Ragged(MemoryRoom):
        async def audio(self):  # pyright: ignore[reportIncompatibleMethodOverride]
            async for chunk in super().audio():
                cut = 1 + chunk.position // 320 % 318
                yield AudioChunk(chunk.samples[:cut], chunk.position, chunk.arrival_s)
                yield AudioChunk(chunk.samples[cut:], chunk.position + cut, chunk.arrival_s)

    result = run(QUESTION, FakeEngine(), made=Ragged)
    assert np.array_equal(np.concatenate([unit.audio for unit in result.engine.session.units]), QUESTION)
