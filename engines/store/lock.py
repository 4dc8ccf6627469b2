"""One pull at a time for each cache folder, across processes."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from .errors import StoreBusy

_POLL_S = 0.2


@contextmanager
def pull_lock(
    folder: Path, timeout_s: float, waiting: Callable[[], None], clock: Callable[[], float] = time.monotonic
) -> Generator[None]:
    """Hold the lock of ``folder``; the kernel frees it when the process ends, however that happens.

    ``waiting`` is called once when somebody else holds it.  Raises :class:`StoreBusy` after ``timeout_s`` seconds.
    """
    deadline = clock() + timeout_s
    told = False
    pause = Event()
    with (folder / ".lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock() >= deadline:
                    message = f"another pull into {folder} did not finish within {timeout_s:g} s; wait for it or end it"
                    raise StoreBusy(message) from None
                if not told:
                    waiting()
                    told = True
                pause.wait(_POLL_S)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
