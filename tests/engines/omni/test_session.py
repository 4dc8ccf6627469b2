"""A session around a scripted core: what comes in, what goes out, and in which order.

The engine's thread is a list of steps that the test works off, so nothing here depends on timing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from realtime_venus.engines.base import (
    Changes,
    Decided,
    Decision,
    DelegateClosed,
    DelegateOpened,
    DelegateRejected,
    DelegateText,
    EngineError,
    EngineEvent,
    Frame,
    Language,
    MediaUnit,
    Overlap,
    OverlapPhase,
    Speech,
    Text,
    Trouble,
    TurnEnded,
    UnitDone,
    Unsupported,
    Verdict,
)
from realtime_venus.engines.omni import session as module
from realtime_venus.engines.omni.kv import Full
from realtime_venus.engines.omni.pieces import Piece, PrivatePiece, SpeechPiece, TextPiece
from realtime_venus.engines.outbox import Outbox
from realtime_venus.engines.protocol import Close, Hide, Open, Reason, Reject

from ...kit.omni_session import Stage, end, listens, of, says

# -- speaking and listening ----------------------------------------------------------------------------------------


async def test_a_turn_over_two_units() -> None:
    stage = Stage(listens, says("Good ", "day", 24_000), says(" to you.", 24_000, 4800, turn=True))
    stage.units(4)
    events = await stage.told()
    assert [(type(event), event.at_ms) for event in events] == [
        (UnitDone, 1000),
        (Decided, 2000), (Text, 2000), (Speech, 2000), (UnitDone, 2000),
        (Text, 3000), (Speech, 3000), (Speech, 3000), (TurnEnded, 3000), (Decided, 3000), (UnitDone, 3000),
        (UnitDone, 4000),
    ]  # fmt: skip
    speech = [event for event in events if isinstance(event, Speech)]
    assert [event.first_sample for event in speech] == [0, 24_000, 48_000]
    assert all(event.pcm.dtype == np.int16 and event.utterance_id == "u1" for event in speech)
    assert "".join(event.text for event in events if isinstance(event, Text)) == "Good day to you."
    assert [event.decision for event in events if isinstance(event, Decided)] == [Decision.SPEAK, Decision.LISTEN]
    done = of(events, UnitDone)[0]
    assert isinstance(done, UnitDone)
    assert set(done.timings) == {"prefill", "generate", "text", "speech"}


async def test_units_reach_the_core_as_they_are_and_in_order() -> None:
    stage = Stage()
    stage.push(3)
    stage.work()
    assert [feed["audio"][0] for feed in stage.core.fed] == [0, 1, 2]
    assert [feed["at_ms"] for feed in stage.core.fed] == [0, 1000, 2000]
    assert {feed["max_slices"] for feed in stage.core.fed} == {2}
    await stage.told()


async def test_a_unit_out_of_order_or_of_another_length_is_refused() -> None:
    stage = Stage()
    with pytest.raises(ValueError, match="out of order: expected 0"):
        stage.session.push(MediaUnit(1, 1000, np.zeros(16_000, np.float32)))
    with pytest.raises(ValueError, match="16000 samples"):
        stage.session.push(MediaUnit(0, 0, np.zeros(1600, np.float32)))
    await stage.told()


async def test_a_listening_unit_ends_a_turn_that_was_open() -> None:
    stage = Stage(says("Well", 2400), listens)
    stage.units(2)
    events = await stage.told()
    assert [type(event) for event in events[-4:]] == [Text, TurnEnded, Decided, UnitDone]


async def test_a_second_of_zeros_is_nobodys_speech() -> None:
    def silent() -> Iterator[Piece]:
        yield SpeechPiece(np.zeros(24_000, np.float32))
        yield end(listen=True)

    stage = Stage(silent)
    stage.units()
    assert [type(event) for event in await stage.told()] == [UnitDone]


async def test_private_requests_are_told_and_never_shown_or_voiced() -> None:
    asks = says(PrivatePiece(Open()), PrivatePiece(Hide("what ")), PrivatePiece(Hide("time")), turn=False)
    closes = says(PrivatePiece(Close("what time")), turn=True)
    rejects = says(PrivatePiece(Open()), PrivatePiece(Reject(Reason.EMPTY)), turn=True)
    stage = Stage(asks, closes, rejects)
    stage.units(3)
    events = await stage.told()
    assert of(events, DelegateOpened, DelegateText, DelegateClosed, DelegateRejected) == [
        DelegateOpened(1000, "d1"),
        DelegateText(1000, "d1", "what "),
        DelegateText(1000, "d1", "time"),
        DelegateClosed(2000, "d1", "what time"),
        DelegateOpened(3000, "d2"),
        DelegateRejected(3000, "d2", "empty"),
    ]
    assert not of(events, Text, Speech, TurnEnded)


async def test_only_the_newest_picture_is_looked_at_and_a_broken_one_is_left_out() -> None:
    stage = Stage(sees=True)
    old, new = (Frame(np.full((4, 6, 3), value, np.uint8), value) for value in (1, 2))
    stage.push(1, old, new)
    for shape in ((4, 6), (4, 6, 4), (0, 6, 3), (2, 202, 3), (10_000, 10_001, 3)):
        stage.push(1, Frame(np.broadcast_to(np.zeros((), np.uint8), shape), 0))
    events = await stage.told()
    assert [len(feed["frames"]) for feed in stage.core.fed] == [1, 0, 0, 0, 0, 0]
    assert stage.core.fed[0]["frames"][0][0, 0, 0] == 2
    troubles = [event for event in events if isinstance(event, Trouble)]
    assert [(event.code, event.fatal) for event in troubles] == [("frame.unreadable", False)] * 5
    assert "at most 1 : 100" in troubles[3].message
    assert "at most 100 are" in troubles[4].message
    assert len(of(events, UnitDone)) == 6
    blind = Stage()
    blind.push(1, new)
    await blind.told()
    assert blind.core.fed[0]["frames"] == ()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
async def test_samples_that_are_no_numbers_are_silence(wrong: float) -> None:
    stage = Stage()
    audio = np.full(16_000, 0.5, np.float32)
    audio[100:103] = wrong
    stage.session.push(MediaUnit(0, 0, audio))
    stage.index = 1
    stage.push()
    events = await stage.told()
    heard = stage.core.fed[0]["audio"]
    assert (heard.dtype, heard[100:103].tolist(), heard[103], heard[99]) == (np.float32, [0, 0, 0], 0.5, 0.5)
    (trouble,) = (event for event in events if isinstance(event, Trouble))
    assert (trouble.code, trouble.fatal) == ("audio.unreadable", False)
    assert trouble.message.startswith("3 samples")
    assert len(of(events, UnitDone)) == 2


# -- speech over the agent -----------------------------------------------------------------------------------------


async def verdicts(stage: Stage) -> list[tuple[int, Verdict, str]]:
    events = await stage.told()
    return [(event.at_ms, event.verdict, event.kind) for event in events if isinstance(event, Overlap)]


async def test_while_an_overlap_lasts_every_unit_gives_a_verdict() -> None:
    goes = says("a ", 24_000)
    stage = Stage(goes, goes, goes, says("b", 4800, turn=True), listens)
    stage.units()
    stage.session.overlap(OverlapPhase.STARTED, 1200)
    stage.units(4)
    assert await verdicts(stage) == [
        (2000, Verdict.GO_ON, "speak"),
        (3000, Verdict.GO_ON, "speak"),
        (4000, Verdict.YIELD, "turn_eos"),
    ]


async def test_listening_under_an_overlap_yields_what_still_plays() -> None:
    stage = Stage(says("a", 24_000, turn=True), listens)
    stage.units()
    stage.session.overlap(OverlapPhase.STARTED, 1100)
    stage.units()
    assert await verdicts(stage) == [(2000, Verdict.YIELD, "listen")]


async def test_a_unit_that_ended_before_the_overlap_says_nothing_of_it() -> None:
    stage = Stage(says("a ", 24_000), says("a ", 24_000))
    stage.push()
    stage.session.overlap(OverlapPhase.STARTED, 1000)
    stage.work()
    stage.units()
    assert await verdicts(stage) == [(2000, Verdict.GO_ON, "speak")]


async def test_an_overlap_that_is_over_is_judged_by_the_unit_it_lay_in_and_no_other() -> None:
    stage = Stage(*[says("a ", 24_000)] * 3)
    stage.units()
    stage.session.overlap(OverlapPhase.STARTED, 1200)
    stage.session.overlap(OverlapPhase.ENDED, 1500)
    stage.units(2)
    assert await verdicts(stage) == [(2000, Verdict.GO_ON, "speak")]


async def test_speech_over_nothing_has_no_verdict() -> None:
    stage = Stage()
    stage.session.overlap(OverlapPhase.STARTED, 100)
    stage.units(2)
    assert await verdicts(stage) == []


# -- interruption --------------------------------------------------------------------------------------------------


async def test_interrupted_in_the_middle_of_a_unit_nothing_more_is_heard_and_the_context_is_closed() -> None:
    stage = Stage()

    def talks() -> Iterator[Piece]:
        yield SpeechPiece(np.ones(2400, np.float32))
        stage.session.interrupt("u1")
        yield SpeechPiece(np.ones(4800, np.float32))
        yield TextPiece("more")
        yield end()

    stage.core.scripts.extend([talks, says("New", 240, turn=True)])
    stage.units(3)
    events = await stage.told()
    assert stage.core.broken == 2  # once when it was interrupted, once when it was closed
    assert of(events, Speech, Text, TurnEnded)[:2] == [of(events, Speech)[0], TurnEnded(1000, "u1", 2400)]
    assert stage.core.forced == [False, True, False]
    later = of(events, Speech)[1:]
    assert [(event.utterance_id, event.at_ms) for event in later if isinstance(event, Speech)] == [("u2", 3000)]


async def test_interrupted_between_units_the_turn_ends_at_once() -> None:
    stage = Stage(says("a", 2400), says("b", 2400))
    stage.units()
    stage.session.interrupt("u1")
    stage.units()
    events = await stage.told()
    assert [event for event in events if isinstance(event, TurnEnded)] == [TurnEnded(1000, "u1", 2400)]
    assert stage.core.forced == [False, True]


async def test_an_interruption_overtakes_the_units_that_wait() -> None:
    stage = Stage(says("a", 2400))
    stage.units()
    stage.push(2)
    stage.session.interrupt("u1")
    stage.work()
    assert stage.core.forced == [False, True, False]
    await stage.told()


async def test_what_is_typed_after_an_interruption_is_answered_and_not_silenced_with_the_turn() -> None:
    """The next second closes the turn that was given up; the question and waiting results come behind it."""
    stage = Stage(says("a", 2400), says("Answer", 240, turn=True))
    stage.units()
    stage.session.interrupt("u1")
    stage.session.type("and why?")
    stage.session.inject("a result")
    stage.work()
    assert stage.core.forced == [False]
    stage.units()
    assert stage.core.forced == [False, True, False]
    assert [feed["text"] for feed in stage.core.fed] == [None, None, "and why?"]
    assert stage.core.injected == []
    stage.units()
    assert stage.core.injected == ["a result"]
    events = await stage.told()
    assert [event.text for event in events if isinstance(event, Text)] == ["a", "Answer"]


async def test_an_empty_name_means_whatever_is_being_said_or_thought_of() -> None:
    stage = Stage(says(PrivatePiece(Open())), says("a", 240))
    stage.units()
    stage.session.interrupt("")
    stage.units(2)
    assert stage.core.forced == [False, True, False]
    await stage.told()


@pytest.mark.parametrize("name", ["", "u1", "u7"])
async def test_an_interruption_of_nothing_does_nothing(name: str) -> None:
    stage = Stage(says("a", 240, turn=True), listens, says("b", 240, turn=True))
    stage.units()
    stage.session.interrupt(name)
    stage.units(2)
    events = await stage.told()
    assert stage.core.forced == [False, False, False]
    assert len(of(events, TurnEnded)) == 2


async def test_an_interruption_that_comes_too_late_cuts_no_new_turn() -> None:
    """The runtime gives up the first turn while the network is just ending it."""

    class Told(Outbox):
        def put(self, event: EngineEvent) -> None:
            super().put(event)
            if isinstance(event, TurnEnded) and event.utterance_id == "u1":
                stage.session.interrupt("u1")

    stage = Stage(says("a", 240, turn=True), says("b", 240, turn=True), outbox=Told())
    stage.units(2)
    events = await stage.told()
    assert stage.core.resumed == 1, "the break must not reach the next turn"
    assert stage.core.forced == [False, False]
    assert [event.utterance_id for event in events if isinstance(event, Speech)] == ["u1", "u2"]
    assert [event.utterance_id for event in events if isinstance(event, TurnEnded)] == ["u1", "u2"]


async def test_an_utterance_can_be_interrupted_as_soon_as_its_name_is_told() -> None:
    class Told(Outbox):
        def put(self, event: EngineEvent) -> None:
            super().put(event)
            if isinstance(event, Speech):
                stage.session.interrupt(event.utterance_id)

    stage = Stage(says(240, 480), outbox=Told())
    stage.units(2)
    events = await stage.told()
    assert [len(event.pcm) for event in events if isinstance(event, Speech)] == [240]
    assert stage.core.forced == [False, True]


async def test_units_pushed_from_two_threads_are_taken_once_each() -> None:
    stage = Stage()
    audio = np.zeros(16_000, np.float32)
    refused: list[int] = []

    def pushes() -> None:
        for index in range(100):
            try:
                stage.session.push(MediaUnit(index, index * 1000, audio))
            except ValueError:
                refused.append(index)

    threads = [threading.Thread(target=pushes) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stage.work()
    assert [feed["at_ms"] for feed in stage.core.fed] == [index * 1000 for index in range(len(stage.core.fed))]
    assert len(stage.core.fed) + len(refused) == 200
    await stage.told()


# -- text and results ----------------------------------------------------------------------------------------------


async def test_typed_text_is_a_unit_of_its_own() -> None:
    stage = Stage(says("Hello", 240, turn=True))
    stage.session.type("  Hi <unit> there ")
    stage.session.type("   ")
    events = await stage.told()
    assert [feed["text"] for feed in stage.core.fed] == ["Hi <unit> there"]
    assert [type(event) for event in events] == [Decided, Speech, Text, TurnEnded, Decided]


async def test_what_the_network_cannot_do_is_refused() -> None:
    stage = Stage()
    session = stage.session
    with pytest.raises(Unsupported, match="word for word"):
        session.say("Hello")
    for changes in (Changes(voice="x"), Changes(persona="x"), Changes(facts=("x",)), Changes(language=Language.EN)):
        with pytest.raises(Unsupported, match="when a session begins"):
            session.configure(changes)
    session.configure(Changes())
    session.configure(Changes(language="auto"))
    session.heard("u1", 100)
    for take in (session.type, session.inject):
        with pytest.raises(EngineError, match="at most 4000 characters"):
            take(" " + "x" * 4001)
        take("   ")
    assert await stage.told() == []
    assert stage.core.fed == []


async def test_a_text_that_no_room_can_be_made_for_is_refused_and_the_session_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(says("a", 240, turn=True))

    def full(*_: object, **__: object) -> None:
        raise Full("300 positions do not fit")

    with monkeypatch.context() as patched:
        patched.setattr(stage.core, "prefill", full)
        stage.session.type("long")
        stage.work()
    stage.units()
    events = await stage.told()
    troubles = [event for event in events if isinstance(event, Trouble)]
    assert [(event.code, event.fatal) for event in troubles] == [("text.too_long", False)]
    assert any(isinstance(event, Speech) for event in events)


def test_results_are_refused_where_the_network_knows_none() -> None:
    stage = Stage(takes_results=False)
    with pytest.raises(Unsupported, match="no <backend>"):
        stage.session.inject("one")


async def test_results_wait_for_an_idle_moment_and_come_one_by_one() -> None:
    stage = Stage(says("a", 240), says("b", 240, turn=True), says("first", 240, turn=True))
    stage.units()
    stage.session.inject("one")
    stage.session.inject("two")
    stage.units()
    assert stage.core.injected == []
    stage.units()
    assert stage.core.injected == ["one"]
    stage.units()
    assert stage.core.injected == ["one", "two"]
    events = await stage.told()
    assert [event.at_ms for event in events if isinstance(event, TurnEnded)] == [2000, 2000]


async def test_a_result_may_ride_with_the_next_unit_instead() -> None:
    stage = Stage()
    stage.core.inject_waits = True
    stage.session.inject("one")
    stage.units()
    assert (stage.core.injected, len(stage.core.forced)) == (["one"], 1)
    await stage.told()


async def test_too_many_results_are_refused() -> None:
    stage = Stage()
    for number in range(module.RESULTS + 1):
        stage.session.inject(str(number))
    events = await stage.told()
    assert [event.code for event in events if isinstance(event, Trouble)] == ["background.full"]
