"""What reaches the conductor, and what it asks of the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..base import Changes, FloatPcm, Language, MediaUnit, OverlapPhase
from .endpoint import Purpose
from .parts import Message
from .reply import Reply, Script
from .workers import Report


class WorkerPool(Protocol):
    """What the conductor needs of :class:`~.workers.Workers`."""

    def recognise(
        self, job: int, purpose: Purpose, audio: FloatPcm, end_ms: int, language: Language | None
    ) -> None: ...
    def aside(self, audio: FloatPcm, start_ms: int, end_ms: int, language: Language | None) -> None: ...
    def judge(self, job: int, audio: FloatPcm) -> None: ...
    def prefill(
        self,
        messages: Callable[[], Sequence[Message]],
        language: Language,
        cancelled: Callable[[], bool],
    ) -> None: ...
    def prepare(self, ready: Callable[[], None]) -> None: ...
    def reply(self, reply: Reply, script: Callable[[], Script], max_tokens: int) -> None: ...


@dataclass(frozen=True, slots=True)
class OverlapTold:
    phase: OverlapPhase
    at_ms: int


@dataclass(frozen=True, slots=True)
class HeardTold:
    utterance_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    utterance_id: str


@dataclass(frozen=True, slots=True)
class Typed:
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    text: str


@dataclass(frozen=True, slots=True)
class Begin:
    """The session is open: get ready while nobody has spoken yet."""


Input = Begin | MediaUnit | OverlapTold | HeardTold | Interrupted | Typed | Line | Changes | Report
