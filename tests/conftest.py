"""Fixtures that every test can ask for, and the check that nothing is left behind."""

from __future__ import annotations

from .kit.kits import duplex_kit
from .kit.leaks import no_leaked_tasks, no_leaks, pytest_collection_modifyitems
from .kit.livekit_server import livekit_server
from .kit.models import models
from .kit.native_sockets import late_sockets, native_sockets_closed

__all__ = [
    "duplex_kit",
    "late_sockets",
    "livekit_server",
    "models",
    "native_sockets_closed",
    "no_leaked_tasks",
    "no_leaks",
    "pytest_collection_modifyitems",
]
