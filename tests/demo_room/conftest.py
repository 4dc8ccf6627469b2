from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession
from realtime_venus.demo_room.conversations import Conversations
from realtime_venus.demo_room.demo import transport
from realtime_venus.demo_room.server import RoomServer, listening
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.demo_room.tokens import Door

from .scripted import ScriptedHost


@dataclass
class Running:
    """A server on a free port and a client for it."""

    address: str
    host: ScriptedHost
    conversations: Conversations
    client: ClientSession

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
        async with self.client.post(self.address + path, json=body, headers=headers) as response:
            return await said(response)

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
        async with self.client.get(self.address + path, headers=headers) as response:
            return await said(response)

    async def token(self, **headers: str) -> str:
        status, body = await self.post("/api/session", {}, **headers)
        assert status == 201, body
        return str(body["token"])


async def said(response: ClientResponse) -> tuple[int, dict[str, Any]]:
    """Status and JSON of an answer."""
    return response.status, await response.json() if response.content_type == "application/json" else {}


Start = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def start() -> Start:
    @asynccontextmanager
    async def started(host: ScriptedHost | None = None, /, **settings: Any) -> AsyncGenerator[Running]:
        room = RoomSettings(port=0, **settings)
        host = host or ScriptedHost()
        conversations = Conversations(host, transport(room), room.max_sessions)
        key = None if room.key is None else room.key.get_secret_value()
        server = RoomServer(room, host, conversations, Door(key, asyncio.get_running_loop().time))
        async with listening(server.app(), room, None) as address, ClientSession() as client:
            yield Running(address, host, conversations, client)

    return started
