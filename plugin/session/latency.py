"""The user's last sound → the first sample of the answer handed to the room's track."""

from __future__ import annotations

from ...engines.base import OUTPUT_HZ
from ..timeline.events import Latency


class LatencyMeter:
    """One measurement for each time the user has spoken; pure.

    Speech that was prepared beforehand (the opener at an utterance's start) is measured apart from the answer itself.
    """

    def __init__(self) -> None:
        self.last_sound_ms: int | None = None
        self._awaiting = False
        self._opener_end: dict[str, int] = {}
        self._opener_ms: dict[str, int] = {}

    def user_spoke(self) -> None:
        """The user speaks: the next answer is measured."""
        self._awaiting = True

    def cancel(self) -> None:
        """What comes next answers something else (typed text, a text to be read out)."""
        self._awaiting = False

    def speech(self, utterance_id: str, first: int, end: int, *, opener: bool) -> None:
        """Speech ``[first, end)`` was queued."""
        if opener and first <= self._opener_end.get(utterance_id, 0):
            self._opener_end[utterance_id] = end
        else:
            self._opener_end.setdefault(utterance_id, 0)

    def sent(self, utterance_id: str, first: int, end: int, at_ms: int) -> Latency | None:
        """Samples ``[first, end)`` were handed over from ``at_ms`` on; measures when the answer is among them."""
        if not self._awaiting or self.last_sound_ms is None:
            return None
        opener_end = self._opener_end.get(utterance_id, 0)
        if first < opener_end:
            self._opener_ms.setdefault(utterance_id, at_ms - self.last_sound_ms)
        if not first <= opener_end < end:
            return None  # still the opener, or an answer that had begun before the user spoke
        self._awaiting = False
        begun_ms = at_ms + max(0, opener_end - first) * 1000 // OUTPUT_HZ
        return Latency(
            at_ms=begun_ms,
            utterance_id=utterance_id,
            edge_ms=begun_ms - self.last_sound_ms,
            opener_ms=self._opener_ms.get(utterance_id),
        )

    def over(self, utterance_id: str) -> None:
        """Forget a finished utterance."""
        self._opener_end.pop(utterance_id, None)
        self._opener_ms.pop(utterance_id, None)
