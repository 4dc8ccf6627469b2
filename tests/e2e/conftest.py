from __future__ import annotations

from ..demo_room.conftest import start

__all__ = ["start"]
