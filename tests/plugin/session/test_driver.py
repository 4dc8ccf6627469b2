"""The promises of the session, each on the whole runtime: room from memory, scripted engine, virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from realtime_venus.engines.base import (
    OUTPUT_HZ,
    Capabilities,
    Changes,
    Decided,
    Decision,
    Frame,
    Language,
    MediaUnit,
    OverlapPhase,
    Speech,
    Verdict,
)
from realtime_venus.plugin.rooms.base import Acknowledge, Configure, Interrupt, Say, TypeText
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions, TimedCommand
from realtime_venus.plugin.timeline import events as ev

from ...kit.fake_engine import ABLE, FakeEngine, FakeSession, coded_voice
from ...kit.sessions import INTERRUPTION, QUESTION, answering, run

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


def test_stopping_while_she_thinks_gives_up_the_reply() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.start_ms == 1500:
            session.emit(Decided(1600, Decision.SPEAK))
            session.speak("u1", 2.0, after_s=1.0)

    result = run(QUESTION, FakeEngine(on_unit), [TimedCommand(2000, Interrupt()), TimedCommand(2100, Interrupt())])
    assert result.engine.session.interrupts == [""]
    assert result.states() == ["listening", "thinking", "listening"]
    assert max(result.loudness()) == 0
    assert result.all(ev.UtteranceEnded) == []


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


class Crowded(MemoryRoom):
    """Several people speak: each its own second."""

    def speaker(self, start_ms: int, end_ms: int) -> str | None:
        return {0: "alice", 1: "bob"}.get(start_ms // 1000)


def test_a_room_with_several_people_names_who_spoke_and_typed() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.start_ms in (500, 1500, 2500):
            session.hear("hello", start_ms=unit.start_ms)

    typed = [TimedCommand(3000, TypeText("And I?", "carol")), TimedCommand(3100, TypeText("And I?"))]
    result = run(QUESTION, FakeEngine(on_unit), typed, made=Crowded)
    assert [event.speaker for event in result.all(ev.UserText)] == ["alice", "bob", "user", "carol", "user"]


class LeftAlone(MemoryRoom):
    """Somebody on the telephone, in the first second with a page beside it that reports playback."""

    @property
    def acknowledges(self) -> bool:
        return len(self.agent_audio) < OUTPUT_HZ


def test_once_the_page_has_left_nobody_waits_for_its_reports() -> None:
    silent = MemoryRoomOptions(ack_delay_ms=None)
    result = run(QUESTION, FakeEngine(answering(1400, 2.0)), room=silent, made=LeftAlone)
    sent, heard = ([event for event in result.all(ev.Playout) if event.state == state] for state in ("sent", "heard"))
    assert heard[0].at_ms - sent[0].at_ms < 500
    assert all(event.estimated for event in heard)


def test_an_engine_that_does_not_see_is_given_no_pictures() -> None:
    class Seeing(MemoryRoom):
        looks = 0

        def latest_frame(self) -> Frame | None:
            self.looks += 1
            return None

    looks: list[int] = []
    for modalities in (("audio",), ("audio", "video")):
        engine = FakeEngine()
        engine.modalities = frozenset(modalities)  # pyright: ignore[reportAttributeAccessIssue]
        room = run(QUESTION, engine, made=Seeing).room
        assert isinstance(room, Seeing)
        looks.append(room.looks)
    assert looks[0] == 0
    assert looks[1] > 0


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
