"""What of one generation has been played, from what LiveKit says of its output."""

from __future__ import annotations

from collections import deque

_REMEMBERED = 3000
_SLACK_S = 1e-3


class Heard:
    """Follows one output, generation by generation.  Pure; times are wall-clock seconds as LiveKit stamps them.

    LiveKit says when a generation began to be played and, at its end, how much of it was.  In between the clock says
    so, and never more than was captured.  A run that ran dry is reported when the next one begins.
    """

    def __init__(self) -> None:
        self._frames: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)  # where it ends, and its number
        self._captured_s = 0.0
        self._from_s: float | None = None
        self._offset_s = 0.0
        self._number = -1

    def captured(self, number: int | None, duration_s: float) -> None:
        """A frame was taken by the output; ``None`` for one that is not ours."""
        self._captured_s += duration_s
        if number is not None:
            self._frames.append((self._captured_s, number))

    def started(self, at_s: float) -> None:
        """The generation began to be played at ``at_s``."""
        self._from_s, self._offset_s = at_s, 0.0

    def progressed(self, offset_s: float, duration_s: float, now_s: float) -> int:
        """``[offset_s, offset_s + duration_s)`` of the generation has been played; what follows is played from now."""
        self._from_s, self._offset_s = now_s, offset_s + duration_s
        return self._up_to(self._offset_s)

    def now(self, now_s: float) -> int:
        """The number of the newest frame that has been played, -1 for none."""
        if self._from_s is None:
            return self._number
        return self._up_to(min(self._captured_s, self._offset_s + max(0.0, now_s - self._from_s)))

    def finished(self, position_s: float) -> int:
        """The generation is over, and ``position_s`` of it was played; the next one may begin."""
        number = self._up_to(position_s)
        self._frames.clear()
        self._captured_s, self._from_s, self._offset_s = 0.0, None, 0.0
        return number

    def _up_to(self, position_s: float) -> int:
        while self._frames and self._frames[0][0] <= position_s + _SLACK_S:
            self._number = self._frames.popleft()[1]
        return self._number
