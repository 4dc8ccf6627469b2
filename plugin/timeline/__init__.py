"""The session's timeline: typed, append-only events with media time."""
