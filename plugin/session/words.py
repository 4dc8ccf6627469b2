"""Which words of an utterance were heard: a lookup from samples to text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """``text`` is spoken in samples ``[first, end)``."""

    text: str
    first: int
    end: int


def heard_text(spans: Sequence[Span], heard: int) -> str:
    """The words that lie within the first ``heard`` samples.

    Of a span that was cut, the same share of its text counts, down to the last whole word (or Chinese character).
    """
    parts: list[str] = []
    for span in spans:
        if span.end <= heard:
            parts.append(span.text)
        elif span.first < heard:
            share = (heard - span.first) / (span.end - span.first)
            parts.append(_whole_words(span.text, int(len(span.text) * share)))
    return join_words(parts)


def join_words(parts: Iterable[str]) -> str:
    """Pieces of speech as one text: a space between words where neither piece brings one, none between characters."""
    text = ""
    for part in filter(None, parts):
        joint = bool(text) and not text[-1].isspace() and not part[0].isspace()
        text += " " + part if joint and _spaced(text[-1]) and _spaced(part[0]) else part
    return text.strip()


def _whole_words(text: str, length: int) -> str:
    if 0 < length < len(text) and _in_word(text[length - 1]) and _in_word(text[length]):
        while length and _in_word(text[length - 1]):
            length -= 1
    return text[:length].rstrip()


def _wide(char: str) -> bool:
    """Chinese characters and the full-width forms that go with them."""
    return "\u2e80" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or "\uff00" <= char <= "\uffef"


def _in_word(char: str) -> bool:
    return (char.isalnum() or char in "'’-") and not _wide(char)


def _spaced(char: str) -> bool:
    return not _wide(char)
