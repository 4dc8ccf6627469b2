"""Daemon threads of ours, and their end before the interpreter's.

A thread that comes back from native code while the interpreter is taken down is ended in the middle of C++ frames, and
the process aborts (SIGABRT), though all was done.  So what still runs at the exit is told to end, and waited for.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

DEADLINE_S = 5.0
"""How long the exit waits, for all of them together."""

_running: dict[threading.Thread, Callable[[], None]] = {}
_lock = threading.Lock()


def begin(work: Callable[[], None], name: str, stop: Callable[[], None]) -> threading.Thread:
    """Run ``work`` on a daemon thread.  ``stop`` makes it end soon; it does not block, and may come from any thread."""

    def run() -> None:
        try:
            work()
        finally:
            with _lock:
                _running.pop(thread, None)

    thread = threading.Thread(target=run, name=name, daemon=True)
    with _lock:
        _running[thread] = stop
    thread.start()
    return thread


def end_all(deadline_s: float = DEADLINE_S) -> list[str]:
    """Stop those that run and wait for them; the names of the ones that did not end in time."""
    with _lock:
        running = dict(_running)
    for stop in running.values():
        stop()
    until_s = time.monotonic() + deadline_s
    for thread in running:
        thread.join(max(0.0, until_s - time.monotonic()))
    left = sorted(thread.name for thread in running if thread.is_alive())
    if left:
        _log.warning("threads did not end in time", extra={"threads": left, "deadline_s": deadline_s})
    return left


atexit.register(end_all)
