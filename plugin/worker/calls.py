"""The conversations of a worker: one for each job, on the event loop of the job's own thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ...engines.base import Engine, EngineFull, SessionOptions
from ..redaction import redacted
from ..rooms.livekit import sdk
from ..rooms.livekit.options import LiveKitOptions
from ..rooms.livekit.room import LiveKitRoom
from ..session import Session, SessionSettings
from ..timeline import Subscription
from ..timeline import events as ev
from .adapter import AutoSubscribe, JobContext, rtc
from .metadata import BadMetadata, parse, session_options
from .metrics import WorkerMetrics

_log = logging.getLogger(__name__)

REFUSED = "venus.refused"
"""Attribute of an agent that can hold no conversation: why, in words."""
VISIT_S = 5.0
"""How long an agent that can hold no conversation stays in the room to say why, by an attribute."""
UNDO_S = 60.0
"""How long a job's thread waits for a connection that came too late, to take it back.  Its place is free meanwhile."""


@dataclass(frozen=True, slots=True)
class Equipment:
    """What all conversations of a worker share."""

    engine: Engine
    session: SessionSettings
    room: LiveKitOptions
    metrics: WorkerMetrics


async def _undone() -> None:
    if not await sdk.undone(UNDO_S):
        _log.error("a room that was given up may have been joined after all", extra={"waited_s": UNDO_S})


class _Call:
    """How to end one conversation from another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._session: Session | None = None
        self.reason = ""

    def stop_from_outside(self, reason: str) -> None:
        """End it soon."""
        self._loop.call_soon_threadsafe(self._stop, reason)

    def attach(self, session: Session) -> None:
        """From now on there is a session to stop."""
        self._session = session
        if self.reason:
            session.stop(self.reason)

    async def wait_stopped(self, timeout_s: float) -> None:
        """Until it should end, or until the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._stopped.wait()

    def _stop(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._stopped.set()
        if self._session is not None:
            self._session.stop(self.reason)


class Calls:
    """All of them.  ``over`` hears of each one that has ended, on its thread."""

    def __init__(self, equipment: Equipment, over: Callable[[str], None]) -> None:
        self._equipment = equipment
        self._over = over
        self._lock = threading.Lock()
        self._calls: dict[str, _Call] = {}

    @property
    def active(self) -> int:
        """How many are going on."""
        with self._lock:
            return len(self._calls)

    def stop(self, job_id: str, reason: str) -> None:
        """End one soon, from any thread; nothing when it is over already."""
        with self._lock:
            call = self._calls.get(job_id)
            if call is not None:
                # Under the lock: a call that is still listed has not left its loop yet.
                call.stop_from_outside(reason)

    def stop_all(self, reason: str) -> None:
        """End all of them soon, from any thread."""
        with self._lock:
            for call in self._calls.values():
                call.stop_from_outside(reason)

    async def hold(self, context: JobContext) -> None:
        """A job, from its beginning to its end."""
        job_id = context.job.id
        call = _Call()
        with self._lock:
            self._calls[job_id] = call
        reason = ""
        self._equipment.metrics.began()
        try:
            reason = await self._converse(context, call)
        finally:
            reason = reason or call.reason or "crashed"
            with self._lock:
                del self._calls[job_id]
            self._equipment.metrics.ended(reason)
            _log.info("a job has ended", extra={"job_id": job_id, "reason": reason})
            self._over(job_id)
            # The library waits for this, or for the room to end; it disconnects from the room then.
            context.shutdown(reason)

    async def _converse(self, context: JobContext, call: _Call) -> str:
        try:
            options = session_options(parse(context.job.metadata), self._equipment.engine)
        except BadMetadata:
            options = None
        context.add_shutdown_callback(_undone)
        connecting = context.connect(auto_subscribe=AutoSubscribe.SUBSCRIBE_NONE)  # the room subscribes
        try:
            await sdk.joined(context.room, connecting, self._equipment.room.connect_s)
        except (rtc.ConnectError, TimeoutError) as error:
            said = redacted(error.message) if isinstance(error, rtc.ConnectError) else "timeout"
            _log.warning("a room could not be joined", extra={"job_id": context.job.id, "error": said})
            return "not_connected"
        if options is None:
            await call.wait_stopped(VISIT_S)  # the attribute that says why was given when the job was accepted
            return "bad_metadata"
        return await self._talk(context, call, options)

    async def _talk(self, context: JobContext, call: _Call, options: SessionOptions) -> str:
        equipment = self._equipment
        room = LiveKitRoom(context.room, equipment.room)
        session = Session(room, equipment.engine, options, equipment.session, session_id=context.job.id)
        call.attach(session)
        watcher = asyncio.create_task(self._watch(session.timeline.subscribe()), name="venus-watch-session")
        try:
            await session.run()
        except EngineFull:
            _log.warning("the engine is full though a slot was free", extra={"job_id": context.job.id})
            await self._say_why(context, call, "the engine is full")
            return "engine_full"
        except (ValueError, OSError) as error:
            _log.warning("a session cannot begin", extra={"job_id": context.job.id, "error": type(error).__name__})
            await self._say_why(context, call, "the conversation cannot begin")
            return "cannot_begin"
        finally:
            reason = await watcher  # the timeline is closed by now, whatever happened
        return call.reason or (room.reason if reason == "left" else reason) or reason

    async def _say_why(self, context: JobContext, call: _Call, why: str) -> None:
        """Tell the room what the agent cannot do, and stay for as long as it takes to be read."""
        with suppress(sdk.MediaFailed):
            await sdk.set_attributes(context.room, {REFUSED: why})
            await call.wait_stopped(VISIT_S)

    async def _watch(self, entries: Subscription) -> str:
        reason = "crashed"
        async for entry in entries:
            match entry.event:
                case ev.Latency(edge_ms=edge_ms, opener_ms=opener_ms):
                    self._equipment.metrics.answered(edge_ms if opener_ms is None else opener_ms)
                case ev.SessionEnded(reason=ended):
                    reason = ended
                case _:
                    pass
        return reason
