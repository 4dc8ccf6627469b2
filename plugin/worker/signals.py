"""A first signal asks the process to end in good order, a second one ends it at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

_log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_at_once(number: signal.Signals = signal.SIGTERM) -> None:
    """End the process by a signal, without waiting: an exception would wait for the threads of jobs."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextmanager
def stop_on_signals() -> Generator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set.  Inside an event loop of the main thread."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            end_at_once(number)
        else:
            _log.info("told to stop; a second signal ends at once", extra={"signal": number.name})
            stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, received, number)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
