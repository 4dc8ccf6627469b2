"""One reply: from the user's words to voiced clauses, on two worker threads, cancellable at any moment.

The language model's text is cut into clauses as it comes; each clause is brought into spoken form and voiced while
the model goes on.  For a voice that needs both cores (Kokoro) the model stops after the first clause and goes on once
that clause is voiced: running both at once delays the first sound by 0.2 s (measured in the spike).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ..base import EngineError, Int16Pcm, Language
from .clauses import ClauseCutter, ClauseOptions
from .parts import Message, ReplyModel, Voice
from .spoken import spoken

VOICED_DEADLINE_S = 10.0
"""The model waits no longer than this for the first clause to be voiced."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of voiced speech; ``clause`` is its text, sent with the first piece of the clause."""

    generation: int
    clause: str | None
    pcm: Int16Pcm
    last: bool
    """The last piece of its clause."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is complete: ``text`` is all of it as written, ``error`` says why it broke off."""

    generation: int
    text: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """What a reply is made of: a fixed ``text``, or ``messages`` for the language model.

    ``instead`` is asked on a thread of its own while the model begins; what it gives, if anything, is said instead.
    """

    language: Language
    messages: Sequence[Message] = ()
    text: str = ""
    instead: Callable[[], str] | None = None


class Reply:
    """A reply in the making.  ``post`` is called from worker threads with each :class:`Piece` and one
    :class:`Finished`.
    """

    def __init__(
        self,
        generation: int,
        voice: Voice,
        voice_name: str | None,
        post: Callable[[Piece | Finished], None],
        *,
        options: ClauseOptions,
        pause_for_voice: bool,
    ) -> None:
        self.generation = generation
        self._voice, self._voice_name, self._post = voice, voice_name, post
        self._options, self._pause = options, pause_for_voice
        self._clauses: queue.SimpleQueue[tuple[str, Language] | None] = queue.SimpleQueue()
        self._first_voiced = threading.Event()
        self._cancelled = False
        self._error = ""
        self._text: list[str] = []

    def cancel(self) -> None:
        """Stop at the next token and the next piece.  Nothing is posted afterwards by a cancelled reply."""
        self._cancelled = True
        self._first_voiced.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def abandon(self) -> None:
        """Let the voicing thread go when there will be no text."""
        self._clauses.put(None)

    # -- the writing thread -----------------------------------------------------------------------------------------

    def write(self, script: Script, model: ReplyModel, slot: int, max_tokens: int) -> None:
        """Produce the text.  Runs on a worker thread until the reply is written or cancelled."""
        try:
            if script.text:
                self._write_fixed(script.text, script.language)
            else:
                with ThreadPoolExecutor(1, "venus-route") as aside:
                    instead = aside.submit(script.instead or (lambda: ""))
                    self._write_generated(script, instead, model, slot, max_tokens)
        except EngineError as error:
            self._error = str(error)
        finally:
            self._clauses.put(None)

    def _write_fixed(self, text: str, language: Language) -> None:
        cutter = ClauseCutter(language, self._options)
        self._text = [text]
        for clause in [*cutter.feed(text), cutter.finish()]:
            self._hand_over(clause, language)

    def _write_generated(
        self, script: Script, instead: Future[str], model: ReplyModel, slot: int, max_tokens: int
    ) -> None:
        cutter = ClauseCutter(script.language, self._options)
        clauses = 0

        def on_text(piece: str) -> bool:
            nonlocal clauses
            if self._cancelled or (instead.done() and instead.result()):
                return True
            self._text.append(piece)
            before = clauses
            for clause in cutter.feed(piece):
                if instead.result():  # nothing may be said before it is known that it may be said
                    return True
                self._hand_over(clause, script.language)
                clauses += 1
            return self._pause and before == 0 and clauses > 0

        def paused() -> bool:
            return self._pause and clauses > 0 and not self._cancelled

        model.generate(slot, script.messages, on_text, max_tokens=max_tokens)
        if honest := instead.result():
            self._write_fixed(honest, script.language)
            return
        if paused():
            self._first_voiced.wait(VOICED_DEADLINE_S)
            left = max_tokens - len(self._text)
            if not self._cancelled and left > 0:
                model.generate(slot, script.messages, on_text, max_tokens=left, prefix="".join(self._text))
        self._hand_over(cutter.finish(), script.language)

    def _hand_over(self, clause: str, language: Language) -> None:
        if clause.strip() and not self._cancelled:
            self._clauses.put((clause, language))

    # -- the voicing thread -----------------------------------------------------------------------------------------

    def speak(self) -> None:
        """Voice the clauses.  Runs on a worker thread until the reply is spoken or cancelled.

        What is no :class:`~..base.EngineError` is raised, and then no :class:`Finished` is posted.
        """
        try:
            while (entry := self._clauses.get()) is not None:
                if not self._cancelled:
                    self._voice_clause(*entry)
                self._first_voiced.set()
        except EngineError as error:
            self._error = self._error or str(error)
        finally:
            self._first_voiced.set()
        if not self._cancelled:
            self._post(Finished(self.generation, "".join(self._text), self._error))

    def _voice_clause(self, clause: str, language: Language) -> None:
        words = spoken(clause, language)
        if not words:
            return
        shown: str | None = clause
        for voiced in self._voice.synthesize(words, self._voice_name, language):
            if self._cancelled:
                return
            self._post(Piece(self.generation, shown, voiced.pcm, voiced.last))
            shown = None
