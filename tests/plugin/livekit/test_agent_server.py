"""A server that goes by its calls and not by the processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from livekit.agents import JobExecutorType
from livekit.plugins import venus


@dataclass
class Busy:
    """As much of a server as its load is reckoned by."""

    active_jobs: list[str]


def load(server: Any, calls: int) -> float:
    return cast(float, server.load_fnc(Busy(["job"] * calls)))


@pytest.mark.parametrize("places", [1, 2, 3, 4, 7, 9, 10])
def test_it_is_full_with_its_last_call_and_not_before(places: int) -> None:
    server = cast(Any, venus.agent_server(places))
    threshold = server._load_threshold
    assert threshold < 0.7, "LiveKit servers pass over who reports that much"
    assert [load(server, calls) >= threshold for calls in range(places + 1)] == [False] * places + [True]
    assert load(server, 0) == 0
    share = threshold / places  # what the library reckons for a call that it has promised and not begun
    for begun in range(places + 1):
        assert load(server, begun) + (places - begun) * share >= threshold - 1e-12
        if begun < places:
            assert load(server, begun) + (places - 1 - begun) * share < threshold


def test_it_takes_as_many_calls_as_the_default_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_CASCADE__MAX_SESSIONS", "3")
    server = cast(Any, venus.agent_server())
    assert load(server, 2) < server._load_threshold <= load(server, 3)


def test_calls_share_one_process_and_an_option_goes_before() -> None:
    assert cast(Any, venus.agent_server())._job_executor_type is JobExecutorType.THREAD
    server = cast(Any, venus.agent_server(load_threshold=0.5, port=8099))
    assert (server._load_threshold, server._port) == (0.5, 8099)


def test_less_than_a_call_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one call"):
        venus.agent_server(0)
