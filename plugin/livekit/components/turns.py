"""How an ``AgentSession`` with these components keeps to this machine whatever the environment says."""

from __future__ import annotations

from ....engines.base import MissingExtra

try:
    from livekit.agents import TurnHandlingOptions, inference
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error


def local_turn_handling() -> TurnHandlingOptions:
    """For ``AgentSession(turn_handling=...)``: LiveKit's own turn detector on this machine, interruptions by the VAD.

    Without it a session does the same, but for one case: where ``LIVEKIT_DEV_MODE`` is 1 (LiveKit's ``dev`` command
    sets it) and there is a key, both ask LiveKit's cloud first, and come back here when it does not answer.
    """
    return TurnHandlingOptions(turn_detection=inference.TurnDetector(version="v1-mini"), interruption={"mode": "vad"})
