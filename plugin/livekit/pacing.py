"""When the next frame is pulled: at real time, and a little ahead of it while the agent speaks."""

from __future__ import annotations

from ..rooms.base import PLAYOUT_MS

_LATE_MS = 200


class Pacer:
    """Pure: times in, yes or no out.  Times are seconds of any clock that only goes forward."""

    def __init__(self, lead_ms: int) -> None:
        self._lead_ms = lead_ms
        self._origin_s: float | None = None
        self._pulled = 0
        self.skipped_ms = 0
        """Time left out because the puller came late; nothing is made up for in a burst."""

    def restart(self, now_s: float) -> None:
        """Go on at real time from now, whatever is ahead."""
        self._origin_s, self._pulled = now_s, 0

    def wants(self, now_s: float, *, eager: bool) -> bool:
        """Whether to pull another frame now; ``eager``: speech is there to be handed over ahead of its time."""
        if self._origin_s is None:
            self.restart(now_s)
        ahead_ms = self.ahead_ms(now_s)
        if ahead_ms < -_LATE_MS and self._origin_s is not None:
            self._origin_s -= ahead_ms / 1000  # moved to a later time
            self.skipped_ms -= round(ahead_ms)
            ahead_ms = 0.0
        return ahead_ms <= (self._lead_ms - PLAYOUT_MS if eager else 0) + 1e-6

    def pulled(self) -> None:
        """A frame was pulled."""
        self._pulled += 1

    def ahead_ms(self, now_s: float) -> float:
        """How much more was pulled than time has passed."""
        return self._pulled * PLAYOUT_MS - (now_s - (self._origin_s or 0.0)) * 1000
