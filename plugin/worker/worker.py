"""The worker: loads one engine, takes jobs from a LiveKit server while there are places, ends without cutting calls.

Every job runs on a thread of its own, with its own event loop; the engine, loaded once, is shared by all of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from ...engines.base import Engine, VenusError
from ..rooms.livekit.options import LiveKitOptions
from ..rooms.livekit.server import NoAnswer, check_server
from ..session.settings import SessionSettings
from .adapter import Hooks, JobContext, JobRequest, Options, SlotServer
from .calls import Calls, Equipment
from .door import VISITS, Door
from .endpoint import Condition, Endpoint
from .metrics import CONTENT_TYPE, WorkerMetrics
from .reception import Reception
from .settings import API_KEY, API_SECRET, URL, WorkerSettings
from .slots import Occupancy, Slots

_log = logging.getLogger(__name__)

_RECONCILE_S = 5.0
_CLOSE_S = 30.0
"""How long the library may take to end its threads; its own limits are shorter."""


class Unreachable(VenusError):
    """The LiveKit server could not be reached for so long that the worker gave up."""


class Worker:
    """One process's worker.  ``make_engine`` makes the engine, not yet loaded; the worker loads and closes it."""

    def __init__(
        self,
        settings: WorkerSettings,
        make_engine: Callable[[], Engine],
        *,
        session: SessionSettings | None = None,
        room: LiveKitOptions | None = None,
    ) -> None:
        self._settings = settings.checked()
        self._make_engine = make_engine
        self._session = session or SessionSettings()
        self._room = room or LiveKitOptions()
        self._metrics = WorkerMetrics()
        self._endpoint = Endpoint(
            settings.host, settings.port, self._condition, self._page, CONTENT_TYPE, self._token_routes()
        )
        self._visits = Slots(VISITS)
        self._changed = asyncio.Event()
        self._draining = False
        self._engine: Engine | None = None
        self._slots: Slots | None = None
        self._calls: Calls | None = None
        self._server: SlotServer | None = None
        self.stuck = False
        """After :meth:`run`: a job did not end, and its thread would keep the process alive."""

    @property
    def port(self) -> int:
        """Where health and metrics are served."""
        return self._endpoint.port

    async def run(self, stop: asyncio.Event, *, drain: bool = True) -> None:
        """Take jobs until ``stop``; then let the calls finish (``drain``) or end them, and free everything.

        Raises :class:`~.endpoint.EndpointTaken`, ``RefusedCredentials``, :class:`Unreachable`, and what loading
        the engine raises.
        """
        self._loop = asyncio.get_running_loop()
        await self._endpoint.start()
        try:
            await self._check_credentials()
            engine = self._make_engine()
            try:
                _log.info("loading the models", extra={"engine": engine.name})
                began = time.monotonic()
                await engine.load()
                _log.info("the models are loaded", extra={"seconds": round(time.monotonic() - began, 1)})
                if not stop.is_set():
                    await self._serve(engine, stop, drain=drain)
            finally:
                await engine.close()
        finally:
            await self._endpoint.close()

    # -- the life of the server --------------------------------------------------------------------------------

    async def _serve(self, engine: Engine, stop: asyncio.Event, *, drain: bool) -> None:
        settings = self._settings
        self._slots = slots = Slots(min(engine.max_sessions, settings.max_sessions or engine.max_sessions))
        self._calls = calls = Calls(Equipment(engine, self._session, self._room, self._metrics), self._over)
        options = Options(
            settings.url, settings.key, settings.secret, settings.connect_attempts, settings.drain_timeout_s
        )
        door = Door(engine, slots, self._visits, self._metrics, settings.display_name, self._changed.set)
        hooks = Hooks(self._load, lambda job_id: calls.stop(job_id, "terminated"), self._registered)
        self._server = server = SlotServer(options, hooks)

        # Plain functions, since the library looks at what it is given.
        async def entry(context: JobContext) -> None:
            await calls.hold(context)

        async def on_request(request: JobRequest) -> None:
            await door.answer(request)

        server.rtc_session(entry, agent_name=settings.agent_name, on_request=on_request)
        self._engine = engine
        serving = asyncio.create_task(server.run(), name="venus-agent-server")
        reporting = asyncio.create_task(self._report_changes(server, slots), name="venus-report-load")
        stopping = asyncio.create_task(stop.wait(), name="venus-stop")
        try:
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                await self._wind_down(server, calls, slots, drain=drain)
            else:
                self._gave_up(serving)
        finally:
            self._draining = True
            slots.close()
            calls.stop_all("worker_stopped")
            for task in (stopping, reporting):
                task.cancel()
            await self._close(server)
            await asyncio.wait((serving, stopping, reporting), timeout=_CLOSE_S)

    def _gave_up(self, serving: asyncio.Task[None]) -> None:
        try:
            serving.result()
        except RuntimeError as error:  # what the library raises after its last attempt
            raise Unreachable(
                f"The LiveKit server at {self._settings.url} could not be reached {self._settings.connect_attempts} "
                "times in a row; calls that were going on have been ended."
            ) from error

    async def _wind_down(self, server: SlotServer, calls: Calls, slots: Slots, *, drain: bool) -> None:
        settings = self._settings
        self._draining = True
        slots.close()
        _log.info("no more jobs are taken", extra={"calls": calls.active, "drain": drain})
        if drain and settings.drain_timeout_s:
            try:
                await server.drain(settings.drain_timeout_s)
            except TimeoutError:
                _log.warning("calls are ended: they took longer than may be waited for", extra={"calls": calls.active})
        calls.stop_all("worker_stopped")
        if not await self._wait_idle(calls, settings.leave_timeout_s):
            _log.warning("calls did not end in time", extra={"calls": calls.active})

    async def _wait_idle(self, calls: Calls, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while calls.active:
                    self._changed.clear()
                    if calls.active:
                        await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _close(self, server: SlotServer) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                await server.aclose()
        except TimeoutError:
            self.stuck = True
            _log.error("a job's thread did not end")

    async def _report_changes(self, server: SlotServer, slots: Slots) -> None:
        """Tell the LiveKit server of every call that began or ended, so that it asks the right worker next."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RECONCILE_S):
                    await self._changed.wait()
            self._changed.clear()
            running = server.running_jobs()
            for job_id in (*slots.reconcile(running), *self._visits.reconcile(running)):
                _log.error("a job ended without giving its place back", extra={"job_id": job_id})
            await server.report()

    # -- what is heard of jobs ---------------------------------------------------------------------------------

    def _over(self, job_id: str) -> None:
        """A job has ended, on its own thread."""
        if self._slots is not None:
            self._slots.release(job_id)
        self._visits.release(job_id)
        with suppress(RuntimeError):  # the worker did not wait for this one any longer
            self._loop.call_soon_threadsafe(self._changed.set)

    def _load(self) -> float:
        return self._occupied().load

    # -- what is told ------------------------------------------------------------------------------------------

    def _registered(self) -> None:
        _log.info(
            "ready for jobs",
            extra={"agent_name": self._settings.agent_name, "port": self.port, "slots": self._occupied().slots},
        )

    def _occupied(self) -> Occupancy:
        return Occupancy(0, 0, open=False) if self._slots is None else self._slots.occupancy

    def _token_routes(self) -> list[web.RouteDef]:
        if not self._settings.token_endpoint:
            return []
        return [web.post("/token", Reception(self._settings, self._condition, self._sees, self._metrics).answer)]

    def _sees(self) -> bool:
        return self._engine is not None and "video" in self._engine.modalities

    def _condition(self) -> Condition:
        return Condition(self._trouble(), self._occupied())

    def _trouble(self) -> str:
        if self._draining:
            return "no more jobs are taken: the worker is ending"
        if self._server is None or self._engine is None:
            return "the models are being loaded"
        if not self._server.connected:
            return "there is no connection to the LiveKit server"
        return ""

    def _page(self) -> bytes:
        return self._metrics.page(self._occupied(), ready=not self._trouble())

    async def _check_credentials(self) -> None:
        """Say at once what the library would try again and again.  An unreachable server may still come up."""
        settings = self._settings
        try:
            await check_server(settings.url, settings.key, settings.secret, (URL, API_KEY, API_SECRET))
        except NoAnswer as error:
            _log.warning("the LiveKit server cannot be reached yet", extra={"error": str(error)})
