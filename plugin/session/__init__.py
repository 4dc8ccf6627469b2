"""One conversation between a room and an engine: a pure core and a thin driver around it."""

from __future__ import annotations

from .driver import Session
from .settings import SessionSettings

__all__ = ["Session", "SessionSettings"]
