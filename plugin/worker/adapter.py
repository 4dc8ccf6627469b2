"""The only file of the worker that touches names ``livekit.agents`` keeps private.

What cannot be had otherwise: one count of places behind both the load that is reported and the answer to a request
(the library's own estimate divides a moment's load by a moment's jobs, and refuses without asking anybody); to hear of
a job's termination before its entry point is cancelled 15 s later; and whether the connection to the server stands.
The release is checked when this module is imported; what is relied on is observed by
``tests/contract/test_livekit_worker.py`` (livekit-agents 1.8.9).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ...engines.base import MissingExtra
from ..livekit_release import check_version

_PRELOAD = "LIVEKIT_AGENTS_PRELOAD_LOCAL_INFERENCE"
# The library's own detectors (250 MB) are loaded into every worker unless this says no; nothing here asks for them.
os.environ.setdefault(_PRELOAD, "0")

try:
    from livekit import api, rtc
    from livekit.agents import AgentServer, AutoSubscribe, JobContext, JobExecutorType, JobRequest
    from livekit.protocol import agent
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

__all__ = [
    "AgentServer",
    "AutoSubscribe",
    "Hooks",
    "JobContext",
    "JobRequest",
    "SlotServer",
    "api",
    "rtc",
]

_UNREGISTERED = "unregistered"
FULL = 1.0
"""Load from which on the worker is reported as full."""

check_version()


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the server asks and tells its owner."""

    load: Callable[[], float]
    """The load to report; 1 means full.  Called from any thread."""
    terminated: Callable[[str], None]
    """The LiveKit server wants the job of that id to end.  Called on the server's loop."""
    registered: Callable[[], None]
    """The LiveKit server knows the worker, for the first time or again.  Called on the server's loop."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the server is reached, and where its own HTTP endpoint (which cannot be switched off) listens."""

    url: str
    key: str
    secret: str
    connect_attempts: int
    drain_timeout_s: int
    host: str = "127.0.0.1"
    port: int = 0


class SlotServer(AgentServer):
    """An :class:`AgentServer` whose load is what its owner says, one thread for each job.

    Every request comes to ``on_request``, also when the worker is full: only there it is known why it is refused.
    """

    def __init__(self, options: Options, hooks: Hooks) -> None:
        super().__init__(
            job_executor_type=JobExecutorType.THREAD,
            load_fnc=hooks.load,
            load_threshold=FULL,
            num_idle_processes=1,
            initialize_process_timeout=60.0,  # the first one imports the library's clients
            job_memory_warn_mb=0,
            drain_timeout=options.drain_timeout_s,
            max_retry=options.connect_attempts,
            ws_url=options.url,
            api_key=options.key,
            api_secret=options.secret,
            host=options.host,
            port=options.port,
        )
        self._hooks = hooks
        on = cast(Callable[[str, Callable[..., None]], object], self.on)  # partially untyped in the library
        on("worker_registered", lambda *_: hooks.registered())

    @property
    def connected(self) -> bool:
        """Whether the worker is registered with the LiveKit server now."""
        registered = self.id != _UNREGISTERED
        return registered and not (self._closed or self._connecting or self._connection_failed)

    def running_jobs(self) -> frozenset[str]:
        """Ids of the jobs whose threads run."""
        return frozenset(info.job.id for info in self.active_jobs) if not self._closed else frozenset()

    async def report(self) -> None:
        """Tell the LiveKit server the load now and not at the next interval of 2.5 s."""
        if self.connected:
            await self._update_worker_status()

    def _get_effective_load(self) -> float:
        # ``_worker_load`` is what is sent; the load that was asked for at the last interval would lag behind.
        self._worker_load = self._hooks.load()
        return self._worker_load

    def _is_available(self) -> bool:
        return True

    async def _handle_termination(self, msg: agent.JobTermination) -> None:
        self._hooks.terminated(msg.job_id)
        await super()._handle_termination(msg)
