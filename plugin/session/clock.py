"""Media time: samples define it; between two chunks the wall clock fills in."""

from __future__ import annotations

from ...engines.base import INPUT_HZ

_SAMPLES_PER_MS = INPUT_HZ // 1000


class MediaClock:
    """Milliseconds since the session began, never running backwards.

    ``fast``: media time stands still between chunks.  Otherwise it goes on by the wall clock from the last chunk's
    arrival, so that it also passes while nothing arrives.
    """

    def __init__(self, started_s: float, *, fast: bool) -> None:
        self._fast = fast
        self._base_ms = 0.0
        self._base_s = started_s
        self._latest_ms = 0

    def arrived(self, end_position: int, arrival_s: float) -> None:
        """Audio up to ``end_position`` (16 kHz samples) has arrived."""
        self._base_ms = end_position / _SAMPLES_PER_MS
        self._base_s = arrival_s

    def now_ms(self, wall_s: float) -> int:
        """Media time at the moment ``wall_s`` of the event loop's clock."""
        passed_ms = 0.0 if self._fast else max(0.0, wall_s - self._base_s) * 1000
        self._latest_ms = max(self._latest_ms, int(self._base_ms + passed_ms))
        return self._latest_ms
