"""What the agent says in one go: its samples, the words in them, and how much of it was heard."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base import OUTPUT_HZ, Language

PER_CHARACTER = {Language.EN: OUTPUT_HZ // 14, Language.ZH: OUTPUT_HZ // 5}
"""Samples a character takes, roughly: the span of a clause before all of it is voiced (measured on both default
voices).
"""


@dataclass(slots=True)
class Span:
    """A clause and its samples ``[first, end)``; ``end`` is an estimate until the clause is wholly voiced."""

    text: str
    first: int
    end: int
    exact: bool = False


@dataclass(slots=True)
class Utterance:
    """One utterance; sample counts are at 24 kHz from its start."""

    id: str
    language: Language
    samples: int = 0
    heard: int = 0
    spans: list[Span] = field(default_factory=list[Span])
    written: str = ""
    """All of its text, once the model has written it."""
    complete: bool = False
    """Nothing more will be voiced."""
    yielded: bool = False
    """The user took the floor before it was over."""

    def add(self, samples: int, clause: str | None, last: bool) -> Span | None:
        """Count ``samples`` more; gives the span of the clause when one begins with them."""
        first = self.samples
        self.samples += samples
        begun: Span | None = None
        if clause is not None:
            guess = max(samples, len(clause) * PER_CHARACTER[self.language])
            begun = Span(clause, first, self.samples if last else first + guess)
            self.spans.append(begun)
        if last and self.spans:
            self.spans[-1].end, self.spans[-1].exact = self.samples, True
        return begun

    def on_heard(self, samples: int) -> None:
        """Playback truth; never goes back, never beyond what was voiced."""
        self.heard = max(self.heard, min(samples, self.samples))

    @property
    def text(self) -> str:
        """All words voiced so far."""
        return "".join(span.text for span in self.spans)

    @property
    def heard_text(self) -> str:
        """The words that were heard: whole clauses, and of the clause that was cut the share of it, ended at a word."""
        return "".join(_share(span, self.heard, self.language) for span in self.spans)


def _share(span: Span, heard: int, language: Language) -> str:
    if heard >= span.end:
        return span.text
    if heard <= span.first:
        return ""
    cut = len(span.text) * (heard - span.first) // (span.end - span.first)
    if language is Language.ZH:
        return span.text[:cut]
    return span.text[: span.text.rfind(" ", 0, cut + 1) + 1] if cut < len(span.text) else span.text
