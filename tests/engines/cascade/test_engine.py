"""The engine: its places and its end with parts that answer at once, and what it says with the real models.

With the real models media time stands still while something is computed, so nothing here depends on the machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol, cast

import numpy as np
import pytest
import soxr
from realtime_venus.engines import catalog
from realtime_venus.engines.base import (
    INPUT_HZ,
    OUTPUT_HZ,
    Engine,
    EngineError,
    EngineEvent,
    EngineFull,
    EngineSession,
    FloatPcm,
    Int16Pcm,
    Language,
    SessionOptions,
    Text,
    Trouble,
    TurnEnded,
)
from realtime_venus.engines.cascade.asr import WhisperRecogniser
from realtime_venus.engines.cascade.engine import CascadeEngine, Parts
from realtime_venus.engines.cascade.honest import all_lines
from realtime_venus.engines.cascade.router import Embedder, Head
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.cascade.tts.voices import VoiceBook, VoiceEntry
from realtime_venus.engines.silero import SileroModel
from realtime_venus.engines.store import Store
from realtime_venus.plugin.converse import transcript
from realtime_venus.plugin.rooms.base import Command, Say, TypeText
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions, TimedCommand
from realtime_venus.plugin.session import Session, SessionSettings
from realtime_venus.plugin.timeline import events as ev

from ...kit.cascade import DEADLINE_S, Gate, Hears, Surely, Tone, Words
from ...kit.kits import Json, stem
from ...kit.speech import error_rate

FAST = SessionOptions(fast=True)
PATIENT = SessionSettings(fast_watchdog_s=3600)
ENGLISH_ONLY = (VoiceEntry(Language.EN, "anna", Tone()),)
BOTH = (*ENGLISH_ONLY, VoiceEntry(Language.ZH, "xiao", Tone()))


# -- with parts that answer at once -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder()


class Made:
    """An engine under test, its language model, and how often its parts were loaded and closed."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        max_sessions: int = 2,
        entries: Sequence[VoiceEntry] = BOTH,
        model: Words | None = None,
        failures: Sequence[EngineError] = (),
    ) -> None:
        self.model = model or Words("The", " cheetah.")
        self.loaded = self.closed = 0
        self._embedder, self._entries, self._failures = embedder, entries, list(failures)
        self.engine = CascadeEngine(CascadeSettings(max_sessions=max_sessions), self._load)

    def _load(self, settings: CascadeSettings) -> Parts:
        self.loaded += 1
        if self._failures:
            raise self._failures.pop(0)
        voices = VoiceBook(self._entries)
        speech, head = SileroModel(), Head.shipped()
        return Parts(Hears(), Surely(), self.model, voices, speech, self._embedder, head, self._close)

    def _close(self) -> None:
        self.closed += 1

    def open(self) -> EngineSession:
        return self.engine.open(SessionOptions())


async def utterance(events: AsyncIterator[EngineEvent]) -> list[EngineEvent]:
    """The events up to the end of the next utterance."""
    seen: list[EngineEvent] = []
    async for event in events:
        seen.append(event)
        if isinstance(event, TurnEnded):
            break
    return seen


async def test_an_engine_that_is_not_loaded_opens_nothing(embedder: Embedder) -> None:
    made = Made(embedder)
    with pytest.raises(EngineError, match=r"not loaded: await load\(\) first"):
        made.open()
    assert made.loaded == 0


async def test_it_loads_once_and_then_knows_its_voices(embedder: Embedder) -> None:
    made = Made(embedder)
    await made.engine.load()
    await made.engine.load()
    assert made.loaded == 1
    assert dict(made.engine.voices) == {Language.EN: ("anna",), Language.ZH: ("xiao",)}
    await made.engine.close()


async def test_what_could_not_be_loaded_can_be_tried_again(embedder: Embedder) -> None:
    made = Made(embedder, failures=[EngineError("run: venus models pull")])
    with pytest.raises(EngineError, match="venus models pull"):
        await made.engine.load()
    with pytest.raises(EngineError, match="not loaded"):
        made.open()
    await made.engine.load()
    await made.open().close()
    await made.engine.close()


