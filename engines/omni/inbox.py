"""What waits in the inbox of an omni session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base import MediaUnit


@dataclass(frozen=True, slots=True)
class Typed:
    """The user typed this."""

    text: str


@dataclass(frozen=True, slots=True)
class Background:
    """A result of a tool."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The ``turn``-th turn of the agent was given up."""

    turn: int


@dataclass(frozen=True, slots=True)
class Restored:
    """Go on with the state of an earlier session."""

    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Over:
    """User speech over the agent; ``end_ms`` ``None``: it lasts."""

    start_ms: int
    end_ms: int | None = None

    def within(self, start_ms: int, end_ms: int) -> bool:
        """Whether some of it lay in ``[start_ms, end_ms)``."""
        return self.start_ms < end_ms and (self.end_ms is None or self.end_ms > start_ms)


Message = MediaUnit | Typed | Background | Interrupted | Restored
