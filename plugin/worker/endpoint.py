"""The worker's HTTP endpoint: is it alive, would it take a call, how full is it, and what has it counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from ...engines.base import VenusError
from .slots import Occupancy

_LONGEST = 16 * 1024
"""Bytes of the longest request."""


class EndpointTaken(VenusError):
    """The endpoint cannot listen where it should."""


@dataclass(frozen=True, slots=True)
class Condition:
    """How the worker is.  ``trouble`` says in words why it would take no call; empty when it would."""

    trouble: str
    occupancy: Occupancy


class Endpoint:
    """Serves ``/healthz``, ``/readyz``, ``/slots`` and ``/metrics``, and what else is in ``routes``.

    A worker that is full is ready: it is doing what it is there for, and it is the LiveKit server that passes it over.
    """

    def __init__(
        self,
        host: str,
        port: int,
        condition: Callable[[], Condition],
        metrics: Callable[[], bytes],
        content_type: str,
        routes: Sequence[web.RouteDef] = (),
    ) -> None:
        self._host = host
        self._port = port
        self._condition = condition
        self._metrics = metrics
        self._content_type = content_type
        self._routes = routes
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """Where it listens; the one it was given until :meth:`start`."""
        return self._port

    async def start(self) -> None:
        """Listen.  Raises :class:`EndpointTaken`."""
        app = web.Application(client_max_size=_LONGEST)
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/slots", self._slots),
                web.get("/metrics", self._page),
                *self._routes,
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self.close()
            raise EndpointTaken(
                f"The worker cannot listen on {self._host}:{self._port} ({error.strerror}): set VENUS_WORKER__PORT to "
                "another port, or 0 for any free one."
            ) from error
        self._port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening.  May be called repeatedly."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")  # the loop that serves the jobs has answered

    async def _readyz(self, _: web.Request) -> web.Response:
        trouble = self._condition().trouble
        return web.json_response({"ready": not trouble, "trouble": trouble}, status=503 if trouble else 200)

    async def _slots(self, _: web.Request) -> web.Response:
        condition = self._condition()
        occupancy = condition.occupancy
        free = 0 if condition.trouble else occupancy.free
        return web.json_response(
            {"slots": occupancy.slots, "in_use": occupancy.in_use, "free": free, "trouble": condition.trouble}
        )

    async def _page(self, _: web.Request) -> web.Response:
        body = await asyncio.to_thread(self._metrics)
        return web.Response(body=body, headers={"Content-Type": self._content_type})
