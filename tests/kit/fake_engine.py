"""An engine that does what a test tells it, through the real contract; its time is the event loop's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal

import numpy as np
from realtime_venus.engines.base import (
    INPUT_HZ,
    OUTPUT_HZ,
    Capabilities,
    Changes,
    Decided,
    Decision,
    Engine,
    EngineEvent,
    EngineFull,
    EngineSession,
    Heard,
    Int16Pcm,
    Language,
    MediaUnit,
    Overlap,
    OverlapPhase,
    SessionOptions,
    Speech,
    Text,
    TurnEnded,
    UnitDone,
    Unsupported,
    Verdict,
)

ABLE = Capabilities(
    say=True, type=True, inject=True, facts=True, persona=True, transcripts=True, overlap=True, snapshot=True
)


def coded_voice(samples: int, first: int = 0) -> Int16Pcm:
    """A loud tone at 24 kHz, the same at the same sample, and never mistaken for silence for longer than 2 ms."""
    time = np.arange(first, first + samples) / OUTPUT_HZ
    return (8000 * np.sin(2 * np.pi * 220.0 * time)).astype(np.int16)


class FakeSession(EngineSession):
    """Everything that came in is kept; what goes out is up to the engine's hooks and the test."""

    def __init__(self, engine: FakeEngine, options: SessionOptions, number: int) -> None:
        self.engine = engine
        self.options = options
        self.number = number
        self.units: list[MediaUnit] = []
        self.overlaps: list[tuple[OverlapPhase, int]] = []
        self.heards: list[tuple[str, int]] = []
        self.interrupts: list[str] = []
        self.typed: list[str] = []
        self.said: list[str] = []
        self.changes: list[Changes] = []
        self.restored: bytes | None = None
        self.closed = False
        self._done_s = 0.0
        self._pending: asyncio.TimerHandle | None = None
        self._events: asyncio.Queue[EngineEvent | None] = asyncio.Queue()

    @property
    def now_ms(self) -> int:
        """End of the last unit."""
        return self.units[-1].start_ms + self.engine.unit_ms if self.units else 0

    # -- out ---------------------------------------------------------------------------------------------------

    def emit(self, *events: EngineEvent, after_s: float = 0.0) -> asyncio.TimerHandle | None:
        """Give events now, or together and in order later by the loop's clock."""
        if after_s:
            return asyncio.get_running_loop().call_later(after_s, self.emit, *events)
        for event in events:
            self._events.put_nowait(event)
        return None

    def speak(
        self,
        utterance_id: str,
        seconds: float,
        text: str = "one two three four",
        *,
        chunk_ms: int = 200,
        opener_ms: int = 0,
        ended: bool = True,
        after_s: float = 0.0,
    ) -> None:
        """Say ``text`` over ``seconds`` of :func:`coded_voice`, in chunks, faster than real time."""
        total, chunk = int(seconds * OUTPUT_HZ), chunk_ms * OUTPUT_HZ // 1000
        at_ms = self.now_ms
        events: list[EngineEvent] = [Decided(at_ms, Decision.SPEAK), Text(at_ms, utterance_id, text, 0, total)]
        for first in range(0, total, chunk):
            pcm = coded_voice(min(chunk, total - first), first)
            events.append(Speech(at_ms, utterance_id, first, pcm, opener=first * 1000 // OUTPUT_HZ < opener_ms))
        if ended:
            events.append(TurnEnded(at_ms, utterance_id, total))
        self._pending = self.emit(*events, after_s=after_s)

    def judge(self, utterance_id: str, verdict: Verdict, after_s: float = 0.0) -> None:
        """Give a verdict on an overlap."""
        self.emit(Overlap(self.now_ms, utterance_id, verdict, "test", 0.9), after_s=after_s)

    def hear(self, text: str, *, final: bool = True, start_ms: int = 0) -> None:
        """Report words of the user."""
        self.emit(Heard(self.now_ms, text, start_ms, self.now_ms, final, Language.EN))

    def fail(self) -> None:
        """End the events, as a crashed engine would."""
        self._events.put_nowait(None)

    # -- in ----------------------------------------------------------------------------------------------------

    def push(self, unit: MediaUnit) -> None:
        if unit.index != len(self.units):
            raise ValueError(f"unit {unit.index} where {len(self.units)} was expected")
        if len(unit.audio) != self.engine.unit_ms * INPUT_HZ // 1000:
            raise ValueError("a unit of the wrong length")
        self.units.append(unit)
        if self.engine.on_unit is not None:
            self.engine.on_unit(self, unit)
        if not self.engine.stalled:
            now_s = asyncio.get_running_loop().time()
            self._done_s = max(self._done_s, now_s + self.engine.unit_takes_s)  # one after the other
            self.emit(UnitDone(self.now_ms, unit.index, {"fake": 0.0}), after_s=self._done_s - now_s)

    def overlap(self, phase: OverlapPhase, at_ms: int) -> None:
        self.overlaps.append((phase, at_ms))
        if self.engine.on_overlap is not None:
            self.engine.on_overlap(self, phase)

    def heard(self, utterance_id: str, samples: int) -> None:
        self.heards.append((utterance_id, samples))

    def interrupt(self, utterance_id: str) -> None:
        self.interrupts.append(utterance_id)
        if not utterance_id and self._pending is not None:
            self._pending.cancel()
            self.emit(Decided(self.now_ms, Decision.LISTEN))

    def type(self, text: str) -> None:
        self._need(able=self.engine.capabilities.type)
        self.typed.append(text)

    def say(self, text: str) -> None:
        self._need(able=self.engine.capabilities.say)
        self.said.append(text)

    def inject(self, background: str) -> None:
        self._need(able=self.engine.capabilities.inject)

    def configure(self, changes: Changes) -> None:
        if changes.voice == "nobody":
            raise ValueError("There is no voice 'nobody'.")
        self.changes.append(changes)

    def snapshot(self) -> bytes:
        self._need(able=self.engine.capabilities.snapshot)
        return f"snapshot of {self.number}".encode()

    def restore(self, snapshot: bytes) -> None:
        self._need(able=self.engine.capabilities.snapshot)
        self.restored = snapshot

    async def events(self) -> AsyncIterator[EngineEvent]:
        while (event := await self._events.get()) is not None:
            yield event

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.engine.open_sessions -= 1
            self._events.put_nowait(None)

    def _need(self, *, able: bool) -> None:
        if not able:
            raise Unsupported("the test's engine was made without this")


class FakeEngine(Engine):
    """``on_unit`` and ``on_overlap`` script its sessions; ``stalled`` stops ``UnitDone``."""

    def __init__(
        self,
        on_unit: Callable[[FakeSession, MediaUnit], None] | None = None,
        on_overlap: Callable[[FakeSession, OverlapPhase], None] | None = None,
        *,
        unit_ms: int = 100,
        capabilities: Capabilities = ABLE,
    ) -> None:
        self.name = "fake"
        self.unit_ms = unit_ms
        self.languages = (Language.EN, Language.ZH)
        self.voices: Mapping[Language, tuple[str, ...]] = {Language.EN: ("alto",), Language.ZH: ("tenor",)}
        self.modalities: frozenset[Literal["audio", "video"]] = frozenset({"audio", "video"})
        self.max_sessions = 4
        self.capabilities = capabilities
        self.on_unit = on_unit
        self.on_overlap = on_overlap
        self.stalled = False
        self.unit_takes_s = 0.0
        self.sessions: list[FakeSession] = []
        self.open_sessions = 0

    @property
    def session(self) -> FakeSession:
        """The newest session."""
        return self.sessions[-1]

    async def load(self) -> None:
        return

    def open(self, options: SessionOptions) -> FakeSession:
        if self.open_sessions >= self.max_sessions:
            raise EngineFull("The test's engine is full.")
        self.open_sessions += 1
        self.sessions.append(FakeSession(self, options, len(self.sessions)))
        return self.sessions[-1]

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()
