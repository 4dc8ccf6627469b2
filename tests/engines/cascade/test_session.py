"""A session around a real conductor and real threads, with parts that answer at once."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from realtime_venus.engines.base import (
    Changes,
    EngineError,
    EngineEvent,
    Language,
    MediaUnit,
    OverlapPhase,
    SessionOptions,
    Speech,
    Text,
    Trouble,
    TurnEnded,
    UnitDone,
    Unsupported,
)
from realtime_venus.engines.cascade.clauses import ClauseOptions
from realtime_venus.engines.cascade.conductor import Conductor
from realtime_venus.engines.cascade.dialogue import Dialogue
from realtime_venus.engines.cascade.ear import PATIENCE_MS, Ear
from realtime_venus.engines.cascade.reply import Reply
from realtime_venus.engines.cascade.session import INBOX, CascadeSession
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.cascade.tts.voices import VoiceBook, VoiceEntry
from realtime_venus.engines.cascade.workers import Report, Workers
from realtime_venus.engines.outbox import UNREAD

from ...kit.cascade import DEADLINE_S, Gate, Hears, KnowsAll, Surely, Tone, Words
from ...kit.sessions import Loud

SETTINGS = CascadeSettings()


class Stuck(Loud):
    """A detector that does not come back until the gate is opened."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def push(self, samples: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[float]:
        self._gate.hold()
        return super().push(samples)


class Faulty(Loud):
    def push(self, samples: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[float]:
        raise ZeroDivisionError("boom")


def _untimed(event: EngineEvent) -> EngineEvent:
    """The event without its durations, which depend on the machine; in which unit work ends does too."""
    return replace(event, timings={}) if isinstance(event, UnitDone) else event


class Opened:
    """A session under test; ``closed`` counts how often it said that it was over."""

    def __init__(
        self,
        *,
        detector: Loud | None = None,
        model: Words | None = None,
        fast: bool = False,
        unread: int = UNREAD,
        close_s: float = DEADLINE_S,
    ) -> None:
        self.closed = 0
        self.model = model or Words("The", " cheetah.")
        voices = VoiceBook([VoiceEntry(language, "tone", Tone()) for language in Language])
        dialogue = Dialogue(SessionOptions(), SETTINGS, voices, KnowsAll())

        def build(emit: Callable[[EngineEvent], None], workers: Workers, post: Callable[[Report], None]) -> Conductor:
            def reply(generation: int, language: Language) -> Reply:
                return Reply(generation, Tone(), None, post, options=ClauseOptions(), pause_for_voice=False)

            return Conductor(Ear(detector or Loud()), dialogue, workers, emit, reply, SETTINGS, fast=fast)

        def over() -> None:
            self.closed += 1

        self.session = CascadeSession(
            build, lambda post: Workers(Hears(), Surely(), self.model, 0, post), dialogue, 100, over, unread, close_s
        )
        self.events = self.session.events()

    async def until(self, kind: type[EngineEvent]) -> list[EngineEvent]:
        """The events up to the first one of ``kind``."""
        seen: list[EngineEvent] = []
        async with asyncio.timeout(DEADLINE_S):
            async for event in self.events:
                seen.append(_untimed(event))
                if isinstance(event, kind):
                    return seen
        raise AssertionError(f"no {kind.__name__} came: {seen}")

    async def rest(self) -> list[EngineEvent]:
        """What comes until the stream ends by itself."""
        async with asyncio.timeout(DEADLINE_S):
            return [_untimed(event) async for event in self.events]


CALM_UNITS = PATIENCE_MS // 100
"""Silent units after which the voice detector has been asked."""


def unit(index: int, samples: int = 1600) -> MediaUnit:
    return MediaUnit(index, index * 100, np.zeros(samples, np.float32))


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("venus-")}


async def test_units_are_taken_in_order_and_reported() -> None:
    opened = Opened()
    for index in range(3):
        opened.session.push(unit(index))
    for index in range(3):
        assert (await opened.until(UnitDone))[-1] == UnitDone((index + 1) * 100, index)
    await opened.session.close()


