"""A reply being spoken, clause by clause, as its text comes.  Everything here runs on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ....engines.base import Int16Pcm, Language
from ....engines.cascade.clauses import ClauseCutter, ClauseOptions
from ....engines.cascade.script import language_of, shares
from ....engines.cascade.settings import CascadeSettings
from ....engines.cascade.spoken import spoken
from ....engines.cascade.tts.voices import VoiceBook

_ENGLISH: Final = 2.0
"""So much English in a clause (words, names count half) makes it one to be spoken in English in a Chinese reply."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A stretch of the text that is spoken in one go."""

    text: str
    language: Language


class Clauses:
    """Cuts a text that comes in pieces into clauses and finds the language of each by its script.

    ``language`` settles it instead.  What is shorter than a few words in the other language is part of what is around.
    """

    def __init__(self, language: Language | None, options: ClauseOptions) -> None:
        self._settled, self._options = language, options
        self._language: Language | None = language
        self._beginning = ""
        self._cutter = ClauseCutter(language or Language.EN, options)

    def feed(self, piece: str) -> list[Clause]:
        """The clauses that are complete with this piece."""
        if self._language is None:
            # Until there is a clause the script may still turn out to be the other one.
            self._beginning += piece
            self._cutter = ClauseCutter(language_of(self._beginning) or Language.EN, self._options)
            piece = self._beginning
        return [self._clause(text) for text in self._cutter.feed(piece)]

    def finish(self) -> list[Clause]:
        """What is left of the text."""
        rest = self._cutter.finish()
        return [self._clause(rest)] if rest.strip() else []

    def _clause(self, text: str) -> Clause:
        if self._settled is None:
            found = language_of(text)
            sure = found is Language.ZH or self._language is None or shares(text)[0] >= _ENGLISH
            self._language = found if found is not None and sure else self._language or Language.EN
        return Clause(text, self._language or Language.EN)


class Speaker:
    """Speaks clauses with the voice ``name``, or with the default one of a language that it does not speak.

    Raises ``ValueError`` for a name that no voice has.
    """

    def __init__(self, voices: VoiceBook, name: str | None) -> None:
        names = {language: voices.names(language) for language in Language}
        if name is not None and not any(name in known for known in names.values()):
            listed = "; ".join(f"{language.value}: {', '.join(known)}" for language, known in names.items() if known)
            raise ValueError(f"unknown voice {name!r}: there are {listed}")
        self._voices, self._name, self._names = voices, name, names

    def speak(self, clause: Clause) -> Iterator[Int16Pcm]:
        """The samples (24 kHz) of what is said for the clause, as they are made; nothing when nothing is said."""
        words = spoken(clause.text, clause.language)
        if not words:
            return
        name = self._name if self._name in self._names[clause.language] else None
        for voiced in self._voices.voice(clause.language, name).synthesize(words):
            if len(voiced.pcm):
                yield voiced.pcm


def clause_options(settings: CascadeSettings) -> ClauseOptions:
    """How long clauses are, as the settings say."""
    return ClauseOptions(first_chars=settings.first_clause_chars, first_words_most=settings.first_clause_words)
