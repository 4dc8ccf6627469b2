"""A session under test: room from memory, scripted engine, virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from realtime_venus.engines.base import (
    FloatPcm,
    MediaUnit,
    SessionOptions,
)
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions, TimedCommand
from realtime_venus.plugin.session import Session, SessionSettings
from realtime_venus.plugin.timeline import events as ev

from .fake_engine import FakeEngine, FakeSession
from .virtual_time import run_virtual

E = TypeVar("E", bound=ev.TimelineEvent)


class Loud:
    """A detector for made-up speech: a window is speech when it is loud."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def reset(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def push(self, samples: FloatPcm) -> list[float]:
        audio = np.concatenate([self._rest, samples])
        count = len(audio) // 512
        self._rest = audio[count * 512 :]
        return [1.0 if np.abs(window).max() > 0.01 else 0.0 for window in audio[: count * 512].reshape(count, 512)]


def voice(*spans_ms: tuple[int, int], total_ms: int, hz: int = 120) -> FloatPcm:
    """A made-up vowel, which webrtcvad takes for speech, in the spans; silence elsewhere."""
    time = np.arange(total_ms * 16) / 16000
    vowel = sum(np.sin(2 * np.pi * hz * k * time) / k for k in range(1, 12))
    mask = np.zeros(total_ms * 16)
    for start, end in spans_ms:
        mask[start * 16 : end * 16] = 1
    return (0.2 * vowel * mask).astype(np.float32)


@dataclass
class Run:
    """What a session left behind."""

    engine: FakeEngine
    room: MemoryRoom
    session: Session

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.session.timeline.events if isinstance(event, kind)]

    def one(self, kind: type[E]) -> E:
        (event,) = self.all(kind)
        return event

    def phases(self) -> list[str]:
        return [event.phase for event in self.all(ev.OverlapEvent)]

    def states(self) -> list[str]:
        return [event.state for event in self.all(ev.AgentState)]

    def loudness(self) -> list[int]:
        """Peak of the agent's track for each 20 ms."""
        return np.abs(self.room.agent_audio.astype(int)).reshape(-1, 480).max(axis=1).tolist()


def run(
    audio: FloatPcm,
    engine: FakeEngine,
    commands: Sequence[TimedCommand] = (),
    *,
    room: MemoryRoomOptions | None = None,
    options: SessionOptions | None = None,
    settings: SessionSettings | None = None,
    made: Callable[[FloatPcm, Sequence[TimedCommand], MemoryRoomOptions], MemoryRoom] = MemoryRoom,
) -> Run:
    chosen = options or SessionOptions()
    room_options = replace_fast(room or MemoryRoomOptions(ack_every_ms=20), fast=chosen.fast)

    async def main() -> Run:
        memory = made(audio, commands, room_options)
        session = Session(memory, engine, chosen, settings or SessionSettings(), detector=Loud(), session_id="test")
        await session.run()
        return Run(engine, memory, session)

    return run_virtual(main())


def replace_fast(options: MemoryRoomOptions, *, fast: bool) -> MemoryRoomOptions:
    return options.model_copy(update={"fast": fast})


def answering(at_ms: int, seconds: float = 4.0, **more: object) -> Callable[[FakeSession, MediaUnit], None]:
    """Speak utterance ``u1`` once ``at_ms`` has been taken in."""

    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.start_ms + session.engine.unit_ms == at_ms:
            session.speak("u1", seconds, **more)  # pyright: ignore[reportArgumentType]

    return on_unit


QUESTION = voice((200, 1000), total_ms=6000)
INTERRUPTION = voice((200, 1000), (3000, 4500), total_ms=8000)
