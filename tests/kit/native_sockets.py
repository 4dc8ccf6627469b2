"""LiveKit's SDK closes the UDP sockets of a room that is left early only some seconds later, on threads of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from .leaks import Socket, Sockets, closing

DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def late_sockets() -> Iterator[set[Socket]]:
    """Sockets that tests of the module left to the SDK.  Waits once, after the last test, and not after each."""
    late: set[Socket] = set()
    yield late
    deadline = time.monotonic() + DEADLINE_S
    while left := late & Sockets.now().open:
        if time.monotonic() > deadline:
            pytest.fail(f"the SDK left open: {sorted(left)}", pytrace=False)
        time.sleep(0.1)
    closing.difference_update(late)


@pytest.fixture
def native_sockets_closed(late_sockets: set[Socket]) -> Iterator[None]:
    """Leaves the UDP sockets that are still open after the test to :func:`late_sockets`."""
    before = Sockets.now().open
    yield
    late = {socket for socket in Sockets.now().open - before if socket[1] == "SOCK_DGRAM"}
    late_sockets |= late
    closing.update(late)
