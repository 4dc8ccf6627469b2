"""A server is asked once whether it is there and knows the key."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from realtime_venus.plugin.rooms.livekit.server import NoAnswer, RefusedCredentials, check_server

from ....kit.livekit_server import KEY, SECRET, LiveKitServer, free_ports

VARIABLES = ("OUR_URL", "OUR_KEY", "OUR_SECRET")


async def test_a_server_that_knows_the_key_is_found(livekit_server: LiveKitServer) -> None:
    await check_server(livekit_server.url, KEY, SECRET, VARIABLES)


async def test_a_wrong_secret_and_an_unknown_key_are_said_and_not_shown(livekit_server: LiveKitServer) -> None:
    wrong = "x" * 40
    for key, secret in ((KEY, wrong), ("nobody", SECRET)):
        with pytest.raises(RefusedCredentials, match=r"check OUR_KEY and OUR_SECRET\.$") as caught:
            await check_server(livekit_server.url, key, secret, VARIABLES)
        assert secret not in str(caught.value)


async def test_a_server_that_is_not_there_is_named_with_what_to_do() -> None:
    (port,) = free_ports(1)
    with pytest.raises(NoAnswer, match=rf"at ws://127\.0\.0\.1:{port} \(.*\): start it, or check OUR_URL\.$"):
        await check_server(f"ws://127.0.0.1:{port}", KEY, SECRET, VARIABLES)


@pytest.mark.parametrize("says", ["nothing", "something else"])
async def test_what_is_no_livekit_server_is_no_answer(says: str) -> None:
    """One that says nothing is waited for no longer than may be."""

    over = asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        if says == "nothing":
            await over.wait()
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = int(runner.addresses[0][1])
        with pytest.raises(NoAnswer):
            await check_server(f"ws://127.0.0.1:{port}", KEY, SECRET, VARIABLES, 0.5)
    finally:
        over.set()
        await runner.cleanup()
