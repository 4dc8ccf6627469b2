"""The conductor with hand-made workers: every message in a known order, no threads, no models, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from realtime_venus.engines.base import (
    EngineEvent,
    FloatPcm,
    Language,
    MediaUnit,
    SessionOptions,
    UnitDone,
)
from realtime_venus.engines.cascade.clauses import ClauseOptions
from realtime_venus.engines.cascade.conductor import Conductor
from realtime_venus.engines.cascade.dialogue import Dialogue
from realtime_venus.engines.cascade.ear import Ear
from realtime_venus.engines.cascade.endpoint import Purpose
from realtime_venus.engines.cascade.inbox import Input
from realtime_venus.engines.cascade.parts import Message, Transcript, Voiced
from realtime_venus.engines.cascade.reply import Finished, Piece, Reply, Script
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.cascade.tts.voices import VoiceBook, VoiceEntry
from realtime_venus.engines.cascade.workers import Judged, Recognised

from .cascade import KnowsAll

SETTINGS = CascadeSettings()

T = TypeVar("T")
QUESTION = "What's the fastest land animal?"


class LoudIsSpeech:
    """A voice detector that goes by level."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def push(self, samples: FloatPcm) -> list[float]:
        rest = np.concatenate([self._rest, samples])
        count = len(rest) // 512
        self._rest = rest[count * 512 :]
        return [float(np.abs(w).max() > 0.05) for w in rest[: count * 512].reshape(count, 512)]

    def reset(self) -> None:
        self._rest = np.zeros(0, np.float32)


class Mute:
    """A voice whose sound is never asked for here."""

    languages = (Language.EN, Language.ZH)
    names = ("heart",)

    def prepare(self, name: str) -> None:
        """Nothing to get ready."""

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        yield Voiced(np.zeros(240, np.int16), True)


@dataclass
class Desk:
    """Takes the conductor's orders and keeps them until the test answers."""

    asked: dict[int, tuple[Purpose, int, Language | None]] = field(
        default_factory=dict[int, tuple[Purpose, int, Language | None]]
    )
    judged: list[int] = field(default_factory=list[int])
    replies: list[tuple[Reply, Callable[[], Script]]] = field(default_factory=list[tuple[Reply, Callable[[], Script]]])
    prefills: list[Callable[[], Sequence[Message]]] = field(default_factory=list[Callable[[], Sequence[Message]]])
    asides: int = 0
    prepared: int = 0

    def recognise(self, job: int, purpose: Purpose, audio: FloatPcm, end_ms: int, language: Language | None) -> None:
        self.asked[job] = (purpose, end_ms, language)

    def aside(self, audio: FloatPcm, start_ms: int, end_ms: int, language: Language | None) -> None:
        self.asides += 1

    def judge(self, job: int, audio: FloatPcm) -> None:
        self.judged.append(job)

    def prefill(
        self,
        messages: Callable[[], Sequence[Message]],
        language: Language,
        cancelled: Callable[[], bool],
    ) -> None:
        self.prefills.append(messages)

    def prepare(self, ready: Callable[[], None]) -> None:
        ready()
        self.prepared += 1

    def reply(self, reply: Reply, script: Callable[[], Script], max_tokens: int) -> None:
        self.replies.append((reply, script))


class Talk:
    """One conversation under test."""

    def __init__(self, *, fast: bool = False, options: SessionOptions | None = None) -> None:
        self.events: list[EngineEvent] = []
        self.desk = Desk()
        entries = [VoiceEntry(language, "heart", Mute()) for language in Language]
        self.dialogue = Dialogue(options or SessionOptions(), SETTINGS, VoiceBook(entries), KnowsAll())
        self.conductor = Conductor(
            Ear(LoudIsSpeech()),
            self.dialogue,
            self.desk,
            self.events.append,
            lambda generation, language: Reply(
                generation, Mute(), None, lambda _: None, options=ClauseOptions(), pause_for_voice=False
            ),
            SETTINGS,
            fast=fast,
        )
        self.index = 0

    def tell(self, message: Input) -> None:
        self.conductor.handle(message)

    def hears(self, ms: int, level: float) -> None:
        for _ in range(ms // 100):
            audio = (level * np.sin(np.arange(1600) * 0.2)).astype(np.float32)
            self.tell(MediaUnit(self.index, self.index * 100, audio))
            self.index += 1

    def speaks(self, ms: int) -> None:
        self.hears(ms, 0.3)

    def silent(self, ms: int) -> None:
        self.hears(ms, 0.0001)

    def transcribed(self, text: str, language: Language = Language.EN) -> None:
        """The newest transcript wanted says ``text``; older ones were dropped."""
        *older, newest = sorted(self.desk.asked)
        for job in older:
            purpose, end_ms, _ = self.desk.asked.pop(job)
            self.tell(Recognised(job, purpose, end_ms, 1.0, None))
        purpose, end_ms, _ = self.desk.asked.pop(newest)
        self.tell(Recognised(newest, purpose, end_ms, 1.0, Transcript(text, language, 0.9)))

    def sounds_finished(self) -> None:
        while self.desk.judged:
            self.tell(Judged(self.desk.judged.pop(0), 0.95))

    def asks(self, text: str = QUESTION, language: Language = Language.EN) -> None:
        self.speaks(1000)
        self.silent(100)
        self.transcribed(text, language)
        self.sounds_finished()

    def voices(self, clause: str, ms: int = 1000, *, last: bool = True) -> None:
        generation = self.desk.replies[-1][0].generation
        self.tell(Piece(generation, clause, np.zeros(ms * 24, np.int16), last))

    def written(self, text: str, error: str = "") -> None:
        self.tell(Finished(self.desk.replies[-1][0].generation, text, error))

    def answers(self, text: str = "The cheetah.", ms: int = 1000) -> None:
        self.voices(text, ms)
        self.written(text)
        self.silent(600)

    def script(self) -> Script:
        return self.desk.replies[-1][1]()

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]


def kinds(events: list[EngineEvent]) -> list[str]:
    return [type(event).__name__ for event in events if not isinstance(event, UnitDone)]
