"""Which jobs are taken, and what is said to those that are not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from ...engines.base import Engine
from .adapter import JobRequest
from .calls import REFUSED
from .metadata import BadMetadata, parse, session_options
from .metrics import WorkerMetrics
from .slots import Refusal, Slots

_log = logging.getLogger(__name__)

VISITS = 4
"""Agents that are in rooms only to say why there will be no conversation, at the same time."""


@dataclass(frozen=True, slots=True)
class Door:
    """Answers the requests of the LiveKit server.

    A worker that is full says no in a way that lets the server ask another one.  Metadata that cannot be used is no
    better elsewhere: the server is told to ask nobody else, and where one of the few places for it is free, an agent
    that costs no slot joins for some seconds to say why (:data:`REFUSED`), since the interface carries no reason.
    """

    engine: Engine
    slots: Slots
    visits: Slots
    metrics: WorkerMetrics
    name: str
    """What the room shows as the agent's name."""
    changed: Callable[[], None]
    """Hears of every place taken or given back."""

    async def answer(self, request: JobRequest) -> None:
        """Take a job, or say no."""
        try:
            session_options(parse(request.job.metadata), self.engine)
        except BadMetadata as error:
            self._refused(request, Refusal.BAD_METADATA, str(error))
            if self.visits.take(request.id) is None:
                await self._accept(request, self.visits, {REFUSED: str(error)})
            else:
                await request.reject(terminate=True)
            return
        refusal = self.slots.take(request.id)
        if refusal is not None:
            self._refused(request, refusal, "")
            await request.reject(terminate=False)
            return
        self.changed()
        await self._accept(request, self.slots, None)
        self.metrics.accepted()

    async def _accept(self, request: JobRequest, places: Slots, attributes: dict[str, str] | None) -> None:
        """Returns when the job was handed to its thread; raises what the library raises when it was not assigned."""
        launched = False
        try:
            await request.accept(name=self.name, identity=f"venus-{request.id}", attributes=attributes)
            launched = True
        finally:
            if launched:
                places.launched(request.id)
            else:
                places.release(request.id)
                self._refused(request, Refusal.NOT_ASSIGNED, "")
                self.changed()

    def _refused(self, request: JobRequest, refusal: Refusal, why: str) -> None:
        self.metrics.refused(refusal)
        _log.warning(
            "a job was refused",
            extra={"job_id": request.id, "room": request.room.name, "reason": refusal.value, "why": why},
        )
