"""A LiveKit room: several people, one agent.  Needs the ``livekit`` extra, of which only the options do without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import LiveKitOptions

if TYPE_CHECKING:
    from .room import LiveKitRoom
    from .sdk import JoinRefused

__all__ = ["JoinRefused", "LiveKitOptions", "LiveKitRoom"]


def __getattr__(name: str) -> object:
    """Import what needs the extra when it is asked for."""
    if name == "LiveKitRoom":
        from .room import LiveKitRoom

        return LiveKitRoom
    if name == "JoinRefused":
        from .sdk import JoinRefused

        return JoinRefused
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
