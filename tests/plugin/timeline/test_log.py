from __future__ import annotations

import pytest
from realtime_venus.plugin.timeline import Entry, Timeline
from realtime_venus.plugin.timeline.events import AgentState

from ...kit.virtual_time import run_virtual


def state(name: str) -> AgentState:
    return AgentState(at_ms=1, state=name)


def test_entries_are_numbered_in_order() -> None:
    timeline = Timeline()
    assert [timeline.append(state(name)).seq for name in "abc"] == [0, 1, 2]
    assert [entry.seq for entry in timeline.entries] == [0, 1, 2]
    assert timeline.events == (state("a"), state("b"), state("c"))


def test_history_keeps_the_newest_but_counts_all() -> None:
    timeline = Timeline(limit=2)
    for name in "abc":
        timeline.append(state(name))
    assert [entry.seq for entry in timeline.entries] == [1, 2]
    assert len(timeline) == 3


def test_a_closed_timeline_takes_nothing() -> None:
    timeline = Timeline()
    timeline.close()
    timeline.close()
    with pytest.raises(RuntimeError, match="ended"):
        timeline.append(state("a"))


def test_a_subscriber_sees_what_comes_and_the_end() -> None:
    async def main() -> list[Entry]:
        timeline = Timeline()
        timeline.append(state("before"))
        subscription = timeline.subscribe()
        timeline.append(state("a"))
        timeline.append(state("b"))
        timeline.close()
        return [entry async for entry in subscription]

    assert [entry.seq for entry in run_virtual(main())] == [1, 2]


def test_a_slow_subscriber_loses_the_oldest_and_knows_it() -> None:
    async def main() -> tuple[list[int], int]:
        timeline = Timeline()
        subscription = timeline.subscribe(limit=2)
        for name in "abcde":
            timeline.append(state(name))
        subscription.close()
        timeline.append(state("f"))
        return [entry.seq async for entry in subscription], subscription.dropped

    assert run_virtual(main()) == ([3, 4], 3)


def test_subscribing_too_late_ends_at_once() -> None:
    async def main() -> list[Entry]:
        timeline = Timeline()
        timeline.close()
        return [entry async for entry in timeline.subscribe()]

    assert run_virtual(main()) == []


def test_a_subscription_holds_something() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Timeline().subscribe(limit=0)
