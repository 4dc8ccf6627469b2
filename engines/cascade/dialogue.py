"""What a session says and remembers: settings of the conversation, history, and the script of each reply.

The conductor's thread records what happens; the writing thread asks for prompts and scripts; both take the lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from ..base import Changes, EngineError, Language, SessionOptions
from .facts import Clock, clean_facts, clock_answer, local_clock
from .history import History, Limits
from .honest import all_lines, cannot_look_up
from .parts import Message, Router
from .prompt import Brief, final_message, opening, partial_message, typed_message
from .reply import Script
from .settings import CascadeSettings
from .tts.voices import VoiceBook
from .utterance import Utterance

_log = logging.getLogger(__name__)


def _limits(context_tokens: int) -> Limits:
    """What the conversation may take of the model's context: rules, question and answer need the other half."""
    usual, share = Limits(), context_tokens // 2
    return Limits(tokens=min(usual.tokens, share), keep_tokens=min(usual.keep_tokens, share // 2))


_SAY_AGAIN = {
    Language.EN: "Sorry, I didn't get that. Could you say it again?",
    Language.ZH: "不好意思，我没听明白，能再说一遍吗？",
}


class FactsRouter(Router, Protocol):
    """A router that knows which facts were given."""

    def set_facts(self, facts: Sequence[str]) -> None: ...


class Dialogue:
    """One conversation's content.  Raises ``ValueError`` for a voice, persona or fact that cannot be."""

    def __init__(
        self,
        options: SessionOptions,
        settings: CascadeSettings,
        voices: VoiceBook,
        router: FactsRouter,
        clock: Clock = local_clock,
    ) -> None:
        self._lock = threading.RLock()
        self._voices, self._router, self._clock = voices, router, clock
        self._settings = settings
        self._history = History(_limits(settings.context_tokens))
        self._language = options.language
        self._latest = options.language or Language.EN
        self._voice = self._check_voice(options.voice)
        self._given_facts = settings.facts
        self._brief = Brief(
            options.persona or settings.persona,
            options.system_prompt or settings.system_prompt,
            clean_facts((*settings.facts, *options.facts)),
        )
        router.set_facts(self._brief.facts)
        self._current: Utterance | None = None

    # -- settings ---------------------------------------------------------------------------------------------------

    @property
    def language(self) -> Language | None:
        """The language set for the session, or ``None`` when it follows the user."""
        return self._language

    @property
    def latest_language(self) -> Language:
        """The language of the conversation as it stands."""
        return self._language or self._latest

    def voice(self, language: Language) -> str | None:
        """The voice chosen, when it speaks ``language``."""
        chosen = self._voice
        return chosen if chosen is not None and chosen in self._voices.names(language) else None

    def chosen_voice(self) -> Callable[[], None] | None:
        """What gets the voice that was chosen ready, or ``None`` when none was."""
        chosen = self._voice
        return None if chosen is None else lambda: self._voices.prepare(chosen)

    def check(self, changes: Changes) -> None:
        """Raise ``ValueError`` when ``changes`` name an unknown voice or facts that are too long."""
        if changes.voice != "auto":
            self._check_voice(changes.voice)
        Brief(persona=changes.persona)
        if changes.facts is not None:
            clean_facts((*self._given_facts, *changes.facts))

    def configure(self, changes: Changes) -> None:
        """Take changes that :meth:`check` let through."""
        with self._lock:
            if changes.language == "auto":
                self._language = None
            elif changes.language is not None:
                self._language = changes.language
            if changes.voice is not None:
                self._voice = None if changes.voice == "auto" else self._check_voice(changes.voice)
            persona = self._brief.persona if changes.persona is None else changes.persona
            facts = self._brief.facts
            if changes.facts is not None:
                facts = clean_facts((*self._given_facts, *changes.facts))
            self._brief = Brief(persona, self._brief.system_prompt, facts)
            self._router.set_facts(facts)

    def _check_voice(self, name: str | None) -> str | None:
        if not name:
            return None
        known = [voice for language in Language for voice in self._voices.names(language)]
        if name not in known:
            raise ValueError(f"unknown voice {name!r}: known are {', '.join(known)}")
        return name

    # -- what is said -------------------------------------------------------------------------------------------------

    def rules(self, language: Language) -> Sequence[Message]:
        """What stands before every conversation in ``language``."""
        with self._lock:
            return self._before(language)

    def open_prompt(self, text: str, language: Language) -> Sequence[Message]:
        """The prompt of a turn still in progress, for the model's prefix cache."""
        with self._lock:
            return [*self._before(language), partial_message(text)]

    def script(self, text: str, language: Language, *, typed: bool = False) -> Script:
        """The reply to a whole turn: a fixed honest line, the clock, or a prompt for the model."""
        now = self._clock()
        if (time := clock_answer(text, language, now)) is not None:
            return Script(language, text=time)
        with self._lock:
            last = typed_message(text, language, now) if typed else final_message(text, language, now)
            messages = [*self._before(language), last]
        return Script(language, messages, instead=lambda: self._honest(text, language))

    def _honest(self, text: str, language: Language) -> str:
        """What is said instead of an answer that would have to be invented, or nothing."""
        try:
            if self._router.needs_world(text) < self._settings.world_threshold:
                return ""
        except (EngineError, RuntimeError, OSError):
            # It is asked while the model already answers: better an answer without this check than none.
            _log.exception("the router failed")
            return ""
        lines = all_lines(language)
        with self._lock:
            said_before = sum(turn.said in lines for turn in self._history.turns)
        return cannot_look_up(language, said_before)

    def say_again(self, language: Language) -> str:
        """What is said when there is no answer."""
        return _SAY_AGAIN[language]

    def _before(self, language: Language) -> list[Message]:
        summary = self._history.summary()
        return [*opening(self._brief, language, self._clock(), summary), *self._history.messages()]

    # -- what happened ------------------------------------------------------------------------------------------------

    def began(self, utterance: Utterance, user_text: str) -> None:
        """The agent begins to speak, in answer to ``user_text`` (empty: by itself)."""
        with self._lock:
            self._latest = utterance.language
            self._current = utterance
            if user_text:
                self._history.user(final_message(user_text, utterance.language, self._clock()).content, self._latest)
            self.wrote(utterance)

    def wrote(self, utterance: Utterance) -> None:
        """More of the reply is written; it counts once the agent has begun to speak it."""
        with self._lock:
            if utterance is self._current and utterance.written:
                self._history.agent(utterance.written.strip(), utterance.language)

    def heard(self, utterance_id: str, samples: int) -> None:
        """Playback truth for the utterance; a report about an older one changes nothing that the model sees."""
        with self._lock:
            current = self._current
            if current is None or current.id != utterance_id:
                return
            current.on_heard(samples)
            if current.yielded:
                self._history.heard(current.heard_text)

    def ended(self, utterance: Utterance) -> None:
        """The utterance is over: played to its end, or the user took the floor."""
        with self._lock:
            if utterance is not self._current:
                return
            if utterance.yielded:
                self._history.agent(utterance.text.strip(), utterance.language)
                self._history.heard(utterance.heard_text)
            self._history.finished()
            self._history.compact()

    def take_back(self, utterance_id: str) -> None:
        """The turn that the utterance answered had not ended: both are forgotten."""
        with self._lock:
            if self._current is not None and self._current.id == utterance_id:
                self._history.take_back()
                self._current = None

    # -- keeping ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The history as UTF-8 JSON."""
        with self._lock:
            return self._history.dump().encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; ``ValueError`` when it is not one."""
        try:
            dumped = snapshot.decode()
        except UnicodeDecodeError as error:
            raise ValueError("not a snapshot of the cascade") from error
        with self._lock:
            self._history.load(dumped)
            self._latest = self._history.language or self._latest
