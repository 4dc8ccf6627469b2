from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.plugin.rooms.messages import MAX_BYTES, pack


def test_short_events_are_one_message() -> None:
    assert [json.loads(message) for message in pack({"type": "latency", "edge_ms": 5}, 1)] == [
        {"type": "latency", "edge_ms": 5}
    ]


@given(st.text(alphabet=st.sampled_from('a"\\\n你😀'), min_size=1, max_size=40), st.integers(100, 2000))
def test_long_events_travel_in_pieces_below_the_limit(text: str, times: int) -> None:
    event = {"type": "agent.text", "text": text * times}
    messages = pack(event, 9)
    assert all(len(message.encode()) <= MAX_BYTES for message in messages)
    if len(messages) > 1:
        pieces = [json.loads(message) for message in messages]
        assert [(p["type"], p["id"], p["index"], p["count"]) for p in pieces] == [
            ("chunk", 9, index, len(pieces)) for index in range(len(pieces))
        ]
        assert json.loads("".join(piece["data"] for piece in pieces)) == event
