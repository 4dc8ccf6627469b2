"""Small parts for the cascade that answer at once, or when a test lets them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from realtime_venus.engines.base import FloatPcm, Language
from realtime_venus.engines.cascade.parts import Message, Transcript, Voiced

DEADLINE_S = 10.0
"""No test waits longer than this for another thread."""


class Gate:
    """Holds a worker inside its work until the test opens it."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def hold(self) -> None:
        """Called by the worker."""
        self._reached.set()
        if not self._open.wait(DEADLINE_S):
            raise TimeoutError("nobody opened the gate")

    def reached(self) -> None:
        """Wait until the worker is there."""
        if not self._reached.wait(DEADLINE_S):
            raise TimeoutError("nobody came to the gate")

    def open(self) -> None:
        self._open.set()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the language model was asked for."""

    slot: int
    messages: tuple[Message, ...]
    max_tokens: int
    prefix: str


class Words:
    """A language model that writes ``pieces``, one a token, then raises ``error`` if there is one.

    The gate, if any, holds it before piece ``gate_at``.
    """

    def __init__(
        self, *pieces: str, error: Exception | None = None, gate: Gate | None = None, gate_at: int = 0
    ) -> None:
        self.pieces, self.error, self.gate, self.gate_at = pieces, error, gate, gate_at
        self.asked: list[Asked] = []
        self.prefilled: list[tuple[int, tuple[Message, ...]]] = []
        self.given = 0

    def prefill(self, slot: int, messages: Sequence[Message], cancelled: Callable[[], bool]) -> None:
        self.prefilled.append((slot, tuple(messages)))
        if self.gate is not None:
            self.gate.hold()

    def generate(
        self,
        slot: int,
        messages: Sequence[Message],
        on_text: Callable[[str], bool],
        *,
        max_tokens: int,
        prefix: str = "",
    ) -> None:
        self.asked.append(Asked(slot, tuple(messages), max_tokens, prefix))
        said = 0
        while said < len(self.pieces) and len("".join(self.pieces[:said])) < len(prefix):
            said += 1
        for index, piece in list(enumerate(self.pieces))[said : said + max_tokens]:
            if self.gate is not None and index == self.gate_at:
                self.gate.hold()
            self.given += 1
            if on_text(piece):
                return
        if self.error is not None:
            raise self.error


class Tone:
    """A voice that gives ``pieces`` stretches of 10 ms for each clause."""

    languages = (Language.EN, Language.ZH)
    names = ("tone",)

    def __init__(
        self,
        pieces: int = 1,
        error: Exception | None = None,
        gate: Gate | None = None,
        on_piece: Callable[[], None] = lambda: None,
    ) -> None:
        self._pieces, self._error, self._gate, self._on_piece = pieces, error, gate, on_piece
        self.spoken: list[str] = []
        self.given = 0

    def prepare(self, name: str) -> None:
        """Nothing to get ready."""

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        self.spoken.append(text)
        if self._gate is not None:
            self._gate.hold()
        if self._error is not None:
            raise self._error
        for index in range(self._pieces):
            self.given += 1
            yield Voiced(np.full(240, 1000, np.int16), index == self._pieces - 1)
            self._on_piece()


class Hears:
    """A recogniser that always understands ``text``; the gate holds it between its two halves."""

    def __init__(self, text: str = "Hello.", gate: Gate | None = None, error: Exception | None = None) -> None:
        self._text, self._gate, self._error = text, gate, error

    def transcribe(
        self, audio: FloatPcm, language: Language | None = None, stale: Callable[[], bool] | None = None
    ) -> Transcript | None:
        if self._error is not None:
            raise self._error
        if self._gate is not None:
            self._gate.hold()
        if stale is not None and stale():
            return None
        return Transcript(self._text, language or Language.EN, 0.9)


class Surely:
    """A turn detector that always finds the turn finished."""

    def probability(self, audio: FloatPcm) -> float:
        return 0.95


@dataclass
class KnowsAll:
    """A router for which only prices need the world."""

    facts: tuple[str, ...] = field(default=())

    def needs_world(self, text: str) -> float:
        return 1.0 if "price" in text or "价格" in text else 0.0

    def set_facts(self, facts: Sequence[str]) -> None:
        self.facts = tuple(facts)
