"""The threads of a session, with parts that hold still until the test lets them go."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from realtime_venus.engines.base import EngineError, Language
from realtime_venus.engines.cascade.clauses import ClauseOptions
from realtime_venus.engines.cascade.endpoint import Purpose
from realtime_venus.engines.cascade.parts import Message, Transcript, TurnDetector
from realtime_venus.engines.cascade.reply import Finished, Piece, Reply, Script
from realtime_venus.engines.cascade.workers import (
    Aside,
    Broken,
    Judged,
    Prefilled,
    Prepared,
    Recognised,
    Report,
    Took,
    Workers,
    slot_of,
)

from ...kit.cascade import DEADLINE_S, Gate, Hears, Surely, Tone, Words

SECOND = np.zeros(16_000, np.float32)
PROMPT = [Message("user", "What's the fastest")]


class Breaks:
    """A turn detector with a mistake in it."""

    def probability(self, audio: object) -> float:
        raise ZeroDivisionError("boom")


class Crew:
    """Workers under test and what they report."""

    def __init__(
        self, *, hears: Hears | None = None, turns: TurnDetector | None = None, model: Words | None = None
    ) -> None:
        self.reports: queue.Queue[Report] = queue.Queue()
        self.model = model or Words("Hello", " there.")
        self.took: list[Took] = []
        self.workers = Workers(hears or Hears(), turns or Surely(), self.model, 1, self.post)

    def post(self, report: Report) -> None:
        """Durations are kept apart: when they come is of no interest."""
        if isinstance(report, Took):
            self.took.append(report)
        else:
            self.reports.put(report)

    def next(self) -> Report:
        return self.reports.get(timeout=DEADLINE_S)

    def reply(self, voice: Tone | None = None, *, generation: int = 5) -> Reply:
        return Reply(
            generation,
            voice or Tone(),
            None,
            self.post,
            options=ClauseOptions(),
            pause_for_voice=False,
        )

    def rest(self) -> list[Report]:
        left: list[Report] = []
        while not self.reports.empty():
            left.append(self.reports.get_nowait())
        return left


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("venus-")}


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew()
    yield made
    made.workers.close()


def asked(text: str = "") -> Script:
    return Script(Language.EN, PROMPT, text)


def test_a_transcript_comes_back_with_its_job(crew: Crew) -> None:
    crew.workers.recognise(4, Purpose.FINAL, SECOND, 2500, Language.ZH)
    assert crew.next() == Recognised(4, Purpose.FINAL, 2500, 1.0, Transcript("Hello.", Language.ZH, 0.9))


def test_the_words_of_a_remark_come_back_with_their_span(crew: Crew) -> None:
    crew.workers.aside(SECOND, 100, 1100, None)
    assert crew.next() == Aside(100, 1100, Transcript("Hello.", Language.EN, 0.9))


def test_the_turn_is_judged(crew: Crew) -> None:
    crew.workers.judge(9, SECOND)
    assert crew.next() == Judged(9, 0.95)


def test_a_prompt_is_prefilled_in_the_slot_of_the_session_and_language(crew: Crew) -> None:
    crew.workers.prefill(lambda: PROMPT, Language.ZH, lambda: False)
    assert crew.next() == Prefilled()
    assert crew.model.prefilled == [(slot_of(1, Language.ZH), tuple(PROMPT))]


def test_a_chosen_voice_is_made_ready(crew: Crew) -> None:
    done: list[str] = []
    crew.workers.prepare(lambda: done.append("ready"))
    assert crew.next() == Prepared()
    assert done == ["ready"]


def test_a_prefill_that_nobody_wants_any_more_is_not_begun(crew: Crew) -> None:
    crew.workers.prefill(lambda: PROMPT, Language.ZH, lambda: True)
    assert crew.next() == Prefilled()
    assert crew.model.prefilled == []


def test_a_stale_partial_transcript_is_dropped_when_a_final_one_is_asked_for() -> None:
    gate = Gate()
    crew = Crew(hears=Hears(gate=gate))
    crew.workers.recognise(1, Purpose.PARTIAL, SECOND, 1000, None)
    gate.reached()
    crew.workers.recognise(2, Purpose.FINAL, SECOND, 1200, None)
    gate.open()
    found = {report.job: report.transcript for report in (crew.next(), crew.next()) if isinstance(report, Recognised)}
    crew.workers.close()
    assert found[1] is None
    assert found[2] is not None


def test_a_partial_transcript_is_kept_when_only_another_partial_one_follows() -> None:
    gate = Gate()
    crew = Crew(hears=Hears(gate=gate))
    crew.workers.recognise(1, Purpose.PARTIAL, SECOND, 1000, None)
    gate.reached()
    crew.workers.recognise(2, Purpose.PARTIAL, SECOND, 1200, None)
    gate.open()
    found = [report.transcript for report in (crew.next(), crew.next()) if isinstance(report, Recognised)]
    crew.workers.close()
    assert None not in found


def test_a_reply_is_written_and_spoken(crew: Crew) -> None:
    crew.workers.reply(crew.reply(), asked, 50)
    piece = crew.next()
    assert isinstance(piece, Piece)
    assert (piece.clause, piece.generation) == ("Hello there.", 5)
    assert crew.next() == Finished(5, "Hello there.")
    assert (crew.model.asked[0].slot, crew.model.asked[0].max_tokens) == (slot_of(1, Language.EN), 50)


def test_a_reply_cancelled_before_its_turn_asks_nothing_of_the_model_and_the_next_one_is_spoken(crew: Crew) -> None:
    first = crew.reply(generation=1)
    first.cancel()
    crew.workers.reply(first, asked, 50)
    crew.workers.reply(crew.reply(generation=2), lambda: asked("Good morning."), 50)
    assert [report.generation for report in (crew.next(), crew.next()) if isinstance(report, Piece | Finished)] == [
        2,
        2,
    ]
    assert crew.model.asked == []


def test_a_reply_cancelled_in_the_middle_makes_room_for_the_next() -> None:
    gate = Gate()
    crew = Crew(model=Words("Hello", " there", " you", gate=gate, gate_at=1))
    first = crew.reply(generation=1)
    crew.workers.reply(first, asked, 50)
    gate.reached()
    first.cancel()
    crew.workers.reply(crew.reply(generation=2), lambda: asked("Good morning."), 50)
    gate.open()
    reports = [crew.next(), crew.next()]
    crew.workers.close()
    assert [report.generation for report in reports if isinstance(report, Piece | Finished)] == [2, 2]
    assert crew.model.given == 2


@pytest.mark.parametrize("purpose", list(Purpose))
def test_a_recogniser_that_raises_is_reported(purpose: Purpose) -> None:
    boom = EngineError("no memory")
    crew = Crew(hears=Hears(error=boom))
    crew.workers.recognise(1, purpose, SECOND, 1000, None)
    assert crew.next() == Broken("asr", -1, boom)
    crew.workers.aside(SECOND, 0, 1000, None)
    assert crew.next() == Broken("asr", -1, boom)
    crew.workers.close()


def test_a_turn_detector_that_raises_is_reported() -> None:
    crew = Crew(turns=Breaks())
    crew.workers.judge(1, SECOND)
    broken = crew.next()
    crew.workers.close()
    assert isinstance(broken, Broken)
    assert (broken.work, broken.generation, type(broken.error)) == ("turn", -1, ZeroDivisionError)


def test_a_prompt_that_cannot_be_made_is_reported(crew: Crew) -> None:
    def broken_prompt() -> list[Message]:
        raise KeyError("boom")

    crew.workers.prefill(broken_prompt, Language.EN, lambda: False)
    broken = crew.next()
    assert isinstance(broken, Broken)
    assert (broken.work, broken.generation) == ("llm", -1)


def test_a_model_that_raises_ends_its_reply_and_the_next_one_is_spoken() -> None:
    crew = Crew(model=Words("Hello", error=RuntimeError("boom")))
    crew.workers.reply(crew.reply(generation=1), asked, 50)
    broken = crew.next()
    assert isinstance(broken, Broken)
    assert (broken.work, broken.generation) == ("llm", 1)
    crew.workers.reply(crew.reply(generation=2), lambda: asked("Good morning."), 50)
    kinds = [type(crew.next()), type(crew.next())]
    crew.workers.close()
    assert kinds == [Piece, Finished]


def test_a_script_that_cannot_be_made_ends_its_reply(crew: Crew) -> None:
    def broken_script() -> Script:
        raise KeyError("boom")

    reply = crew.reply()
    crew.workers.reply(reply, broken_script, 50)
    broken = crew.next()
    assert isinstance(broken, Broken)
    assert (broken.work, broken.generation) == ("llm", 5)
    assert reply.cancelled


def test_a_voice_that_raises_is_reported_as_broken_and_not_as_finished() -> None:
    crew = Crew()
    crew.workers.reply(crew.reply(Tone(error=RuntimeError("boom"))), asked, 50)
    broken = crew.next()
    crew.workers.close()
    assert isinstance(broken, Broken)
    assert (broken.work, broken.generation) == ("voice", 5)
    assert crew.rest() == []


def test_close_waits_for_what_runs_and_leaves_no_thread() -> None:
    before = threads()
    gate = Gate()
    crew = Crew(hears=Hears(gate=gate))
    crew.workers.recognise(1, Purpose.FINAL, SECOND, 1000, None)
    crew.workers.judge(1, SECOND)
    gate.reached()
    closing = threading.Thread(target=crew.workers.close)
    closing.start()
    assert closing.is_alive()
    gate.open()
    closing.join(DEADLINE_S)
    assert not closing.is_alive()
    assert any(isinstance(report, Recognised) for report in crew.rest())
    assert threads() <= before


def test_what_does_not_end_in_time_is_left_to_itself_and_named(caplog: pytest.LogCaptureFixture) -> None:
    before = threads()
    gate = Gate()
    crew = Crew(model=Words(gate=gate))
    crew.workers.prefill(lambda: PROMPT, Language.ZH, lambda: False)
    gate.reached()
    with caplog.at_level(logging.WARNING):
        crew.workers.close(0.0)
    (told,) = caplog.records
    assert vars(told)["work"] == ["llm"]
    gate.open()
    assert crew.next() == Prefilled()
    crew.workers.close()
    assert len(caplog.records) == 1
    assert threads() <= before


def test_close_lets_a_reply_go_whose_text_was_never_begun() -> None:
    gate = Gate()
    crew = Crew(model=Words("Hello", gate=gate))
    crew.workers.prefill(lambda: PROMPT, Language.ZH, lambda: False)
    gate.reached()
    crew.workers.reply(crew.reply(), asked, 50)  # its voice waits already, its text stands in line
    closing = threading.Thread(target=crew.workers.close, daemon=True)
    closing.start()
    gate.open()
    closing.join(DEADLINE_S)
    assert not closing.is_alive()
    assert not isinstance(crew.reports.get_nowait(), Broken)


def test_close_may_be_called_repeatedly(crew: Crew) -> None:
    crew.workers.close()
    crew.workers.close()
