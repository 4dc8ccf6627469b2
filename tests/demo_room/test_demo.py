from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession
from pydantic import SecretStr
from realtime_venus.demo_room.demo import serve
from realtime_venus.demo_room.host import EngineHost, Progress
from realtime_venus.demo_room.server import PortInUse, listening
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.engines.base import Engine, EngineError, SessionOptions, VenusError
from realtime_venus.plugin.rooms.base import MediaRoom
from realtime_venus.plugin.rooms.livekit.server import RefusedCredentials

from ..kit.fake_engine import FakeEngine
from ..kit.livekit_server import KEY, SECRET, LiveKitServer, free_ports


async def nothing(_room: MediaRoom, _engine: Engine, _options: SessionOptions) -> None:
    return


async def prepared(_report: Callable[[Progress], None]) -> Engine:
    return FakeEngine()


async def refused(_report: Callable[[Progress], None]) -> Engine:
    raise EngineError("16 GB of memory are needed")


async def test_it_says_where_it_is_and_goes_when_told(tmp_path: Path) -> None:
    stop, lines, ready = asyncio.Event(), list[str](), list[str]()

    def arrived(address: str) -> None:
        ready.append(address)
        stop.set()

    host = EngineHost("fake", prepared, nothing)
    await serve(RoomSettings(port=0), host, stop, lines.append, cache_dir=tmp_path, ready=arrived)
    assert re.fullmatch(r"Venus is ready at http://127\.0\.0\.1:\d+", lines[1])
    assert ready == [lines[1].removeprefix("Venus is ready at ")]
    assert lines[-1] == "Venus is going"
    assert not (tmp_path / "tls").exists()


async def test_beyond_this_machine_it_serves_https_and_says_the_fingerprint(tmp_path: Path) -> None:
    stop, lines = asyncio.Event(), list[str]()
    settings = RoomSettings(host="0.0.0.0", port=0, key=SecretStr("open sesame"))
    host = EngineHost("fake", prepared, nothing)
    await serve(settings, host, stop, lines.append, cache_dir=tmp_path, ready=lambda _: stop.set())
    assert re.search(r"fingerprint.*\n  ([0-9A-F]{2}:){31}[0-9A-F]{2}$", lines[0])
    assert any(line.startswith("Venus is ready at https://localhost:") for line in lines)
    assert not any("sesame" in line for line in lines)


def meeting_at(url: str, secret: str = SECRET) -> RoomSettings:
    return RoomSettings.model_validate({"port": 0, "livekit": {"url": url, "key": KEY, "secret": secret}})


async def test_a_livekit_server_that_is_not_there_is_said_and_waited_for(tmp_path: Path) -> None:
    url = f"ws://127.0.0.1:{free_ports(1)[0]}"
    stop, lines = asyncio.Event(), list[str]()
    host = EngineHost("fake", prepared, nothing)
    await serve(meeting_at(url), host, stop, lines.append, cache_dir=tmp_path, ready=lambda _: stop.set())
    _page, where, warning, ready, *_ = lines
    assert where == f"Conversations take place in rooms of {url}"
    assert warning.startswith(f"Warning: No LiveKit server answers at {url} (")
    assert "start it, or check VENUS_ROOM__LIVEKIT__URL. Until that changes, no conversation can begin." in warning
    assert ready.endswith(", but the LiveKit server is not")


async def test_a_livekit_server_that_is_there_is_not_talked_about(
    tmp_path: Path, livekit_server: LiveKitServer
) -> None:
    stop, lines = asyncio.Event(), list[str]()
    host, settings = EngineHost("fake", prepared, nothing), meeting_at(livekit_server.url)
    await serve(settings, host, stop, lines.append, cache_dir=tmp_path, ready=lambda _: stop.set())
    assert not any("Warning" in line for line in lines)
    assert re.fullmatch(r"Venus is ready at http://127\.0\.0\.1:\d+", lines[2])


async def test_a_wrong_secret_of_a_livekit_server_ends_it_before_anything_is_loaded(
    tmp_path: Path, livekit_server: LiveKitServer
) -> None:
    prepares: list[str] = []

    async def noted(_report: Callable[[Progress], None]) -> Engine:
        prepares.append("engine")
        return FakeEngine()

    wrong, host = "x" * 40, EngineHost("fake", noted, nothing)
    lines = list[str]()
    with pytest.raises(RefusedCredentials, match=r"check VENUS_ROOM__LIVEKIT__KEY and VENUS_ROOM__LIVEKIT__SECRET"):
        await serve(meeting_at(livekit_server.url, wrong), host, asyncio.Event(), lines.append, cache_dir=tmp_path)
    assert prepares == []
    assert lines == []


async def test_an_engine_that_cannot_load_ends_it_with_the_reason(tmp_path: Path) -> None:
    host = EngineHost("fake", refused, nothing)
    with pytest.raises(VenusError, match="16 GB"):
        await serve(RoomSettings(port=0), host, asyncio.Event(), lambda _: None, cache_dir=tmp_path)


async def test_an_engine_that_breaks_while_loading_is_never_called_ready(tmp_path: Path) -> None:
    async def broken(_report: Callable[[Progress], None]) -> Engine:
        raise RuntimeError("no such operator")

    lines = list[str]()
    host = EngineHost("fake", broken, nothing)
    with pytest.raises(VenusError, match="no such operator"):
        await serve(RoomSettings(port=0), host, asyncio.Event(), lines.append, cache_dir=tmp_path)
    assert not any("ready" in line for line in lines)


async def test_without_an_engine_it_is_not_called_ready(tmp_path: Path) -> None:
    async def given_up(_report: Callable[[Progress], None]) -> Engine:
        raise asyncio.CancelledError

    lines = list[str]()
    host = EngineHost("fake", given_up, nothing)
    with pytest.raises(VenusError, match="given up"):
        await serve(RoomSettings(port=0), host, asyncio.Event(), lines.append, cache_dir=tmp_path)
    assert not any("ready" in line for line in lines)


async def test_told_to_stop_while_loading_it_goes_at_once(tmp_path: Path) -> None:
    async def endless(_report: Callable[[Progress], None]) -> Engine:
        await asyncio.Event().wait()
        raise AssertionError

    stop, lines = asyncio.Event(), list[str]()
    stop.set()
    await serve(RoomSettings(port=0), EngineHost("fake", endless, nothing), stop, lines.append, cache_dir=tmp_path)
    assert not any("ready" in line for line in lines)


async def test_a_taken_port_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    from aiohttp import web

    async with listening(web.Application(), RoomSettings(port=0), None) as address, ClientSession():
        port = int(address.rpartition(":")[2])
        host = EngineHost("fake", prepared, nothing)
        with pytest.raises(PortInUse):
            await serve(RoomSettings(port=port), host, asyncio.Event(), lambda _: None, cache_dir=tmp_path)
