from __future__ import annotations

import asyncio
import threading

import pytest
from livekit.agents import llm
from livekit.plugins import venus
from realtime_venus.engines.base import Capabilities, EngineError, Language, NotEnoughMemory

from ...kit.fake_engine import FakeEngine
from .agent_io import passed


class Slow(FakeEngine):
    """Counts how often it is loaded, which takes until ``go``."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.loads = 0
        self.closes = 0
        self.error = error
        self.go = threading.Event()

    async def load(self) -> None:
        self.loads += 1
        await asyncio.to_thread(self.go.wait, 10)
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        self.closes += 1


async def test_sessions_of_several_threads_load_once() -> None:
    engine = Slow()
    model = venus.DuplexModel(engine=engine)
    found: list[object] = []

    def elsewhere() -> None:
        found.append(asyncio.run(model.load()))

    threads = [threading.Thread(target=elsewhere) for _ in range(3)]
    for thread in threads:
        thread.start()
    engine.go.set()
    assert await model.load() is engine
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
    assert found == [engine] * 3
    assert engine.loads == 1


async def test_a_failure_reaches_everybody_who_waits_and_the_next_load_tries_again() -> None:
    engine = Slow(NotEnoughMemory("close something"))
    model = venus.DuplexModel(engine=engine)
    both = [asyncio.create_task(model.load()) for _ in range(2)]
    engine.go.set()
    for result in await asyncio.gather(*both, return_exceptions=True):
        assert isinstance(result, NotEnoughMemory)
    engine.error = None
    assert await model.load() is engine
    assert engine.loads == 2


async def test_who_gives_up_waiting_does_not_stop_the_others() -> None:
    engine = Slow()
    model = venus.DuplexModel(engine=engine)
    first, second, third = (asyncio.create_task(model.load()) for _ in range(3))
    await passed(0)
    second.cancel()
    engine.go.set()
    assert await first is engine
    assert await third is engine


async def test_who_began_the_load_may_give_up_as_well() -> None:
    engine = Slow()
    model = venus.DuplexModel(engine=engine)
    first, second = asyncio.create_task(model.load()), asyncio.create_task(model.load())
    await passed(0)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    engine.go.set()
    assert await second is engine
    assert engine.loads == 1


async def test_a_load_whose_event_loop_ends_is_begun_anew_by_who_waits_elsewhere() -> None:
    engine = Slow()
    model = venus.DuplexModel(engine=engine)
    begun = threading.Event()

    async def begin() -> None:
        task = asyncio.create_task(model.load())
        await passed(0)
        begun.set()
        await asyncio.to_thread(leave.wait, 10)
        task.cancel()

    leave = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(begin()))
    thread.start()
    await asyncio.to_thread(begun.wait, 10)
    waiting = asyncio.create_task(model.load())
    await passed(0)
    leave.set()
    await asyncio.to_thread(thread.join, 10)
    engine.go.set()
    assert await waiting is engine
    assert engine.loads == 2


async def test_a_load_that_takes_too_long_is_given_up_with_the_setting_to_change_and_can_be_tried_again() -> None:
    engine = Slow()
    model = venus.DuplexModel(engine=engine, options=venus.DuplexOptions(load_s=0.05))
    with pytest.raises(EngineError, match=r"within 0\.05 s.*load_s"):
        await model.load()
    engine.go.set()
    assert await model.load() is engine
    assert engine.loads == 2


async def test_what_an_engine_fails_with_is_one_of_our_errors() -> None:
    engine = Slow(OSError("the disk is gone"))
    engine.go.set()
    with pytest.raises(EngineError, match="the disk is gone"):
        await venus.DuplexModel(engine=engine).load()


async def test_closing_the_model_breaks_off_its_load() -> None:
    engine = Slow()
    model = venus.DuplexModel(engine=engine)
    loading = asyncio.create_task(model.load())
    await passed(0)
    await model.aclose()
    with pytest.raises(EngineError, match="broken off"):
        await loading
    engine.go.set()


async def test_an_engine_that_was_given_is_not_closed() -> None:
    engine = Slow()
    engine.go.set()
    async with venus.DuplexModel(engine=engine) as model:
        assert isinstance(model, venus.DuplexModel)
        await model.load()
    assert engine.closes == 0


def test_it_says_what_the_engine_can_do() -> None:
    model = venus.DuplexModel(engine=FakeEngine(capabilities=Capabilities(transcripts=False, persona=False)))
    assert (model.capabilities.user_transcription, model.capabilities.mutable_instructions) == (False, False)
    assert (model.model, model.provider) == ("fake", "venus")
    assert model.capabilities.auto_tool_reply_generation


def test_without_an_engine_it_is_the_cascade_and_is_not_loaded() -> None:
    model = venus.DuplexModel(language="zh", voice="tenor", facts=["The shop closes at six."])
    assert (model.model, model.language) == ("cascade", Language.ZH)
    assert model.capabilities.user_transcription
    with pytest.raises(llm.RealtimeError, match="load"):
        _ = model.engine


@pytest.mark.parametrize(("given", "language"), [("auto", None), ("en", Language.EN), (Language.ZH, Language.ZH)])
def test_languages(given: str, language: Language | None) -> None:
    assert venus.DuplexModel(language=given).language is language


def test_mistakes_are_told_when_the_model_is_made() -> None:
    with pytest.raises(ValueError, match="'en', 'zh' and 'auto'"):
        venus.DuplexModel(language="fr")
    with pytest.raises(TypeError, match="sequence"):
        venus.DuplexModel(facts="The shop closes at six.")
    with pytest.raises(ValueError, match="lead_ms"):
        venus.DuplexModel(options=venus.DuplexOptions(lead_ms=500))
