"""Which voice speaks: a registry by language and name, and the choice for each clause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...base import EngineError, Language
from ..parts import Voice, Voiced
from .g2p import has_han


@dataclass(frozen=True, slots=True)
class VoiceEntry:
    """A voice called ``name`` of ``language``.  ``heavy`` ones need every core while they speak."""

    language: Language
    name: str
    voice: Voice
    heavy: bool = False


class VoiceBook:
    """The voices there are; the first entry of a language is its default."""

    def __init__(self, entries: Sequence[VoiceEntry]) -> None:
        self._entries: Mapping[Language, Mapping[str, VoiceEntry]] = {
            language: {entry.name: entry for entry in entries if entry.language is language} for language in Language
        }

    def names(self, language: Language) -> tuple[str, ...]:
        """The voices of a language, the default first."""
        return tuple(self._entries[language])

    def voice(self, language: Language, name: str | None = None) -> Voice:
        """The voice ``name`` of ``language``, or its default one.

        A clause with Chinese characters goes to the default Chinese voice when the voice itself does not speak Chinese.
        Raises ``ValueError`` for an unknown name, :class:`~...base.EngineError` when the language has no voice.
        """
        return _Speaker(self, self._entry(language, name))

    def heavy(self, voice: Voice) -> bool:
        """Whether a voice of this book needs every core while it speaks."""
        entries = (entry for names in self._entries.values() for entry in names.values())
        return voice.entry.heavy if isinstance(voice, _Speaker) else any(e.heavy for e in entries if e.voice is voice)

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        """Speak a clause in the voice that suits its text, ``name`` and ``language``; errors as of :meth:`voice`."""
        if language is None:
            language = self._language_of(name) or (Language.ZH if has_han(text) else Language.EN)
        return self.voice(language, name).synthesize(text)

    def prepare(self, name: str) -> None:
        """Get the voice ``name`` ready for its first word.  Raises ``ValueError`` when there is none of that name."""
        language = self._language_of(name)
        if language is None:
            raise ValueError(f"unknown voice {name!r}: there are {self._all()}")
        self._entry(language, name).voice.prepare(name)

    def for_clause(self, entry: VoiceEntry, text: str) -> VoiceEntry:
        """The entry itself, or the default Chinese one for Chinese characters that it cannot speak."""
        speaks = entry.language is Language.ZH or not has_han(text)
        return entry if speaks or not self._entries[Language.ZH] else self._entry(Language.ZH, None)

    def _language_of(self, name: str | None) -> Language | None:
        return next((language for language, names in self._entries.items() if name in names), None)

    def _entry(self, language: Language, name: str | None) -> VoiceEntry:
        names = self._entries[language]
        if name is None:
            if not names:
                raise EngineError(f"There is no voice for '{language}' here; there are: {self._all()}")
            return next(iter(names.values()))
        if name not in names:
            raise ValueError(f"unknown voice {name!r} for '{language}': there are {self._all()}")
        return names[name]

    def _all(self) -> str:
        listed = (f"{language}: {', '.join(names)}" for language, names in self._entries.items() if names)
        return "; ".join(listed) or "none"


class _Speaker:
    """One voice of the book, with the Chinese one behind it."""

    def __init__(self, book: VoiceBook, entry: VoiceEntry) -> None:
        self._book, self.entry = book, entry
        self.languages = (entry.language,)
        self.names = (entry.name,)

    def prepare(self, name: str) -> None:
        self._book.prepare(name)

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        entry = self.entry if name is None or name == self.entry.name else None
        if entry is None:
            raise ValueError(f"this is the voice {self.entry.name!r}, not {name!r}")
        chosen = self._book.for_clause(entry, text)
        return chosen.voice.synthesize(text, chosen.name, chosen.language)
