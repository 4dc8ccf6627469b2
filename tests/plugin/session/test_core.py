"""Rules of the core that are easier to see without a room: words and times of single decisions."""

from __future__ import annotations

from realtime_venus.engines.base import (
    Changes,
    Decided,
    Decision,
    DelegateClosed,
    DelegateOpened,
    DelegateText,
    Heard,
    Language,
    Overlap,
    OverlapPhase,
    SessionOptions,
    Speech,
    Text,
    TurnEnded,
    UnitDone,
    Verdict,
)
from realtime_venus.plugin.playback import LedgerState, Moved, Resolved
from realtime_venus.plugin.reflex import OverDuck, OverEnded, OverHold
from realtime_venus.plugin.rooms.base import Interrupt
from realtime_venus.plugin.session import actions as act
from realtime_venus.plugin.session.core import SessionCore, SessionFacts
from realtime_venus.plugin.session.settings import SessionSettings
from realtime_venus.plugin.timeline import events as ev

from ...kit.fake_engine import ABLE, coded_voice


def at(ms: int) -> act.Now:
    return act.Now(ms, ms / 1000)


def core(settings: SessionSettings | None = None, *, fast: bool = False) -> SessionCore:
    facts = SessionFacts("s", "fake", "memory", 100, ABLE, SessionOptions(fast=fast), recording=False)
    made = SessionCore(facts, settings or SessionSettings())
    made.start(at(0))
    return made


def speaking(made: SessionCore, utterance_id: str = "u1", text: str = "one two") -> None:
    made.engine_event(Text(1000, utterance_id, text, 0, 4800), at(1000))
    made.engine_event(Speech(1000, utterance_id, 0, coded_voice(4800)), at(1000))
    made.ledger([Moved(1000, utterance_id, LedgerState.SENT, 0, 960)], at(1040))


def emitted(actions: list[act.Action]) -> list[ev.TimelineEvent]:
    return [action.event for action in actions if isinstance(action, act.Emit)]


def test_private_requests_appear_nowhere() -> None:
    made = core()
    for event in (DelegateOpened(0, "d"), DelegateText(0, "d", "secret"), DelegateClosed(0, "d", "secret")):
        assert made.engine_event(event, at(10)) == []


def test_the_users_words_keep_their_times() -> None:
    heard = Heard(1200, "hello", 300, 1000, final=True, language=Language.EN)
    (event,) = emitted(core().engine_event(heard, at(1250)))
    assert event == ev.UserText(
        at_ms=1200, text="hello", start_ms=300, end_ms=1000, final=True, language="en", typed=False, speaker="user"
    )


def test_thinking_ends_with_speech_or_with_listening() -> None:
    made = core()
    first = emitted(made.engine_event(Decided(900, Decision.SPEAK), at(900)))
    assert ev.AgentState(at_ms=900, state="thinking") in first
    second = emitted(made.engine_event(Decided(950, Decision.LISTEN), at(950)))
    assert ev.AgentState(at_ms=950, state="listening") in second


def test_stopping_a_reply_that_has_no_name_yet_gives_it_up() -> None:
    made = core()
    made.engine_event(Decided(900, Decision.SPEAK), at(900))
    actions = made.command(Interrupt(), at(950))
    assert actions == [act.TellInterrupt(""), act.Emit(ev.AgentState(at_ms=950, state="listening"))]
    assert made.command(Interrupt(), at(960)) == []


def test_stopping_what_has_a_name_stops_only_that() -> None:
    made = core()
    speaking(made)
    actions = made.command(Interrupt(), at(1100))
    assert [action for action in actions if isinstance(action, act.TellInterrupt)] == [act.TellInterrupt("u1")]


def test_stopping_while_nothing_is_going_on_does_nothing() -> None:
    assert core().command(Interrupt(), at(100)) == []


def test_the_default_voice_can_be_chosen_again() -> None:
    made = core()
    for voice, shown in (("hibari", "hibari"), (None, "hibari"), ("auto", "")):
        (event,) = emitted(made.done(act.TellConfigure(Changes(voice=voice)), at(10)))
        assert event == ev.SessionConfigured(at_ms=10, language="auto", voice=shown)


def test_a_cut_utterance_is_told_by_its_heard_words() -> None:
    made = core()
    speaking(made)
    actions = made.ledger([Resolved(1200, "u1", 2400, 4800, flushed=True)], at(1200))
    (ended,) = [event for event in emitted(actions) if isinstance(event, ev.UtteranceEnded)]
    assert (ended.heard_text, ended.heard_samples, ended.total_samples) == ("one", 2400, 4800)
    assert act.TellHeard("u1", 2400) in actions


