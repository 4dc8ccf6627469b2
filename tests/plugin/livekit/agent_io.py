"""Input and output of an ``AgentSession`` without a room, on the event loop's clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import pytest
from livekit import rtc
from livekit.agents import Agent, AgentSession
from livekit.agents.voice import io
from realtime_venus.engines.base import FloatPcm, Int16Pcm

from ...kit.virtual_time import run_virtual

T = TypeVar("T")
FRAME_S = 0.02


def frame(samples: FloatPcm, rate: int = 16_000, channels: int = 1) -> rtc.AudioFrame:
    """``float32[n * channels]`` as a frame."""
    data = np.rint(np.clip(samples, -1, 1) * 32767).astype(np.int16)
    return rtc.AudioFrame(data.tobytes(), rate, channels, data.size // channels)


def pcm(frames: Sequence[rtc.AudioFrame]) -> Int16Pcm:
    """The samples of ``frames`` one after the other."""
    parts = [np.frombuffer(one.data, dtype=np.int16) for one in frames]
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)


class FakeInput(io.AudioInput):
    """Gives ``audio`` (mono 16 kHz) at real time, then silence for as long as it is asked."""

    def __init__(self, audio: FloatPcm) -> None:
        super().__init__(label="fake")
        self._audio = audio
        self._at = 0
        self._due_s: float | None = None

    async def __anext__(self) -> rtc.AudioFrame:
        loop = asyncio.get_running_loop()
        if self._due_s is None:
            self._due_s = loop.time()
        self._due_s += FRAME_S
        await asyncio.sleep(max(0.0, self._due_s - loop.time()))
        part = self._audio[self._at : self._at + 320]
        self._at += 320
        return frame(np.concatenate([part, np.zeros(320 - part.size, np.float32)]))


class FakeOutput(io.AudioOutput):
    """Plays at real time what it is given; ``segments`` holds what was played of each, as LiveKit counts them."""

    def __init__(self) -> None:
        super().__init__(label="fake", capabilities=io.AudioOutputCapabilities(pause=True), sample_rate=24_000)
        self._frames: list[rtc.AudioFrame] = []
        self._began_s: float | None = None
        self._ending: asyncio.Task[None] | None = None
        self._cleared = asyncio.Event()
        self.segments: list[Int16Pcm] = []
        self.interrupted: list[bool] = []
        self.finished = asyncio.Event()
        self.started = asyncio.Event()

    @property
    def _given_s(self) -> float:
        return sum(one.duration for one in self._frames)

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if self._began_s is None:
            self._began_s = asyncio.get_running_loop().time()
            self.started.set()
            self.on_playback_started(created_at=time.time())
        self._frames.append(frame)

    def flush(self) -> None:
        super().flush()
        if self._frames and self._ending is None:
            self._ending = asyncio.create_task(self._play_out())

    def clear_buffer(self) -> None:
        if self._frames:
            self._cleared.set()

    async def _play_out(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._began_s is not None
        left_s = max(0.0, self._began_s + self._given_s - loop.time())
        clearing = asyncio.create_task(self._cleared.wait())
        await asyncio.wait([clearing], timeout=left_s)
        cut = self._cleared.is_set()
        clearing.cancel()
        played_s = min(self._given_s, loop.time() - self._began_s) if cut else self._given_s
        self.segments.append(pcm(self._frames)[: round(played_s * 24_000)])
        self.interrupted.append(cut)
        self._frames, self._began_s, self._ending = [], None, None
        self._cleared.clear()
        self.finished.set()
        self.on_playback_finished(playback_position=played_s, interrupted=cut)


# -- an AgentSession in virtual time ----------------------------------------------------------------------------------


class Emitter(Protocol):
    """What is used of LiveKit's emitters."""

    def on(self, event: str, callback: Callable[..., None]) -> object: ...


def on(emitter: object, event: str, callback: Callable[[Any], None]) -> None:
    """Have ``callback`` called with each ``event`` of one of LiveKit's emitters."""
    cast(Emitter, emitter).on(event, callback)


def collect(emitter: object, event: str) -> list[Any]:
    """Every ``event`` from now on, in a list that grows."""
    events: list[Any] = []
    on(emitter, event, events.append)
    return events


class _Starting(Protocol):
    async def start(self, agent: Agent, **options: object) -> None: ...


async def start(session: AgentSession[Any], agent: Agent, **options: object) -> None:
    """Start ``session``, and record nothing."""
    await cast(_Starting, session).start(agent, record=False, **options)


@asynccontextmanager
async def running(
    session: AgentSession[Any], agent: Agent, audio: FloatPcm | None = None
) -> AsyncGenerator[FakeOutput]:
    """``session`` with ``agent``, hearing ``audio`` (mono 16 kHz, then silence), closed afterwards."""
    output = FakeOutput()
    session.input.audio = FakeInput(np.zeros(0, np.float32) if audio is None else audio)
    session.output.audio = output
    await start(session, agent)
    try:
        yield output
    finally:
        await session.aclose()


def run_agent(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` in virtual time, the wall clock included, by which LiveKit dates what is played."""
    with pytest.MonkeyPatch.context() as patch:

        async def dated() -> T:
            loop = asyncio.get_running_loop()
            patch.setattr(time, "time", lambda: 1_800_000_000.0 + loop.time())
            return await main

        return run_virtual(dated())


async def passed(seconds: float) -> None:
    """Let so much time pass, which takes none in virtual time."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    loop.call_later(seconds, done.set)
    await done.wait()
