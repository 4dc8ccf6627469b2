"""Parts for the components that answer at once, or fail, or wait for a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.parts import Message, Recogniser, Voice
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.cascade.tts.voices import VoiceBook, VoiceEntry
from realtime_venus.engines.silero import SileroModel
from realtime_venus.plugin.livekit.components.parts import AnswerModel, Lazy, Parts, Usage

from ....kit.cascade import Gate, Hears, Tone

T = TypeVar("T")


class Writes:
    """A language model that writes ``pieces``, held by the gate before piece ``gate_at``."""

    name = "writes"

    def __init__(
        self,
        *pieces: str,
        error: Exception | None = None,
        gate: Gate | None = None,
        gate_at: int = 0,
        context_tokens: int = 2048,
    ) -> None:
        self.pieces, self.error, self.gate, self.gate_at = pieces, error, gate, gate_at
        self.context_tokens = context_tokens
        self.asked: list[tuple[Message, ...]] = []
        self.most: list[int] = []
        self.given = 0
        self.closed = False

    def answer(
        self,
        messages: Sequence[Message],
        on_text: Callable[[str], bool],
        *,
        max_tokens: int,
        cancelled: Callable[[], bool],
    ) -> Usage | None:
        self.asked.append(tuple(messages))
        self.most.append(max_tokens)
        for index, piece in enumerate(self.pieces):
            if self.gate is not None and index == self.gate_at:
                self.gate.hold()
            self.given += 1
            if on_text(piece):
                return None
        if self.error is not None:
            raise self.error
        return Usage(prompt=20, cached=15, completion=len(self.pieces))

    def close(self) -> None:
        self.closed = True


def book(english: Voice, chinese: Voice | None = None) -> VoiceBook:
    """Voices ``heart`` and ``clear`` for English, and ``zf`` for Chinese if there is one."""
    entries = [VoiceEntry(Language.EN, name, _Named(english, name)) for name in ("heart", "clear")]
    if chinese is not None:
        entries.append(VoiceEntry(Language.ZH, "zf", _Named(chinese, "zf")))
    return VoiceBook(entries)


class _Named:
    """A voice that the book knows under a name, which the tone itself does not care for."""

    languages = (Language.EN, Language.ZH)

    def __init__(self, voice: Voice, name: str) -> None:
        self._voice, self.names = voice, (name,)

    def prepare(self, name: str) -> None:
        """Nothing to get ready."""

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None):
        return self._voice.synthesize(f"{self.names[0]}: {text}")


def parts_of(
    *,
    recogniser: Recogniser | Exception | None = None,
    model: AnswerModel | Exception | None = None,
    voices: VoiceBook | Exception | None = None,
    settings: CascadeSettings | None = None,
) -> Parts:
    """Parts of fakes; an exception is raised by the loading."""
    kept = settings or CascadeSettings()
    return Parts(
        settings=lambda: kept,
        recogniser=Lazy(_loader(cast("Recogniser | Exception", recogniser or Hears()))),
        model=Lazy(_loader(cast("AnswerModel | Exception", model or Writes("Hello.")))),
        voices=Lazy(_loader(voices or book(Tone(), Tone()))),
        speech=Lazy(SileroModel),
    )


def _loader(given: T | Exception) -> Callable[[], T]:
    def load() -> T:
        if isinstance(given, Exception):
            raise given
        return given

    return load


def told(component: object, event: str, kind: type[T]) -> list[T]:
    """What the component emits as ``event`` from now on."""
    heard: list[T] = []
    cast(Any, component).on(event, heard.append)
    return heard
