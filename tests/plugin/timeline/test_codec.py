from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from realtime_venus.plugin.timeline import (
    Entry,
    TimelineFormatError,
    event_types,
    from_json,
    from_line,
    to_json,
    to_line,
)
from realtime_venus.plugin.timeline.events import AgentText, Latency, TimelineEvent, UnitTimed

SAMPLES: dict[object, Any] = {
    int: 7,
    str: "你好\n",
    float: 0.5,
    bool: True,
    int | None: None,
    dict[str, float]: {"asr": 1.5},
}


def example(cls: type[TimelineEvent]) -> TimelineEvent:
    hints = get_type_hints(cls)
    return cls(**{item.name: SAMPLES[hints[item.name]] for item in fields(cls)})


@pytest.mark.parametrize("kind", sorted(event_types()))
def test_every_event_survives_json(kind: str) -> None:
    entry = Entry(3, example(event_types()[kind]))
    line = to_line(entry)
    assert "\n" not in line
    assert from_line(line) == entry
    assert json.loads(line)["type"] == kind


def test_types_are_named_once() -> None:
    classes = event_types().values()
    assert len({cls.type for cls in classes}) == len(classes) >= 15


def test_optional_fields_may_be_left_out() -> None:
    body = to_json(Entry(0, Latency(at_ms=1, utterance_id="u", edge_ms=700)))
    del body["opener_ms"]
    assert from_json(body).event == Latency(at_ms=1, utterance_id="u", edge_ms=700)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"type": "agent.dream"}, "unknown event type"),
        ({"type": 4}, "unknown event type"),
        ({"seq": -1}, "'seq'"),
        ({"seq": True}, "'seq'"),
        ({"text": 4}, "'text' has the wrong type"),
        ({"first_sample": True}, "'first_sample' has the wrong type"),
        ({"first_sample": 1.0}, "'first_sample' has the wrong type"),
        ({"at_ms": "1"}, "'at_ms' has the wrong type"),
        ({"mood": "good"}, "unknown field 'mood'"),
    ],
)
def test_what_is_not_an_event_is_refused(change: dict[str, Any], complaint: str) -> None:
    body = to_json(Entry(0, AgentText(at_ms=1, utterance_id="u", text="a", first_sample=0, end_sample=9)))
    with pytest.raises(TimelineFormatError, match=complaint):
        from_json({**body, **change})


def test_a_missing_field_is_named() -> None:
    body = to_json(Entry(0, AgentText(at_ms=1, utterance_id="u", text="a", first_sample=0, end_sample=9)))
    del body["text"]
    with pytest.raises(TimelineFormatError, match="'text' is missing"):
        from_json(body)


def test_timings_are_numbers_by_name() -> None:
    body = to_json(Entry(0, UnitTimed(at_ms=1, index=0, timings={"asr": 2.0})))
    with pytest.raises(TimelineFormatError, match="'timings'"):
        from_json({**body, "timings": {"asr": "2"}})
    with pytest.raises(TimelineFormatError, match="'timings'"):
        from_json({**body, "timings": [2.0]})


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '"agent.text"'])
def test_lines_that_are_no_objects_are_refused(line: str) -> None:
    with pytest.raises(TimelineFormatError):
        from_line(line)
