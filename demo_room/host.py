"""What the room needs from whatever talks: its state while it loads, and one conversation per room."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ..engines.base import Capabilities, Engine, Language, SessionOptions, VenusError
from ..plugin.rooms.base import MediaRoom

log = logging.getLogger(__name__)


class HostState(StrEnum):
    """Whether conversations can begin."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far loading has come: a ``stage`` the page has words for, and a share in [0, 1] where one is known."""

    stage: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What can be chosen and done; empty until loaded."""

    name: str
    languages: tuple[Language, ...] = ()
    voices: Mapping[Language, tuple[str, ...]] | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)
    max_sessions: int = 1
    sees: bool = False
    """Pictures of the visitor reach the engine."""


class Host(Protocol):
    """Something that can hold conversations in rooms."""

    @property
    def state(self) -> HostState: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def error(self) -> str:
        """Why loading failed, in words for the person who started the server; empty otherwise."""
        ...

    @property
    def profile(self) -> Profile: ...

    async def converse(self, room: MediaRoom, options: SessionOptions) -> None:
        """Talk in ``room`` until it is left."""
        ...

    async def close(self) -> None:
        """Free everything.  May be called repeatedly."""
        ...


Prepare = Callable[[Callable[[Progress], None]], Awaitable[Engine]]
"""Fetches what is missing and makes the engine, reporting progress (from any thread); the host loads it afterwards."""
Converse = Callable[[MediaRoom, Engine, SessionOptions], Awaitable[None]]


class EngineHost:
    """Loads one engine in the background, from :meth:`start` on, and shares it among all conversations."""

    def __init__(self, name: str, prepare: Prepare, converse: Converse) -> None:
        self._name = name
        self._prepare = prepare
        self._converse = converse
        self._engine: Engine | None = None
        self._error = ""
        self._progress = Progress("starting")
        self._loaded = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> HostState:
        if self._error:
            return HostState.FAILED
        return HostState.READY if self._engine is not None else HostState.LOADING

    @property
    def progress(self) -> Progress:
        return self._progress

    @property
    def error(self) -> str:
        return self._error

    @property
    def profile(self) -> Profile:
        engine = self._engine
        if engine is None:
            return Profile(self._name)
        sees = "video" in engine.modalities
        return Profile(self._name, engine.languages, engine.voices, engine.capabilities, engine.max_sessions, sees)

    def start(self) -> None:
        """Begin to load.  Call it once."""
        self._task = asyncio.create_task(self._load(), name="load-engine")

    async def wait_loaded(self) -> None:
        """Wait until loading has succeeded or failed."""
        await self._loaded.wait()

    async def converse(self, room: MediaRoom, options: SessionOptions) -> None:
        if self._engine is None:
            raise VenusError("the engine is not loaded")
        await self._converse(room, self._engine, options)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    async def _load(self) -> None:
        loop = asyncio.get_running_loop()

        def report(progress: Progress) -> None:
            loop.call_soon_threadsafe(self._report, progress)

        try:
            engine = await self._prepare(report)
            self._report(Progress("loading"))
            try:
                await engine.load()
            except BaseException:
                await engine.close()
                raise
            self._engine = engine
        except (VenusError, OSError, ImportError) as error:
            self._error = str(error) or type(error).__name__
            log.error("the engine cannot be loaded", extra={"error": str(error)})  # noqa: TRY400 - the message says it
        except Exception as error:
            # Broad, because whatever an engine raises, nobody may wait for it for ever.
            self._error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            log.exception("the engine failed while it was loading")
        finally:
            self._loaded.set()

    def _report(self, progress: Progress) -> None:
        self._progress = progress
