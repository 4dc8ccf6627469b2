"""From the pieces of a duplex session to the events of utterances: names, sample positions, words and their spans."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..base import OUTPUT_HZ, EngineError, EngineEvent, FloatPcm, Int16Pcm, Speech, Text, TurnEnded

_UNFINISHED: Final = re.compile("(?:(?![\u2e80-\uffef])[\\w'\N{RIGHT SINGLE QUOTATION MARK}-])+$")
"""A word at the end of a text, which the next token may go on with; Chinese characters are words of their own."""
_LAST_WORD: Final = OUTPUT_HZ // 2
"""About how long a last word is heard."""


class Utterances:
    """One utterance at a time.  ``emit`` takes its events, in order."""

    def __init__(self, emit: Callable[[EngineEvent], None]) -> None:
        self._emit = emit
        self._count = 0
        self._samples = 0
        self._words = ""
        self.current = ""
        """The utterance that is being made, or nothing."""
        self.latest = ""
        """The utterance that was begun last; it may still be playing."""

    def begin(self) -> str:
        """The utterance that is being made; a new one if there is none.  Nothing is told yet."""
        if not self.current:
            self._count += 1
            self.current = self.latest = f"u{self._count}"
        return self.current

    def text(self, at_ms: int, text: str) -> None:
        """Words that were generated; they are told with the speech they are heard in, or at the end of the unit."""
        self.begin()
        self._words += text

    def speech(self, at_ms: int, pcm: FloatPcm) -> None:
        """The next stretch of speech, at 24 kHz.  :class:`EngineError` for samples that are no numbers."""
        if not np.isfinite(pcm).all():
            raise EngineError("the speech decoder gave samples that are no numbers: fetch the weights again")
        self.begin()
        self._tell(at_ms)
        self._emit(Speech(at_ms, self.current, self._samples, int16(pcm)))
        self._samples += len(pcm)

    def unit_over(self, at_ms: int) -> None:
        """No more speech comes for the words of this second."""
        if self.current:
            self._tell(at_ms)

    def end(self, at_ms: int) -> None:
        """The utterance is complete, or given up."""
        if not self.current:
            return
        if self._words:
            first = max(0, self._samples - _LAST_WORD)
            self._emit(Text(at_ms, self.current, self._words, first, max(self._samples, first + 1)))
        self._emit(TurnEnded(at_ms, self.current, self._samples))
        self.current, self._samples, self._words = "", 0, ""

    def snapshot(self) -> dict[str, Any]:
        """How many there were, so that a name is never used twice."""
        return {"count": self._count}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on counting, from whichever is more."""
        self._count = max(self._count, int(snapshot["count"]))

    def _tell(self, at_ms: int) -> None:
        """Tell the words up to the last whole one: by training they take about the second that is being voiced."""
        unfinished = _UNFINISHED.search(self._words)
        whole = self._words[: unfinished.start()] if unfinished else self._words
        if whole:
            self._emit(Text(at_ms, self.current, whole, self._samples, self._samples + OUTPUT_HZ))
            self._words = self._words[len(whole) :]


def int16(pcm: FloatPcm) -> Int16Pcm:
    """``float32[n]`` in [-1, 1] as 16-bit samples; louder ones are clipped."""
    return np.clip(np.rint(pcm * np.float32(32_767)), -32_768, 32_767).astype(np.int16)
