"""Timeline events as JSON: strict in both directions, so that a recording can be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, cast, get_args, get_type_hints

from . import events as _events
from .events import TimelineEvent


class TimelineFormatError(ValueError):
    """A JSON object is not a timeline event; the message names the field."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event with its place on the timeline: ``seq`` counts from 0 without gaps."""

    seq: int
    event: TimelineEvent


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kinds: tuple[object, ...]
    required: bool


@cache
def event_types() -> Mapping[str, type[TimelineEvent]]:
    """Every event class by its ``type``."""
    found = (value for value in vars(_events).values() if isinstance(value, type))
    return {cls.type: cls for cls in found if issubclass(cls, TimelineEvent) and cls is not TimelineEvent}


@cache
def _fields(cls: type[TimelineEvent]) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    return tuple(
        _Field(
            name=item.name,
            kinds=get_args(hints[item.name]) if type(None) in get_args(hints[item.name]) else (hints[item.name],),
            required=item.default is MISSING and item.default_factory is MISSING,
        )
        for item in fields(cls)
    )


def to_json(entry: Entry) -> dict[str, Any]:
    """The JSON-ready form: ``type``, ``seq``, ``at_ms`` and the event's own fields."""
    event = entry.event
    body: dict[str, Any] = {"type": event.type, "seq": entry.seq, "at_ms": event.at_ms}
    for item in _fields(type(event)):
        value = getattr(event, item.name)
        body[item.name] = dict(cast("Mapping[str, float]", value)) if isinstance(value, Mapping) else value
    return body


def to_line(entry: Entry) -> str:
    """One line of a recording, without its newline."""
    return json.dumps(to_json(entry), ensure_ascii=False, separators=(",", ":"))


def from_json(body: object) -> Entry:
    """Read what :func:`to_json` wrote.

    Raises :class:`TimelineFormatError` for anything else: an unknown type, a missing, unknown or wrongly typed field.
    """
    if not isinstance(body, dict):
        raise TimelineFormatError("a timeline event is a JSON object")
    values = dict(cast("dict[str, object]", body))
    kind, seq = values.pop("type", None), values.pop("seq", None)
    cls = event_types().get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise TimelineFormatError(f"unknown event type {kind!r}")
    if type(seq) is not int or seq < 0:
        raise TimelineFormatError(f"{kind}: 'seq' must be a whole number from 0")
    arguments: dict[str, Any] = {}
    for item in _fields(cls):
        if item.name in values:
            arguments[item.name] = _checked(values.pop(item.name), item, cls.type)
        elif item.required:
            raise TimelineFormatError(f"{kind}: field {item.name!r} is missing")
    if values:
        raise TimelineFormatError(f"{kind}: unknown field {sorted(values)[0]!r}")
    return Entry(seq, cls(**arguments))


def from_line(line: str) -> Entry:
    """Read one line of a recording.  Raises :class:`TimelineFormatError`."""
    try:
        body: object = json.loads(line)
    except json.JSONDecodeError as error:
        raise TimelineFormatError(f"not JSON: {error.msg}") from error
    return from_json(body)


def _checked(value: object, item: _Field, kind: str) -> object:
    found: object = type(value)  # compared, not narrowed: True is no whole number here
    for wanted in item.kinds:
        if wanted is float and found in (int, float):
            return float(cast("float", value))
        if wanted == dict[str, float]:
            if found is dict and _is_timings(pairs := cast("dict[object, object]", value)):
                return {str(key): float(cast("float", number)) for key, number in pairs.items()}
        elif found is wanted:
            return value
    raise TimelineFormatError(f"{kind}: field {item.name!r} has the wrong type {type(value).__name__}")


def _is_timings(pairs: Mapping[object, object]) -> bool:
    return all(isinstance(key, str) and type(number) in (int, float) for key, number in pairs.items())
