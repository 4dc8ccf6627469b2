from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from realtime_venus.demo_room.host import EngineHost, HostState, Progress
from realtime_venus.engines.base import Engine, EngineError, SessionOptions, VenusError
from realtime_venus.plugin.rooms.base import MediaRoom
from realtime_venus.plugin.rooms.memory import MemoryRoom

from ..kit.fake_engine import FakeEngine


class Loading(FakeEngine):
    """Loads when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.may_load = asyncio.Event()
        self.error = error
        self.closings = 0

    async def load(self) -> None:
        await self.may_load.wait()
        if self.error is not None:
            raise self.error
        await super().load()

    async def close(self) -> None:
        self.closings += 1
        await super().close()


async def nothing(_room: MediaRoom, _engine: Engine, _options: SessionOptions) -> None:
    return


def host(engine: Loading) -> EngineHost:
    async def prepare(report: Callable[[Progress], None]) -> Engine:
        await asyncio.to_thread(report, Progress("pulling", 0.5))
        return engine

    return EngineHost("fake", prepare, nothing)


async def test_loading_ends_in_readiness_and_the_engine_is_closed_once() -> None:
    engine = Loading()
    made = host(engine)
    assert (made.state, made.profile.name, made.profile.voices, made.profile.sees) == (
        HostState.LOADING,
        "fake",
        None,
        False,
    )
    made.start()
    engine.may_load.set()
    await made.wait_loaded()
    assert made.state is HostState.READY
    assert made.profile.languages == engine.languages
    assert made.profile.max_sessions == engine.max_sessions
    assert made.profile.sees is True
    await made.close()
    await made.close()
    assert engine.closings == 1


@pytest.mark.parametrize("error", [EngineError("too little memory"), OSError("too little memory")])
async def test_a_failure_is_kept_in_words(error: Exception) -> None:
    engine = Loading(error)
    made = host(engine)
    made.start()
    engine.may_load.set()
    await made.wait_loaded()
    assert (made.state, made.error) == (HostState.FAILED, "too little memory")
    assert engine.closings == 1
    await made.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("no such operator"), "RuntimeError: no such operator"),
        (ValueError("no such shape"), "ValueError: no such shape"),
        (MemoryError(), "MemoryError"),
        (EngineError(), "EngineError"),
    ],
)
async def test_a_failure_that_nobody_foresaw_is_a_failure_too(error: Exception, words: str) -> None:
    engine = Loading(error)
    made = host(engine)
    made.start()
    engine.may_load.set()
    await made.wait_loaded()
    assert (made.state, made.error) == (HostState.FAILED, words)
    assert engine.closings == 1
    await made.close()


async def test_loading_can_be_given_up() -> None:
    engine = Loading()
    made = host(engine)
    made.start()
    await asyncio.sleep(0)
    await made.close()
    assert made.state is HostState.LOADING


async def test_closing_before_the_start_is_nothing() -> None:
    await host(Loading()).close()


async def test_nobody_talks_before_the_engine_is_there() -> None:
    made = host(Loading())
    with pytest.raises(VenusError, match="not loaded"):
        await made.converse(MemoryRoom(np.zeros(0, dtype=np.float32)), SessionOptions())
