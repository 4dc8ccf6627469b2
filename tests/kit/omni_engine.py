"""The omni engine with the recorded checkpoint, and conversations that are fed unit by unit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from realtime_venus.engines.base import (
    EngineEvent,
    EngineSession,
    FloatPcm,
    Frame,
    MediaUnit,
    SessionOptions,
    Speech,
    Trouble,
    UnitDone,
)
from realtime_venus.engines.omni.capacity import voice_files
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.engine import OmniEngine
from realtime_venus.engines.omni.pieces import Piece
from realtime_venus.engines.omni_settings import DecodingSettings, OmniSettings
from realtime_venus.engines.store.settings import ModelsSettings

from . import golden
from .omni_script import listening, speaking, steer

UNIT = 16_000
FAST = SessionOptions(fast=True)
SETTINGS = OmniSettings(
    device="cpu",
    positions=2048,
    max_sessions=2,
    flow_steps=4,
    decoding=DecodingSettings(tokens_per_unit=8, length_penalty=0.1),
)
"""Few tokens, since a random network always has something to say, and turns that end soon."""
VOICE_FILE = voice_files(golden.model_dir())[0]
"""The checkpoint's own voice, and its name."""
VOICE = VOICE_FILE.stem

_generate = Duplex.generate


def leads(duplex: Duplex, **options: Any) -> Iterator[Piece]:
    """In place of :meth:`Duplex.generate`: whatever the network would say, it speaks for two units and listens for two.

    What it makes of that stays its own: states, codes and sound.
    """
    number = duplex.units[len(duplex.units) - 1].id + 1 if len(duplex.units) else 0
    said = (speaking("one two"), speaking("three", "turn_eos"), listening(), listening())[number % 4]
    return _generate(duplex, steer=steer(said), **options)


@asynccontextmanager
async def loaded(settings: OmniSettings, models: ModelsSettings) -> AsyncGenerator[OmniEngine]:
    engine = OmniEngine(settings, models)
    try:
        await engine.load()
        yield engine
    finally:
        await engine.close()


def seconds(first: int, count: int) -> list[FloatPcm]:
    """Seconds of the recording, again from its beginning after its end."""
    heard = golden.microphone()
    return [np.resize(np.roll(heard, -UNIT * second), UNIT) for second in range(first, first + count)]


class Talk:
    """A session that is fed unit by unit, in step, and what it said."""

    def __init__(self, session: EngineSession) -> None:
        self.session = session
        self.said: list[EngineEvent] = []
        self.now_ms = 0
        self._events = session.events()
        self._index = 0

    async def unit(self, audio: FloatPcm, *frames: Frame) -> list[EngineEvent]:
        self.session.push(MediaUnit(self._index, self._index * 1000, audio, frames))
        self._index += 1
        self.now_ms = self._index * 1000
        return await self.until(UnitDone)

    async def until(self, kind: type) -> list[EngineEvent]:
        """The events up to the next of ``kind``."""
        new: list[EngineEvent] = []
        async with asyncio.timeout(120):
            async for event in self._events:
                new.append(event)
                assert not (isinstance(event, Trouble) and event.fatal), event
                if isinstance(event, kind):
                    break
        self.said += new
        return new

    async def units(self, audio: Sequence[FloatPcm]) -> None:
        for one in audio:
            await self.unit(one)

    async def close(self) -> None:
        await self.session.close()
        self.said += [event async for event in self._events]


def plain(events: Sequence[EngineEvent]) -> list[object]:
    """What was said, so that it can be compared; times that were measured are left out."""
    return [
        (event.utterance_id, event.first_sample, event.pcm.tobytes()) if isinstance(event, Speech) else event
        for event in events
        if not isinstance(event, UnitDone)
    ]


@asynccontextmanager
async def talking(engine: OmniEngine, options: SessionOptions = FAST) -> AsyncGenerator[Talk]:
    talk = Talk(engine.open(options))
    try:
        yield talk
    finally:
        await talk.close()
