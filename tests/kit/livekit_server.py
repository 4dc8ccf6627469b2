"""A real livekit-server on loopback, with ports of its own."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path

import aiohttp
import pytest
from livekit import api

from .repository import ROOT

KEY = "devkey"
SECRET = "a-secret-of-tests-that-is-32-letters-long"
_START_S = 20.0


@cache
def server_path() -> str:
    """The server's binary, built if need be.  Fails with what to do when it cannot be."""
    script = ROOT / "requirements" / "livekit-server.sh"
    done = subprocess.run([script], capture_output=True, text=True, check=False, timeout=580)
    if done.returncode:
        pytest.fail(done.stderr.strip())
    return done.stdout.strip()


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Ports that nobody uses now, below those that the system gives to outgoing connections, which would take them."""
    sockets = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
    try:
        return [_bind(one) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _bind(free: socket.socket) -> int:
    while True:
        port = random.randrange(10_000, 32_000)
        try:
            free.bind(("0.0.0.0", port))
        except OSError:
            continue
        return port


@dataclass
class LiveKitServer:
    """Where it is, and how to stop and start it.  The ports stay the same over a restart."""

    port: int
    rtc_port: int
    udp_port: int
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """For ``Room.connect`` and the worker."""
        return f"ws://127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        """For the server's own API."""
        return f"http://127.0.0.1:{self.port}"

    def token(self, identity: str, room: str, *, ttl_s: float = 600, grants: api.VideoGrants | None = None) -> str:
        """A token to join ``room``, or with exactly ``grants``."""
        return (
            api.AccessToken(KEY, SECRET)
            .with_identity(identity)
            .with_ttl(timedelta(seconds=ttl_s))
            .with_grants(grants or api.VideoGrants(room_join=True, room=room))
            .to_jwt()
        )

    @asynccontextmanager
    async def api(self) -> AsyncGenerator[api.LiveKitAPI]:
        """The server's API (rooms, dispatch), closed afterwards."""
        client = api.LiveKitAPI(self.http, KEY, SECRET)
        try:
            yield client
        finally:
            await client.aclose()  # pyright: ignore[reportUnknownMemberType]  (untyped in the SDK)

    async def start(self) -> None:
        """Start it and wait until it answers."""
        config = {
            "port": self.port,
            "bind_addresses": ["127.0.0.1"],
            "rtc": {
                "tcp_port": self.rtc_port,
                "udp_port": self.udp_port,
                "node_ip": "127.0.0.1",
                "use_external_ip": False,
                "enable_loopback_candidate": True,
            },
            "keys": {KEY: SECRET},
            "logging": {"level": "info", "json": True},
        }
        # Its YAML takes JSON.  Out of the way of the environment's own LiveKit settings.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LIVEKIT_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 - begins in no time, and is killed by hand
                [server_path(), "--config-body", json.dumps(config)], stdout=log, stderr=log, env=environment
            )
        try:
            async with asyncio.timeout(_START_S):
                await self._answering()
        except TimeoutError:
            self.stop()
            pytest.fail(f"livekit-server did not start:\n{self.log.read_text()[-3000:]}")

    async def _answering(self) -> None:
        async with aiohttp.ClientSession() as client:
            while True:
                if self.process is not None and self.process.poll() is not None:
                    pytest.fail(f"livekit-server ended at once:\n{self.log.read_text()[-3000:]}")
                try:
                    async with client.get(self.http) as answer:
                        if answer.ok:
                            return
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.05)

    def stop(self) -> None:
        """Kill it, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[LiveKitServer]:
    """A server with a log in ``folder``."""
    port, rtc_port = free_ports(2)
    (udp_port,) = free_ports(1, socket.SOCK_DGRAM)
    server = LiveKitServer(port, rtc_port, udp_port, folder / "livekit-server.log")
    await server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def livekit_server(tmp_path: Path) -> AsyncGenerator[LiveKitServer]:
    """A server for one test."""
    async with running(tmp_path) as server:
        yield server
