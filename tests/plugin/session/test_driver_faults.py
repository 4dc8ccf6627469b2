"""Sessions that meet bad input, stalls, the end, a file instead of a clock, or a full disk."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from realtime_venus.engines.base import (
    Changes,
    Decided,
    Decision,
    EngineFull,
    MediaUnit,
    SessionOptions,
    Speech,
    Trouble,
)
from realtime_venus.plugin.rooms.base import AudioChunk, Configure, Interrupt, PlayoutSource
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions, TimedCommand
from realtime_venus.plugin.session import Session, SessionSettings
from realtime_venus.plugin.timeline import events as ev
from realtime_venus.plugin.timeline import read_recording

from ...kit.fake_engine import FakeEngine, FakeSession, coded_voice
from ...kit.sessions import QUESTION, Loud, Run, answering, run, voice
from ...kit.virtual_time import run_virtual

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


def test_a_stalled_engine_is_replaced_and_the_conversation_carried_over(caplog: pytest.LogCaptureFixture) -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        answering(1500, 1.0)(session, unit)
        session.engine.stalled = session.number == 0 and unit.start_ms >= 2000
        if session.number == 1 and unit.index == 5:
            session.speak("u1", 1.0, "Here again.")

    result = run(voice(total_ms=20000), FakeEngine(on_unit))
    recovered = result.one(ev.Recovered)
    assert recovered.what == "engine"
    assert 10_000 <= recovered.stalled_ms <= 10_300
    assert "the engine has finished nothing for 10." in caplog.text
    assert "VENUS_SESSION__WATCHDOG_S" in caplog.text
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


def test_a_room_that_stops_pulling_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    class Deaf(MemoryRoom):
        asked = 0

        def play(self, source: PlayoutSource) -> None:
            type(self).asked += 1
            if type(self).asked > 1:
                super().play(source)

    result = run(voice(total_ms=16000), FakeEngine(answering(1500, 1.0)), made=Deaf)
    assert result.one(ev.Recovered).what == "playout"
    assert "the room has fetched no sound for 10." in caplog.text
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


def test_a_reopened_engine_can_be_stopped_while_it_thinks() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if session.number == 0 and unit.index == 10:
            session.fail()
        if session.number == 1 and unit.index == 5:
            session.emit(Decided(session.now_ms, Decision.SPEAK))
            session.speak("u1", 1.0, after_s=2.0)

    result = run(QUESTION, FakeEngine(on_unit), [TimedCommand(3000, Interrupt())])
    assert result.engine.session.interrupts == [""]
    assert max(result.loudness()) == 0


@pytest.mark.parametrize(("chosen", "kept"), [(("alto",), "alto"), (("alto", "auto"), None)])
def test_a_reopened_engine_speaks_with_the_voice_chosen_last(chosen: tuple[str, ...], kept: str | None) -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if session.number == 0 and unit.index == 10:
            session.fail()

    commands = [TimedCommand(100 * n, Configure(Changes(voice=name))) for n, name in enumerate(chosen, 1)]
    result = run(QUESTION, FakeEngine(on_unit), commands)
    assert [changes.voice for changes in result.engine.sessions[0].changes] == list(chosen)
    assert result.engine.session.options.voice == kept


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
