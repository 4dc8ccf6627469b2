from __future__ import annotations

import subprocess
import sys
import threading

from realtime_venus.engines import daemons

from ..kit.repository import ROOT


def test_what_runs_is_stopped_and_waited_for() -> None:
    stopped, done = threading.Event(), list[str]()

    def work() -> None:
        stopped.wait(10)
        done.append("done")

    thread = daemons.begin(work, "venus-test", stopped.set)
    assert thread.daemon
    assert daemons.end_all() == []
    assert done == ["done"]
    assert not thread.is_alive()


def test_what_does_not_end_is_named_after_the_deadline() -> None:
    release = threading.Event()

    def work() -> None:
        release.wait(10)

    thread = daemons.begin(work, "venus-test", lambda: None)
    try:
        assert daemons.end_all(0.05) == ["venus-test"]
    finally:
        release.set()
        thread.join(10)
    assert daemons.end_all(0.05) == []


def test_a_process_that_ends_in_the_midst_of_native_work_does_not_abort() -> None:
    """As it did with SIGABRT, "terminate called without an active exception", where the thread was a plain daemon."""
    script = """
import threading
import numpy as np
from realtime_venus.engines import daemons
from realtime_venus.engines.silero import SileroModel, SileroVad
detector, silence = SileroVad(SileroModel()), np.zeros(320, np.float32)
stopped, works = threading.Event(), threading.Event()
def work():
    while not stopped.is_set():
        detector.push(silence)
        works.set()
daemons.begin(work, "venus-test", stopped.set)
works.wait(30)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
