"""English speech by hibari (Apache-2.0): Kokoro's voice "heart" distilled to 8 MB, 100 times faster than speech."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Final, Protocol, cast

import numpy as np

from ...base import FloatPcm, Int16Pcm, Language, MissingExtra
from ..parts import Voiced
from .pcm import sentences, to_int16, with_tail, without_lead

try:
    import hibari
except ImportError as error:
    raise MissingExtra(__name__, "local") from error

_SPOKEN: Final = re.compile(r"\w")
_SEED: Final = 1
"""Of the noise in fricatives and breath: the same text always gives the same samples."""


class _Engine(Protocol):
    def __call__(self, text: str, speed: float, seed: int) -> FloatPcm: ...

    def g2p(self, text: str) -> str: ...


class _Library(Protocol):
    def Hibari(self, *, voice: str, threads: int) -> _Engine: ...  # noqa: N802 - hibari's name


class HibariVoice:
    """A :class:`~..parts.Voice` for English with one voice, ``heart``; safe from several threads at once.

    Only the voice inside the package is used: the others would be downloaded.
    """

    languages = (Language.EN,)
    names = ("heart",)

    def __init__(self, threads: int = 1) -> None:
        self._engine = cast(_Library, hibari).Hibari(voice="heart", threads=threads)
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Load the lexicon (half a second) and run the model once."""
        for _ in self.synthesize("Hello there."):
            pass

    def prepare(self, name: str) -> None:
        """Nothing: the one voice is inside the model.  Raises ``ValueError`` for another one."""
        if name not in self.names:
            raise ValueError(f"hibari has the English voice 'heart' only, not {name!r}")

    def phonemes(self, text: str) -> str:
        """English text in Kokoro's phonemes, punctuation kept; other scripts are left out."""
        with self._lock:
            return self._engine.g2p(text)

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        """Speak English; a piece per sentence.  Text without anything to say gives one empty piece.

        Raises ``ValueError`` for another voice or language.
        """
        if name not in (None, *self.names) or language not in (None, *self.languages):
            raise ValueError(f"hibari has the English voice 'heart' only, not {name!r} in {language}")
        return self._pieces(sentences(text) or [""])

    def _pieces(self, parts: list[str]) -> Iterator[Voiced]:
        for index, part in enumerate(parts):
            yield Voiced(self._speak(part), last=index == len(parts) - 1)

    def _speak(self, text: str) -> Int16Pcm:
        if not _SPOKEN.search(text):
            return np.zeros(0, np.int16)
        with self._lock:
            audio = without_lead(self._engine(text, 1.0, _SEED))
        return to_int16(with_tail(audio, text)) if len(audio) else np.zeros(0, np.int16)
