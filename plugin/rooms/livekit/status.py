"""How the session is, as LiveKit's components and a page that comes later want to know it.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN = {"ducked": "speaking", "held": "speaking"}
"""States of ours that LiveKit's components do not know."""
_WELCOME = ("session.started", "session.configured", "agent.state")
_KEPT = ("session_id", "engine", "language", "voice", "recording", "unit_ms")


class Status:
    """Follows the timeline."""

    def __init__(self) -> None:
        self._facts: dict[str, Any] = {}
        self._state = "initializing"
        self._welcome: dict[str, dict[str, Any]] = {}

    @property
    def agent_state(self) -> str:
        """``initializing``, ``listening``, ``thinking`` or ``speaking``: the value of ``lk.agent.state``."""
        return _SHOWN.get(self._state, self._state)

    def event(self, event: Mapping[str, Any]) -> bool:
        """Take a timeline event in its JSON form; whether :attr:`agent_state` is another one now."""
        before = self.agent_state
        if event["type"] in _WELCOME:
            self._welcome[event["type"]] = dict(event)
        if event["type"] in ("session.started", "session.configured"):
            self._facts.update({name: event[name] for name in _KEPT if name in event})
        elif event["type"] == "agent.state":
            self._state = event["state"]
        return self.agent_state != before

    def welcome(self) -> list[dict[str, Any]]:
        """What a page that comes now has missed and needs: the events as they were, with their ``seq``."""
        return list(self._welcome.values())

    def facts(self) -> dict[str, Any]:
        """The answer to ``venus.state``, JSON-ready, without what only the room knows."""
        return {"state": self._state, **self._facts}
