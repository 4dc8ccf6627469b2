"""The cascade as an engine: loads the models once, shares them among sessions."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

from ..base import (
    Capabilities,
    Engine,
    EngineError,
    EngineEvent,
    EngineFull,
    EngineSession,
    Language,
    SessionOptions,
)
from ..silero import SileroModel, SileroVad
from .clauses import ClauseOptions
from .conductor import Conductor
from .dialogue import Dialogue
from .ear import Ear
from .parts import Recogniser, ReplyModel, TurnDetector, Voice, Voiced
from .reply import Finished, Piece, Reply
from .router import Embedder, FactRouter, Head
from .session import LONGEST_TEXT, CascadeSession
from .settings import CascadeSettings
from .tts.voices import VoiceBook
from .workers import Report, Workers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """The models that all sessions share; every one of them is safe from several threads."""

    recogniser: Recogniser
    turns: TurnDetector
    model: ReplyModel
    voices: VoiceBook
    speech: SileroModel
    embedder: Embedder
    head: Head
    close: Callable[[], None]


class _NoVoice:
    """Stands in for the voice of a language that has none here: what should be spoken becomes an error of its reply."""

    languages: tuple[Language, ...] = ()
    names: tuple[str, ...] = ()

    def __init__(self, error: EngineError) -> None:
        self._error = error

    def prepare(self, name: str) -> None:
        raise self._error

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        raise self._error


def _voice(voices: VoiceBook, language: Language, name: str | None) -> Voice:
    try:
        return voices.voice(language, name)
    except EngineError as error:
        return _NoVoice(error)


class CascadeEngine(Engine):
    """The default engine.

    ``load_parts`` loads the models (see :func:`~.loading.load`); it runs on a thread of its own, once.
    """

    name = "cascade"
    languages = (Language.EN, Language.ZH)
    modalities = frozenset(("audio",))
    capabilities = Capabilities(
        say=True,
        type=True,
        facts=True,
        persona=True,
        transcripts=True,
        overlap=True,
        snapshot=True,
        text_chars=LONGEST_TEXT,
    )

    def __init__(self, settings: CascadeSettings, load_parts: Callable[[CascadeSettings], Parts]) -> None:
        self._settings, self._load_parts = settings, load_parts
        self.unit_ms = settings.unit_ms
        self.max_sessions = settings.max_sessions
        self.voices = MappingProxyType(dict[Language, tuple[str, ...]]())
        self._parts: Parts | None = None
        self._lock = threading.Lock()
        self._free_seats = set(range(settings.max_sessions))
        self._sessions: set[CascadeSession] = set()

    async def load(self) -> None:
        if self._parts is None:
            parts = await asyncio.to_thread(self._load_parts, self._settings)
            self._parts = parts
            self.voices = MappingProxyType({language: parts.voices.names(language) for language in Language})
            self.languages = tuple(language for language in Language if parts.voices.names(language))

    def open(self, options: SessionOptions) -> EngineSession:
        parts = self._parts
        if parts is None:
            raise EngineError("the engine is not loaded: await load() first")
        router = FactRouter(parts.embedder, parts.head)
        dialogue = Dialogue(options, self._settings, parts.voices, router)
        with self._lock:
            if not self._free_seats:
                raise EngineFull(f"all {self.max_sessions} sessions of the engine are in use")
            seat = min(self._free_seats)  # the first seats are the ones whose rules are still cached
            self._free_seats.remove(seat)
        session: CascadeSession | None = None

        def closed() -> None:
            with self._lock:
                self._free_seats.add(seat)
                if session is not None:
                    self._sessions.discard(session)

        def workers(post: Callable[[Report], None]) -> Workers:
            return Workers(parts.recogniser, parts.turns, parts.model, seat, post)

        def build(emit: Callable[[EngineEvent], None], crew: Workers, post: Callable[[Report], None]) -> Conductor:
            return self._conductor(parts, dialogue, options, emit, crew, post)

        session = CascadeSession(build, workers, dialogue, self.unit_ms, closed)
        with self._lock:
            self._sessions.add(session)
        return session

    def _conductor(
        self,
        parts: Parts,
        dialogue: Dialogue,
        options: SessionOptions,
        emit: Callable[[EngineEvent], None],
        workers: Workers,
        post: Callable[[Piece | Finished], None],
    ) -> Conductor:
        clauses = ClauseOptions(
            first_chars=self._settings.first_clause_chars, first_words_most=self._settings.first_clause_words
        )

        def make_reply(generation: int, language: Language) -> Reply:
            name = dialogue.voice(language)
            voice = _voice(parts.voices, language, name)
            return Reply(generation, voice, name, post, options=clauses, pause_for_voice=parts.voices.heavy(voice))

        ear = Ear(SileroVad(parts.speech))
        return Conductor(ear, dialogue, workers, emit, make_reply, self._settings, fast=options.fast)

    async def close(self) -> None:
        with self._lock:
            sessions = list(self._sessions)
        await asyncio.gather(*(session.close() for session in sessions))
        parts, self._parts = self._parts, None
        if parts is not None:
            await asyncio.to_thread(parts.close)
