"""The full-duplex model for ``AgentSession(llm=...)``."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from livekit.agents import llm

from ...engines.base import Engine, EngineError, Language, VenusError
from ..settings import load_settings
from .gate import SpeakingGate
from .options import DuplexOptions
from .session import DuplexSession

if TYPE_CHECKING:
    from ..reflex import SpeechDetector
    from ..session import SessionSettings

_log = logging.getLogger(__name__)

_Loading = Future[Engine | VenusError]
"""What the load comes to; a failure is a result, since those who waited for it may be gone."""


class _LoopEnded(EngineError):
    """Whoever loaded has gone with its event loop; the others may load themselves."""


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
        self._loading: _Loading | None = None
        self._load_task: asyncio.Task[Engine] | None = None
        self._breaking_off = False

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
        """Load the models now; repeated and simultaneous calls load once, and one that is cancelled stops no other.

        One whose event loop ends with the call it belonged to is begun anew by whoever waits elsewhere.  Raises
        :class:`VenusError`, also after ``options.load_s`` and when :meth:`aclose` breaks it off; the next call tries
        again.
        """
        while True:
            with self._lock:
                loading = self._loading
                if loading is None:
                    loading = self._loading = _Loading()
                    self._load_task = asyncio.create_task(self._made(), name="venus-livekit-load")
                    self._load_task.add_done_callback(partial(self._loaded, loading))
            made = await asyncio.shield(asyncio.wrap_future(loading))
            if isinstance(made, _LoopEnded):
                continue
            if isinstance(made, VenusError):
                raise made
            return made

    async def _made(self) -> Engine:
        try:
            async with asyncio.timeout(self.options.load_s):
                self._engine = self._engine or await asyncio.to_thread(_cascade)
                await self._engine.load()
                return self._engine
        except TimeoutError:
            raise EngineError(
                f"the models were not loaded within {self.options.load_s:g} s: the disk is slow or the machine busy; "
                "allow more by DuplexOptions(load_s=...), or load() again"
            ) from None

    def _loaded(self, loading: _Loading, made: asyncio.Task[Engine]) -> None:
        """Tell everybody who waits, on whatever thread."""
        if made.cancelled():
            broken = EngineError if self._breaking_off else _LoopEnded
            error: BaseException | None = broken("the load was broken off; load() again")
        else:
            error = made.exception()
        if error is None:
            loading.set_result(made.result())
            return
        with self._lock:
            self._loading, self._breaking_off = None, False
        told = error if isinstance(error, VenusError) else EngineError(f"the models could not be loaded: {error}")
        loading.set_result(told)

    async def __aenter__(self) -> DuplexModel:
        return self

    async def aclose(self) -> None:
        """Break off a load, and free the model's own engine; one that was given stays.  Close the sessions first."""
        with self._lock:
            loading, task = self._loading, self._load_task
        if loading is not None and task is not None and not loading.done():
            self._breaking_off = True
            with suppress(RuntimeError):  # its event loop has ended, and the load with it
                task.get_loop().call_soon_threadsafe(task.cancel)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.options.close_s):
                    await asyncio.shield(asyncio.wrap_future(loading))
        if self._owns_engine and self._engine is not None:
            with self._lock:
                engine, self._engine, self._loading = self._engine, None, None
            try:
                async with asyncio.timeout(self.options.close_s):
                    await engine.close()
            except TimeoutError:
                _log.warning("the models were not freed in time", extra={"deadline_s": self.options.close_s})


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
