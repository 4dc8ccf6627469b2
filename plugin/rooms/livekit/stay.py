"""When the agent leaves by itself, and when its time begins.  Pure: times are seconds of the event loop's clock."""

from __future__ import annotations

from .options import LiveKitOptions


class Stay:
    """Follows company and connection.  A room is entered alone."""

    def __init__(self, options: LiveKitOptions, now_s: float) -> None:
        self._options = options
        self._alone_since_s: float | None = now_s
        self._company_since_s: float | None = None
        self._lost_since_s: float | None = None
        self._visited = False

    @property
    def connected(self) -> bool:
        """Whether the connection is up."""
        return self._lost_since_s is None

    def company(self, now_s: float, *, there: bool) -> bool:
        """Somebody is there, or nobody.  Whether this is the first visit of all."""
        first = there and not self._visited
        if there:
            self._visited, self._alone_since_s = True, None
            self._company_since_s = now_s if self._company_since_s is None else self._company_since_s
        else:
            self._company_since_s = None
            self._alone_since_s = now_s if self._alone_since_s is None else self._alone_since_s
        return first

    def connection(self, now_s: float, *, up: bool) -> None:
        """The connection was lost, or is back."""
        if up:
            self._lost_since_s = None
        elif self._lost_since_s is None:
            self._lost_since_s = now_s

    def leave_because(self, now_s: float) -> str | None:
        """The reason to leave now, if there is one."""
        options = self._options
        if self._lost_since_s is not None and now_s - self._lost_since_s > options.reconnect_s:
            return "connection_lost"
        limit_s = options.empty_s if self._visited else options.join_s
        if self._alone_since_s is not None and now_s - self._alone_since_s > limit_s:
            return "empty" if self._visited else "nobody_came"
        return None

    def may_speak(self, now_s: float, *, subscribed: bool) -> bool:
        """Whether frames are to flow: somebody subscribed, or is there and has had time enough to."""
        waited_s = -1.0 if self._company_since_s is None else now_s - self._company_since_s
        return self.connected and (subscribed or waited_s > self._options.listener_wait_s)
