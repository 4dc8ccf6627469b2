"""What the cascade is made of, as small interfaces, so that each part can be replaced, faked in tests, or fall back.

All calls block the calling thread and are safe from any thread unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..base import FloatPcm, Int16Pcm, Language

CLOSE_S = 3.0
"""How long closing waits for calls in progress: native code cannot be stopped in its middle."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """What the recogniser understood.  ``confidence`` is the mean token log probability as a probability, in [0, 1]."""

    text: str
    language: Language
    confidence: float


class Recogniser(Protocol):
    """Speech to text, English and Mandarin (Simplified script)."""

    def transcribe(
        self, audio: FloatPcm, language: Language | None = None, stale: Callable[[], bool] | None = None
    ) -> Transcript | None:
        """Transcribe ``audio`` (mono 16 kHz, at most 30 s are used, the newest).

        ``language`` ``None`` detects it.  ``stale`` is asked between encoder and decoder; when it answers true the work
        is dropped and ``None`` returned.  Silence gives an empty text.
        """
        ...


class TurnDetector(Protocol):
    """Whether the speech heard so far is a finished turn, by its sound."""

    def probability(self, audio: FloatPcm) -> float:
        """Probability in [0, 1] that the speaker has finished; ``audio`` is mono 16 kHz, the newest 8 s are used."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """One side of the dialogue as the language model sees it; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


class ReplyModel(Protocol):
    """A language model with a cached prompt prefix per slot (one for each language of each session).

    One call per slot at a time.
    """

    def prefill(self, slot: int, messages: Sequence[Message], cancelled: Callable[[], bool]) -> None:
        """Run the prompt through the model, the last message left open, so that a longer one finds its prefix."""
        ...

    def generate(
        self,
        slot: int,
        messages: Sequence[Message],
        on_text: Callable[[str], bool],
        *,
        max_tokens: int,
        prefix: str = "",
    ) -> None:
        """Generate the assistant's next message; ``on_text`` gets each piece and ends the generation by returning true.

        ``prefix`` is what the assistant has already said of this message (generation goes on from there).
        """
        ...


@dataclass(frozen=True, slots=True)
class Voiced:
    """A piece of synthetic speech: ``pcm`` is int16 mono at 24 kHz, leading silence trimmed off the first piece."""

    pcm: Int16Pcm
    last: bool


class Voice(Protocol):
    """Text to speech in one or more languages."""

    @property
    def languages(self) -> tuple[Language, ...]: ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the voices, the default first."""
        ...

    def prepare(self, name: str) -> None:
        """Do what the first word in the voice ``name`` would wait for.  Raises ``ValueError`` for an unknown one."""
        ...

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        """Speak a clause (already in spoken form); yields pieces as soon as they exist.  Closing the iterator
        cancels.
        """
        ...


class Router(Protocol):
    """Tells whether a question can be answered from settled knowledge and the given facts."""

    def needs_world(self, text: str) -> float:
        """Probability in [0, 1] that an honest answer needs something that changes, is local or personal."""
        ...
