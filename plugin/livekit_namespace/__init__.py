"""``livekit.plugins.venus``: the name under which LiveKit users look for :mod:`realtime_venus.plugin.livekit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from realtime_venus.plugin import livekit as _venus
from realtime_venus.plugin.livekit import (
    Attachment,
    Changes,
    DuplexModel,
    DuplexOptions,
    DuplexSession,
    Language,
    UnsupportedLiveKit,
    VenusPlugin,
    __version__,
    agent_server,
    append_text,
    attach,
    room_options,
    session_options,
)

if TYPE_CHECKING:
    from realtime_venus.plugin.livekit import LLM, STT, TTS, VAD

__all__ = [
    "LLM",
    "STT",
    "TTS",
    "VAD",
    "Attachment",
    "Changes",
    "DuplexModel",
    "DuplexOptions",
    "DuplexSession",
    "Language",
    "UnsupportedLiveKit",
    "VenusPlugin",
    "__version__",
    "agent_server",
    "append_text",
    "attach",
    "room_options",
    "session_options",
]


def __getattr__(name: str) -> object:
    """The components are imported when they are asked for."""
    if name in __all__:
        return getattr(_venus, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
