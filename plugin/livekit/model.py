"""The full-duplex model for ``AgentSession(llm=...)``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from livekit.agents import llm

from ...engines.base import Engine, EngineError, Language, VenusError
from ..settings import load_settings
from .compat import check_version
from .gate import SpeakingGate
from .options import DuplexOptions
from .session import DuplexSession

if TYPE_CHECKING:
    from ..reflex import SpeechDetector
    from ..session import SessionSettings

check_version()


class DuplexModel(llm.DuplexModel):
    """Listens and speaks at the same time, on this machine.

    ``engine`` may be loaded or not, and is closed by whoever made it; without one the offline cascade is made and
    loaded when the first session begins (or by :meth:`load`), once for all sessions of the model.

    ``language`` is ``"en"``, ``"zh"`` or ``"auto"`` (follow the user), ``voice`` one of the engine's, ``persona`` who
    the agent is where its LiveKit instructions are empty, ``facts`` what it may state of the changing world.
    ``settings`` replace those of every session (section ``session`` of ``VENUS_...`` variables and ``venus.toml``, from
    which the cascade takes its own too); ``detector`` makes each one's speech detector instead of Silero.

    May be used from several threads, each with an event loop and sessions of its own.
    """

    def __init__(
        self,
        *,
        engine: Engine | None = None,
        language: Language | str = "auto",
        voice: str | None = None,
        persona: str | None = None,
        facts: Sequence[str] = (),
        options: DuplexOptions | None = None,
        settings: SessionSettings | None = None,
        detector: Callable[[], SpeechDetector] | None = None,
    ) -> None:
        can_persona = engine is None or engine.capabilities.persona
        transcribes = engine is None or engine.capabilities.transcripts
        super().__init__(
            capabilities=llm.DuplexCapabilities(
                user_transcription=transcribes,
                auto_tool_reply_generation=True,
                mutable_chat_context=True,
                mutable_instructions=can_persona,
                mutable_tools=True,  # any change is taken: none is used
            )
        )
        if isinstance(facts, str):
            raise TypeError("facts are a sequence of statements, not one text")
        self.language = _language(language)
        self.voice = voice
        self.persona = persona
        self.facts = tuple(facts)
        self.options = options or DuplexOptions()
        self.detector = detector
        self._settings = settings
        self._engine = engine
        self._owns_engine = engine is None
        self._lock = threading.Lock()
        self._loading: Future[Engine] | None = None

    @property
    def model(self) -> str:
        """The engine's name."""
        return "cascade" if self._engine is None else self._engine.name

    @property
    def provider(self) -> str:
        """``venus``."""
        return "venus"

    @property
    def engine(self) -> Engine:
        """The engine.  Raises ``RealtimeError`` before the model's own is loaded."""
        if self._engine is None:
            raise llm.RealtimeError("the models are not loaded yet: await load() first")
        return self._engine

    def session_settings(self) -> SessionSettings:
        """The settings of each session.  Raises :class:`~realtime_venus.plugin.settings.BadSetting`."""
        from ..session import SessionSettings  # heavy

        return self._settings or load_settings().section(SessionSettings)

    def audio_gate(self) -> SpeakingGate:
        """A gate that goes by what the session says, not by loudness."""
        return SpeakingGate()

    def session(self) -> DuplexSession:
        """A conversation; LiveKit calls this."""
        return DuplexSession(self)

    async def load(self) -> Engine:
        """Load the models now; repeated and simultaneous calls load once.  Raises :class:`VenusError`."""
        with self._lock:
            loading = self._loading
            mine = loading is None
            if loading is None:
                loading = self._loading = Future[Engine]()
        if mine:
            try:
                engine = self._engine or await asyncio.to_thread(_cascade)
                self._engine = engine
                await engine.load()
            except BaseException as error:
                with self._lock:
                    self._loading = None
                told = error if isinstance(error, VenusError) else EngineError("the models could not be loaded")
                loading.set_exception(told)
                raise
            loading.set_result(engine)
            return engine
        return await asyncio.shield(asyncio.wrap_future(loading))

    async def __aenter__(self) -> DuplexModel:
        return self

    async def aclose(self) -> None:
        """Free the model's own engine; one that was given stays.  Close the sessions first."""
        if self._owns_engine and self._engine is not None:
            with self._lock:
                engine, self._engine, self._loading = self._engine, None, None
            await engine.close()


def _cascade() -> Engine:
    from ...engines import catalog  # heavy
    from ...engines.cascade.settings import CascadeSettings
    from ...engines.store.settings import ModelsSettings

    settings = load_settings()
    return catalog.create("cascade", settings.section(CascadeSettings), settings.section(ModelsSettings))


def _language(language: Language | str) -> Language | None:
    if language == "auto":
        return None
    try:
        return Language(language)
    except ValueError:
        known = ", ".join(repr(one.value) for one in Language)
        raise ValueError(f"unknown language {language!r}: known are {known} and 'auto'") from None