async def test_when_every_place_is_taken_it_says_so_until_one_is_free(embedder: Embedder) -> None:
    made = Made(embedder)
    await made.engine.load()
    first, second = made.open(), made.open()
    with pytest.raises(EngineFull, match="all 2 sessions"):
        made.open()
    await first.close()
    await first.close()
    third = made.open()
    with pytest.raises(EngineFull):
        made.open()
    await second.close()
    await third.close()
    await made.engine.close()


async def test_sessions_use_different_slots_of_the_model_and_those_of_a_closed_one_again(embedder: Embedder) -> None:
    made = Made(embedder)
    await made.engine.load()

    async def slot(session: EngineSession) -> int:
        session.type("What's the fastest land animal?")
        async with asyncio.timeout(DEADLINE_S):
            await utterance(session.events())
        return made.model.asked[-1].slot

    first, second = made.open(), made.open()
    slots = [await slot(first), await slot(second)]
    assert slots[0] != slots[1]
    await first.close()
    assert await slot(made.open()) == slots[0]
    await made.engine.close()


async def test_an_unknown_voice_is_refused_and_takes_no_place(embedder: Embedder) -> None:
    made = Made(embedder, max_sessions=1)
    await made.engine.load()
    for _ in range(3):
        with pytest.raises(ValueError, match="unknown voice 'nobody': known are anna, xiao"):
            made.engine.open(SessionOptions(voice="nobody"))
    await made.open().close()
    await made.engine.close()


async def test_closing_it_closes_its_sessions_and_frees_the_models_once(embedder: Embedder) -> None:
    made = Made(embedder)
    await made.engine.load()
    sessions = [made.open(), made.open()]
    await made.engine.close()
    await made.engine.close()
    for session in sessions:
        assert [event async for event in session.events()] == []
    assert made.closed == 1
    with pytest.raises(EngineError, match="not loaded"):
        made.open()


async def test_the_models_are_freed_only_after_a_session_that_was_already_closing(embedder: Embedder) -> None:
    gate = Gate()
    made = Made(embedder, model=Words("The", " cheetah."))
    await made.engine.load()
    session = made.open()
    made.model.gate = gate
    session.type("What's the fastest land animal?")
    await asyncio.to_thread(gate.reached)
    leaving = asyncio.ensure_future(session.close())
    closing = asyncio.ensure_future(made.engine.close())
    await asyncio.wait([leaving, closing], timeout=0)
    assert made.closed == 0
    gate.open()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(leaving, closing)
    assert made.closed == 1


async def test_a_language_without_a_voice_costs_the_reply_and_not_the_session(embedder: Embedder) -> None:
    made = Made(embedder, entries=ENGLISH_ONLY)
    await made.engine.load()
    session = made.open()
    events = session.events()
    session.type("你叫什么名字？")
    troubles: list[Trouble] = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in events:
            if isinstance(event, Trouble):
                troubles.append(event)
            if len(troubles) == 2:
                break
        session.type("What's your name?")
        said = [event.text for event in await utterance(events) if isinstance(event, Text)]
    assert said == ["The cheetah."]
    assert {(trouble.code, trouble.fatal) for trouble in troubles} == {("reply.failed", False)}
    assert "no voice for 'zh'" in troubles[0].message
    await made.engine.close()


# -- with the real models ---------------------------------------------------------------------------------------------


class _Resample(Protocol):
    def __call__(self, x: FloatPcm, in_rate: float, out_rate: float) -> FloatPcm: ...


_resample = cast("_Resample", soxr.resample)


@pytest.fixture(scope="module")
def engine(models: Store) -> Iterator[Engine]:
    models.path("whisper-base")
    made = catalog.create("cascade")
    asyncio.run(made.load())
    yield made
    asyncio.run(made.close())


@pytest.fixture(scope="module")
def listener(models: Store) -> WhisperRecogniser:
    return WhisperRecogniser(models.path("whisper-base"))


class Talk:
    """What a conversation left behind: the turns of both sides, the timeline, the agent's voice."""

    def __init__(self, session: Session, room: MemoryRoom) -> None:
        self.events = session.timeline.events
        self.agent_audio: Int16Pcm = room.agent_audio
        self.turns = cast("list[Json]", transcript(self.events)["turns"])

    def said(self) -> list[Json]:
        return [turn for turn in self.turns if turn["speaker"] == "agent"]

    def heard(self) -> list[Json]:
        return [turn for turn in self.turns if turn["speaker"] != "agent"]

    def understood_by(self, listener: WhisperRecogniser, language: Language) -> str:
        audio = (self.agent_audio / 32768).astype(np.float32)
        transcribed = listener.transcribe(_resample(audio, OUTPUT_HZ, INPUT_HZ)[: 29 * INPUT_HZ], language)
        assert transcribed is not None
        return transcribed.text