async def test_a_unit_out_of_order_or_of_another_length_is_refused_and_nothing_is_lost() -> None:
    opened = Opened()
    with pytest.raises(ValueError, match="unit 1 out of order: expected 0"):
        opened.session.push(unit(1))
    with pytest.raises(ValueError, match="1600 samples"):
        opened.session.push(unit(0, samples=1599))
    with pytest.raises(ValueError, match="1600 samples"):
        opened.session.push(MediaUnit(0, 0, np.zeros((1600, 2), np.float32)))
    opened.session.push(unit(0))
    with pytest.raises(ValueError, match="unit 0 out of order: expected 1"):
        opened.session.push(unit(0))
    await opened.until(UnitDone)
    await opened.session.close()


async def test_typed_text_is_answered_and_a_line_is_said() -> None:
    opened = Opened()
    opened.session.type("  What's the fastest land animal? ")
    events = await opened.until(TurnEnded)
    assert [event.text for event in events if isinstance(event, Text)] == ["The cheetah."]
    assert opened.model.asked[0].messages[-1].content == "What's the fastest land animal?"
    (speech,) = [event for event in events if isinstance(event, Speech)]
    opened.session.heard(speech.utterance_id, len(speech.pcm))
    opened.session.say("Good morning.")
    events = await opened.until(TurnEnded)
    assert [event.text for event in events if isinstance(event, Text)] == ["Good morning."]
    assert len(opened.model.asked) == 1
    await opened.session.close()


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_empty_text_is_no_turn(text: str) -> None:
    opened = Opened()
    opened.session.type(text)
    opened.session.say(text)
    opened.session.push(unit(0))
    assert await opened.until(UnitDone) == [UnitDone(100, 0)]
    await opened.session.close()


async def test_endless_text_is_refused_with_a_word_and_the_session_goes_on() -> None:
    opened = Opened()
    for too_long in (opened.session.type, opened.session.say):
        with pytest.raises(EngineError, match="at most 1000 characters"):
            too_long("why " * 100_000)
    opened.session.type("why?")
    await opened.until(TurnEnded)
    assert [asked.messages[-1].content for asked in opened.model.asked] == ["why?"]
    await opened.session.close()


async def test_what_it_cannot_do_is_refused() -> None:
    opened = Opened()
    with pytest.raises(Unsupported):
        opened.session.inject("the weather is fine")
    with pytest.raises(ValueError, match="unknown voice 'nobody'"):
        opened.session.configure(Changes(voice="nobody"))
    with pytest.raises(ValueError, match="not a snapshot"):
        opened.session.restore(b"\xff\xfe")
    await opened.session.close()


async def test_a_conversation_goes_on_in_another_session() -> None:
    first = Opened()
    first.session.type("Hello there")
    await first.until(TurnEnded)
    first.session.interrupt("u1")
    first.session.overlap(OverlapPhase.ENDED, 0)
    first.session.push(unit(0))
    await first.until(UnitDone)
    kept = first.session.snapshot()
    await first.session.close()
    second = Opened()
    second.session.restore(kept)
    second.session.type("And you?")
    await second.until(TurnEnded)
    assert "Hello there" in [message.content for message in second.model.asked[0].messages]
    await second.session.close()


async def test_the_events_are_given_once() -> None:
    opened = Opened()
    with pytest.raises(EngineError, match="once"):
        opened.session.events()
    await opened.session.close()


async def test_the_events_end_after_close_even_for_one_who_waits() -> None:
    opened = Opened()
    waiting = asyncio.ensure_future(opened.rest())
    await asyncio.sleep(0)
    await opened.session.close()
    assert await waiting == []


async def test_what_was_told_before_close_is_still_given() -> None:
    opened = Opened()
    opened.session.push(unit(0))
    await opened.until(UnitDone)
    await opened.session.close()
    opened.session.push(unit(1))
    assert await opened.rest() == []


