"""What LiveKit users get: a duplex model for ``AgentSession`` and the offline parts as ordinary LiveKit components.

Users import it as ``livekit.plugins.venus``.  Importing it loads no model and begins no thread.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .compat import UnsupportedLiveKit, check_version

check_version()

from ...engines.base import Changes, Language  # noqa: E402 - the guard on the release comes first
from .agent_options import append_text, room_options, session_options  # noqa: E402
from .agent_server import agent_server  # noqa: E402
from .attach import Attachment, attach  # noqa: E402
from .model import DuplexModel  # noqa: E402
from .options import DuplexOptions  # noqa: E402
from .registration import VenusPlugin, __version__, register  # noqa: E402
from .session import DuplexSession  # noqa: E402

if TYPE_CHECKING:
    from .components.llm import LLM
    from .components.stt import STT
    from .components.tts import TTS
    from .components.vad import VAD

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

_COMPONENTS = {"LLM": "llm", "STT": "stt", "TTS": "tts", "VAD": "vad"}


def __getattr__(name: str) -> object:
    """The components are imported when they are asked for."""
    if name in _COMPONENTS:
        module = importlib.import_module(f".components.{_COMPONENTS[name]}", __name__)
        component: object = getattr(module, name)
        globals()[name] = component
        return component
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register()
