from __future__ import annotations

from typing import Any, cast

import pytest
from livekit.agents import AgentSession, inference
from realtime_venus.plugin.livekit.components import local_turn_handling


async def test_with_a_key_in_development_nothing_is_asked_of_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DEV_MODE": "1", "API_KEY": "key", "API_SECRET": "secret"}.items():
        monkeypatch.setenv(f"LIVEKIT_{name}", value)
    session = cast(Any, AgentSession(vad=None, turn_handling=local_turn_handling()))
    detector = session.turn_detection
    assert isinstance(detector, inference.TurnDetector)
    assert detector.model == "turn-detector-v1-mini"
    assert session.interruption_detection == "vad"
