"""An ``AgentServer`` that counts calls, for models that all calls share and that keep this machine's processor busy."""

from __future__ import annotations

import os
from typing import Any

from livekit.agents import AgentServer, JobExecutorType

from ..settings import load_settings

FULL = 0.65
"""Load of a full server.  A LiveKit server passes over whoever reports its ``agents.target_load`` (0.7) or more."""
_PRELOAD = "LIVEKIT_AGENTS_PRELOAD_LOCAL_INFERENCE"


def agent_server(calls: int | None = None, **options: Any) -> AgentServer:
    """An ``AgentServer`` that takes ``calls`` at a time, whatever the processor does meanwhile.

    By default LiveKit goes by how busy the processor is, and gives no more jobs from 70 % on; models that compute on
    it come to that with their first call, or while they are loaded.  Here it goes by the calls that are going on.
    Without ``calls`` it is as many as the default engine holds (``VENUS_CASCADE__MAX_SESSIONS``).

    Every call has a thread, so that all share one ``DuplexModel`` (or ``STT``, ``LLM``, ``TTS``, ``VAD``).  LiveKit's
    own detectors, which take 250 MB and are not used, are not loaded beforehand.  Health is answered on loopback, at
    any free port.  ``options`` are those of ``AgentServer`` and go before all of this.  Raises ``ValueError`` for less
    than one call, and :class:`~realtime_venus.plugin.settings.BadSetting`.
    """
    places = _places() if calls is None else calls
    if places < 1:
        raise ValueError(f"an agent takes at least one call, not {places}")
    os.environ.setdefault(_PRELOAD, "0")

    def load(server: AgentServer) -> float:
        return FULL * (len(server.active_jobs) / places)

    chosen: dict[str, Any] = {
        "job_executor_type": JobExecutorType.THREAD,
        "load_fnc": load,
        # A hair less: the load of the last call comes from a division, and of a full server nothing may be left.
        "load_threshold": FULL - 1e-6,
        # By their number the library reckons how much of the load a call that is just beginning will be.
        "num_idle_processes": places,
        "initialize_process_timeout": 60.0,  # the first one imports the library's clients
        "job_memory_warn_mb": 0,
        "host": "127.0.0.1",
        "port": 0,
    }
    return AgentServer(**{**chosen, **options})


def _places() -> int:
    from ...engines.cascade.settings import CascadeSettings

    return load_settings().section(CascadeSettings).max_sessions
