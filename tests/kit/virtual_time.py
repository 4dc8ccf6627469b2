"""An event loop whose clock jumps to the next timer: minutes pass in milliseconds, and always in the same way."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_REAL_WAIT_S = 10.0


class NothingHappensError(RuntimeError):
    """Everything waits and no timer is set: a deadlock."""


class _JumpingSelector(selectors.BaseSelector):
    """Answers at once; where the loop would have waited, the clock is moved instead."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            ready = self._real.select(_REAL_WAIT_S)  # only another thread can wake the loop now
            if not ready:
                raise NothingHappensError("every task waits and no timer is set")
            return ready
        self.now_s += max(0.0, timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """``time()`` starts at 0 and moves only when nothing else is left to do."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on a fresh virtual-time loop; a task left behind is a failure."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        result = runner.run(main)
        left = [task for task in asyncio.all_tasks(runner.get_loop()) if not task.done()]
        assert not left, f"tasks left behind: {left}"
        return result