def test_a_whole_utterance_is_heard_whole_even_if_its_spans_were_guessed_too_long() -> None:
    made = core()
    speaking(made)
    (ended,) = [
        event
        for event in emitted(made.ledger([Resolved(1300, "u1", 4000, 4000, flushed=False)], at(1300)))
        if isinstance(event, ev.UtteranceEnded)
    ]
    assert ended.heard_text == "one two"


def test_nothing_of_a_finished_utterance_is_taken_again() -> None:
    made = core()
    speaking(made)
    made.engine_event(Overlap(1100, "u1", Verdict.YIELD, "x", 1.0), at(1100))
    for event in (
        Text(1200, "u1", "more", 0, 1),
        Speech(1200, "u1", 4800, coded_voice(10)),
        Overlap(1200, "u1", Verdict.GO_ON, "x", 1.0),
        TurnEnded(1200, "u1", 4810),
    ):
        assert made.engine_event(event, at(1200)) == []


def test_duck_comes_before_the_engine_is_told() -> None:
    made = core()
    speaking(made)
    actions = made.signal(OverDuck(1500, 1420), "u1", at(1510))
    kinds = [type(action) for action in actions]
    assert kinds.index(act.Duck) < kinds.index(act.TellOverlap)
    assert act.TellOverlap(OverlapPhase.STARTED, 1420) in actions
    after = [event.after_ms for event in emitted(actions) if isinstance(event, ev.OverlapEvent)]
    assert after == [90, 90]


def test_signals_without_an_agent_to_talk_over_do_nothing() -> None:
    made = core()
    assert made.signal(OverDuck(1500, 1420), None, at(1510)) == []
    assert made.signal(OverHold(1500, 1420), None, at(1510)) == []
    assert made.signal(OverEnded(1500, 1420), None, at(1510)) == []


def test_hold_after_the_verdict_is_too_late() -> None:
    made = core()
    speaking(made)
    made.signal(OverDuck(1500, 1420), "u1", at(1510))
    made.engine_event(Overlap(1520, "u1", Verdict.GO_ON, "backchannel", 0.9), at(1520))
    assert made.signal(OverHold(1560, 1420), "u1", at(1560)) == []


def test_a_late_yield_still_yields() -> None:
    made = core()
    speaking(made)
    made.signal(OverDuck(1500, 1420), "u1", at(1500))
    made.tick(at(2300), pulled_frames=1, speech_waits=True)  # no verdict: go on
    actions = made.engine_event(Overlap(2400, "u1", Verdict.YIELD, "x", 1.0), at(2400))
    assert act.Flush("u1") in actions


def test_the_overlap_ends_with_its_utterance() -> None:
    made = core()
    speaking(made)
    made.signal(OverDuck(1500, 1420), "u1", at(1500))
    actions = made.ledger([Resolved(1600, "u1", 4800, 4800, flushed=False)], at(1600))
    assert act.Duck(on=False) in actions
    assert emitted(actions)[-1] == ev.AgentState(at_ms=1600, state="listening")
    assert emitted(made.tick(at(9000), pulled_frames=1, speech_waits=False)) == []


def test_units_that_get_done_reset_the_count_of_recoveries() -> None:
    made = core(SessionSettings(max_recoveries=1))
    for second in (0, 20, 40):
        made.pushed(0, at(second * 1000))
        actions = made.tick(at(second * 1000 + 10_000), pulled_frames=0, speech_waits=False)
        assert act.Recover("engine", 10_000) in actions
        made.pushed(0, at(second * 1000 + 10_000))
        made.engine_event(UnitDone(0, 0), at(second * 1000 + 11_000))


def test_it_ends_once() -> None:
    made = core()
    assert emitted(made.end("left", at(5))) == [ev.SessionEnded(at_ms=5, reason="left")]
    assert made.end("again", at(6)) == []


def test_a_replaced_engine_is_not_thinking_any_more() -> None:
    made = core()
    made.engine_event(Decided(500, Decision.SPEAK), at(500))
    made.pushed(0, at(600))
    actions = made.tick(at(60_000), pulled_frames=3000, speech_waits=False)
    assert any(isinstance(action, act.Recover) for action in actions)
    assert [event.state for event in emitted(actions) if isinstance(event, ev.AgentState)] == ["listening"]