async def test_close_may_be_called_repeatedly_and_by_several_tasks() -> None:
    before = threads()
    opened = Opened()
    await asyncio.gather(*(opened.session.close() for _ in range(3)))
    await opened.session.close()
    assert opened.closed == 1
    assert not {thread for thread in threads() - before if not thread.name.startswith("venus-close")}


async def test_every_caller_of_close_waits_for_the_end_and_one_who_gives_up_stops_nothing() -> None:
    gate = Gate()
    opened = Opened(model=Words("The", " cheetah.", gate=gate))
    opened.session.type("What's the fastest land animal?")
    await asyncio.to_thread(gate.reached)
    impatient, patient = asyncio.ensure_future(opened.session.close()), asyncio.ensure_future(opened.session.close())
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert not patient.done()
    assert opened.closed == 0
    gate.open()
    async with asyncio.timeout(DEADLINE_S):
        await patient
    assert opened.closed == 1
    assert [event for event in await opened.rest() if isinstance(event, Speech)] == []


async def test_close_does_not_wait_for_a_call_that_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    opened = Opened(model=Words("The", " cheetah.", gate=gate), close_s=0.05)
    opened.session.type("What's the fastest land animal?")
    await asyncio.to_thread(gate.reached)
    with caplog.at_level(logging.WARNING):
        await opened.session.close()
    assert opened.closed == 1
    assert "left to itself" in caplog.text
    gate.open()
    assert [event for event in await opened.rest() if isinstance(event, Speech)] == []


def test_it_can_be_closed_from_another_loop() -> None:
    opened = Opened()

    async def listen(begun: threading.Event) -> list[EngineEvent]:
        begun.set()
        return await opened.rest()

    begun, got = threading.Event(), list[list[EngineEvent]]()
    listener = threading.Thread(target=lambda: got.append(asyncio.run(listen(begun))))
    listener.start()
    assert begun.wait(DEADLINE_S)
    asyncio.run(opened.session.close())
    listener.join(DEADLINE_S)
    assert got == [[]]


async def test_a_conductor_that_breaks_ends_the_session_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    opened = Opened(detector=Faulty())
    with caplog.at_level(logging.ERROR):
        for index in range(CALM_UNITS):
            opened.session.push(unit(index))
        events = await opened.rest()
    assert [(event.code, event.fatal) for event in events if isinstance(event, Trouble)] == [("engine.broken", True)]
    assert "broke" in caplog.text
    await opened.session.close()
    assert opened.closed == 1


async def test_an_engine_that_takes_nothing_more_ends_the_session_with_a_word() -> None:
    gate = Gate()
    opened = Opened(detector=Stuck(gate))
    for index in range(CALM_UNITS):
        opened.session.push(unit(index))
    await asyncio.to_thread(gate.reached)
    for index in range(CALM_UNITS, CALM_UNITS + INBOX + 1):
        opened.session.push(unit(index))
    *taken, trouble = await opened.rest()
    assert len(taken) == CALM_UNITS - 1
    assert isinstance(trouble, Trouble)
    assert (trouble.code, trouble.fatal) == ("engine.stalled", True)
    gate.open()
    await opened.session.close()
    assert opened.closed == 1


async def test_a_session_that_nobody_reads_ends_with_an_error() -> None:
    opened = Opened(unread=3)
    for index in range(5):
        opened.session.push(MediaUnit(index, index * 100, np.zeros(1600, np.float32)))
    for thread in threading.enumerate():  # it may have ended already
        if thread.name == "venus-conductor":
            await asyncio.to_thread(thread.join, DEADLINE_S)
    *before, last = [event async for event in opened.events]
    assert len(before) == 3
    assert isinstance(last, Trouble)
    assert (last.code, last.fatal) == ("engine.unread", True)
    await opened.session.close()
    assert opened.closed == 1
