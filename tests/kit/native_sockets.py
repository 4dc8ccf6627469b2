"""LiveKit's SDK closes the UDP sockets of a room that is left early only some seconds later, on threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from .leaks import Sockets

DEADLINE_S = 20.0


@pytest_asyncio.fixture
async def native_sockets_closed() -> AsyncIterator[None]:
    """Waits after the test until they are closed; the check for leaks then says which are not."""
    before = Sockets.now().open
    yield
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while any(kind == "SOCK_DGRAM" for _, kind, _ in Sockets.now().open - before):
        if asyncio.get_running_loop().time() > deadline:
            return
        await asyncio.sleep(0.1)
