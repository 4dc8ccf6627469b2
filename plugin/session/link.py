"""The engine session in use, and its replacement when it stalls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from ...engines.base import (
    Changes,
    Engine,
    EngineError,
    EngineEvent,
    EngineSession,
    MediaUnit,
    Overlap,
    OverlapPhase,
    SessionOptions,
    Speech,
    Text,
    TurnEnded,
    UnitDone,
)

_log = logging.getLogger(__name__)


class EngineLink:
    """Forwards to the current engine session.

    A replacement may name its utterances like its predecessor did, so from the second on ids carry a suffix here.
    """

    def __init__(self, engine: Engine, options: SessionOptions, close_timeout_s: float) -> None:
        self._engine = engine
        self._options = options
        self._close_timeout_s = close_timeout_s
        self._session: EngineSession | None = None
        self._epoch = 0
        self._undone: set[int] = set()

    def open(self) -> None:
        """Begin.  Raises what :meth:`Engine.open` does."""
        self._session = self._engine.open(self._options)

    @property
    def ready(self) -> bool:
        """Whether a session is open."""
        return self._session is not None

    @property
    def undone(self) -> int:
        """Units pushed and not done."""
        return len(self._undone)

    async def events(self) -> AsyncIterator[EngineEvent]:
        """The current session's events, with ids as the runtime knows them."""
        session = self._session
        if session is None:
            return
        async for event in session.events():
            if session is not self._session:
                return
            if isinstance(event, UnitDone):
                self._undone.discard(event.index)
            if self._epoch and isinstance(event, Text | Speech | Overlap | TurnEnded):
                yield replace(event, utterance_id=f"{event.utterance_id}~{self._epoch}")
            else:
                yield event

    def push(self, unit: MediaUnit) -> None:
        """Give the next unit."""
        if self._session is not None:
            self._undone.add(unit.index)
            self._session.push(unit)

    def overlap(self, phase: OverlapPhase, at_ms: int) -> None:
        """See :meth:`EngineSession.overlap`."""
        if self._session is not None:
            self._session.overlap(phase, at_ms)

    def heard(self, utterance_id: str, samples: int) -> None:
        """See :meth:`EngineSession.heard`; ids of an earlier session are not passed on."""
        own = self._own(utterance_id)
        if self._session is not None and own is not None:
            self._session.heard(own, samples)

    def interrupt(self, utterance_id: str) -> None:
        """See :meth:`EngineSession.interrupt`; ids of an earlier session are not passed on."""
        own = self._own(utterance_id) if utterance_id else ""
        if self._session is not None and own is not None:
            self._session.interrupt(own)

    def type(self, text: str) -> None:
        """See :meth:`EngineSession.type`."""
        if self._session is not None:
            self._session.type(text)

    def say(self, text: str) -> None:
        """See :meth:`EngineSession.say`."""
        if self._session is not None:
            self._session.say(text)

    def configure(self, changes: Changes) -> None:
        """See :meth:`EngineSession.configure`; a replacement session begins with what was set."""
        if self._session is not None:
            self._session.configure(changes)
        options = self._options
        language = options.language if changes.language is None else changes.language
        self._options = replace(
            options,
            language=None if language == "auto" else language,
            voice=None if changes.voice == "auto" else changes.voice or options.voice,
            persona=options.persona if changes.persona is None else changes.persona,
            facts=options.facts if changes.facts is None else changes.facts,
        )

    async def reopen(self) -> None:
        """Replace the session, carrying the conversation over where the engine can.  Raises :class:`EngineError`."""
        old, self._session = self._session, None
        snapshot: bytes | None = None
        if old is not None:
            if self._engine.capabilities.snapshot:
                try:
                    snapshot = old.snapshot()
                except EngineError as error:
                    _log.warning("no snapshot of a stalled engine session", extra={"error": type(error).__name__})
            await self._close(old)
        self._undone.clear()
        self._epoch += 1
        session = self._engine.open(self._options)
        if snapshot is not None:
            try:
                session.restore(snapshot)
            except (EngineError, ValueError) as error:
                _log.warning("the conversation could not be restored", extra={"error": type(error).__name__})
        self._session = session

    async def close(self) -> None:
        """Close the current session within the time limit.  May be called repeatedly."""
        old, self._session = self._session, None
        if old is not None:
            await self._close(old)

    async def _close(self, session: EngineSession) -> None:
        try:
            async with asyncio.timeout(self._close_timeout_s):
                await session.close()
        except TimeoutError:
            _log.warning("an engine session did not close in time", extra={"limit_s": self._close_timeout_s})

    def _own(self, utterance_id: str) -> str | None:
        own, _, epoch = utterance_id.rpartition("~")
        if self._epoch == 0:
            return utterance_id
        return own if epoch == str(self._epoch) else None
