from __future__ import annotations

from realtime_venus.plugin.rooms.livekit.status import Status
from realtime_venus.plugin.timeline import Entry, to_json
from realtime_venus.plugin.timeline import events as ev


def started() -> ev.SessionStarted:
    return ev.SessionStarted(
        at_ms=0, session_id="x", engine="fake", room="livekit", unit_ms=100, language="auto", voice="", recording=True
    )


def test_the_state_is_one_that_livekit_knows() -> None:
    status = Status()
    seen = [status.agent_state]
    changes: list[bool] = []
    for state in ("listening", "thinking", "speaking", "ducked", "held", "listening"):
        changes.append(status.event(to_json(Entry(0, ev.AgentState(at_ms=0, state=state)))))
        seen.append(status.agent_state)
    assert seen == ["initializing", "listening", "thinking", "speaking", "speaking", "speaking", "listening"]
    assert changes == [True, True, True, False, False, True]


def test_facts_and_welcome_follow_the_session() -> None:
    status = Status()
    assert status.facts() == {"state": "initializing"}
    status.event(to_json(Entry(0, started())))
    status.event(to_json(Entry(1, ev.AgentState(at_ms=0, state="listening"))))
    status.event(to_json(Entry(2, ev.SessionConfigured(at_ms=5, language="zh", voice="anna"))))
    status.event(to_json(Entry(3, ev.AgentState(at_ms=9, state="held"))))
    facts = status.facts()
    assert (facts["state"], facts["language"], facts["voice"], facts["engine"]) == ("held", "zh", "anna", "fake")
    assert facts["recording"] is True
    assert [(event["type"], event["seq"]) for event in status.welcome()] == [
        ("session.started", 0),
        ("agent.state", 3),
        ("session.configured", 2),
    ]
