"""What happened in a session: typed events with media time, append-only, recorded and read back."""

from __future__ import annotations

from .codec import Entry, TimelineFormatError, event_types, from_json, from_line, to_json, to_line
from .events import TimelineEvent
from .log import Subscription, Timeline
from .recorder import Recorder, Recording, delete_recording, read_recording, recordings

__all__ = [
    "Entry",
    "Recorder",
    "Recording",
    "Subscription",
    "Timeline",
    "TimelineEvent",
    "TimelineFormatError",
    "delete_recording",
    "event_types",
    "from_json",
    "from_line",
    "read_recording",
    "recordings",
    "to_json",
    "to_line",
]