async def talk(engine: Engine, audio: FloatPcm, *commands: Command, options: SessionOptions = FAST) -> Talk:
    """A conversation in fast mode; the commands are given at its beginning."""
    room = MemoryRoom(
        audio,
        [TimedCommand(0, command) for command in commands],
        MemoryRoomOptions(fast=True, ack_every_ms=40, tail_s=60),
    )
    session = Session(room, engine, options, PATIENT)
    await session.run()
    troubles = [event for event in session.timeline.events if isinstance(event, ev.TroubleEvent)]
    assert troubles == []
    return Talk(session, room)


def silence(seconds: float) -> FloatPcm:
    return np.zeros(int(seconds * INPUT_HZ), np.float32)


def asked(sample_id: str, lead_s: float = 0.6, role: str = "question") -> FloatPcm:
    return np.concatenate([silence(lead_s), stem(sample_id, role), silence(2)])


@pytest.mark.models
async def test_an_english_question_is_answered(engine: Engine, listener: WhisperRecogniser) -> None:
    spoken = await talk(engine, asked("en_turn_taking_01"))
    (question,) = spoken.heard()
    assert error_rate("What's the fastest land animal?", question["text"])[0] < 0.3
    assert question["language"] == "en"
    assert "cheetah" in spoken.said()[0]["heard"].lower()
    assert "cheetah" in spoken.understood_by(listener, Language.EN).lower()


@pytest.mark.models
async def test_a_chinese_question_is_answered_in_chinese(engine: Engine) -> None:
    spoken = await talk(engine, asked("zh_turn_taking_01"))
    answer = spoken.said()[0]["heard"]
    assert spoken.heard()[0]["language"] == "zh"
    assert "猎豹" in answer
    assert not re.search("[A-Za-z]{3}", answer)


@pytest.mark.models
async def test_typed_text_is_answered(engine: Engine) -> None:
    spoken = await talk(engine, silence(1), TypeText("What is the capital of France?"))
    (typed,) = spoken.heard()
    assert typed["typed"]
    assert "Paris" in spoken.said()[0]["heard"]


@pytest.mark.models
async def test_a_line_is_said_word_for_word(engine: Engine, listener: WhisperRecogniser) -> None:
    line = "Good evening, and welcome. The museum is on the left side of the river."
    spoken = await talk(engine, silence(1), Say(line))
    (said,) = spoken.said()
    assert said["text"] == line
    assert said["heard"] == line
    assert error_rate(line, spoken.understood_by(listener, Language.EN))[0] < 0.2


@pytest.mark.models
@pytest.mark.parametrize(
    ("text", "language"),
    [("How much does a bitcoin cost right now?", Language.EN), ("我家附近的超市现在开门吗？", Language.ZH)],
)
async def test_what_cannot_be_known_gets_an_honest_line(engine: Engine, text: str, language: Language) -> None:
    spoken = await talk(engine, silence(1), TypeText(text))
    assert spoken.said()[0]["heard"] in all_lines(language)


@pytest.mark.models
async def test_interrupted_in_a_long_line_it_gives_way_and_answers_the_new_question(engine: Engine) -> None:
    story = (
        "Once upon a time there was a village between two hills, and in the village there lived a baker who rose "
        "before the sun. Every morning he lit the oven, and every morning the smell of bread went down the street. "
        "The children woke up, the dogs woke up, and even the old miller at the end of the road opened his window."
    )
    spoken = await talk(engine, asked("en_user_interruption_03", lead_s=6, role="overlap"), Say(story))
    verdicts = [event.phase for event in spoken.events if isinstance(event, ev.OverlapEvent)]
    assert "yield" in verdicts
    cut, answer = spoken.said()
    assert cut["interrupted"]
    assert cut["heard"]
    assert story.startswith(cut["heard"])
    assert len(cut["heard"]) < len(story) * 2 / 3
    assert "bamboo" in answer["heard"].lower()
    assert not answer["interrupted"]
