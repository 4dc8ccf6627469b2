from __future__ import annotations

import asyncio
import io
import socket
from typing import Any

import pytest
from aiohttp import FormData
from aiortc import RTCSessionDescription
from pydantic import SecretStr
from realtime_venus.demo_room.host import HostState
from realtime_venus.demo_room.server import MAX_BODY, PortInUse, address
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.engines.base import Language, SessionOptions, VenusError
from realtime_venus.plugin.rooms.webrtc import WebRtcRoom

from ..plugin.rooms.webrtc.page import Page, ToneMicrophone, page, until
from ..plugin.rooms.webrtc.test_room import only_pcmu
from .conftest import Running, Start, said
from .scripted import ScriptedHost


async def offered(server: Running, browser: Page, token: str, **more: str) -> tuple[int, dict[str, Any]]:
    sdp = await browser.offer()
    status, body = await server.post("/api/offer", {"token": token, "type": "offer", "sdp": sdp, **more})
    if status == 200:
        await browser.connection.setRemoteDescription(RTCSessionDescription(body["sdp"], "answer"))
        await until(lambda: browser.channel.readyState == "open", "the data channel")
    return status, body


async def still_serves(server: Running) -> None:
    """A whole conversation with another visitor works."""
    async with page(ToneMicrophone()) as browser:
        token = await server.token()
        status, _ = await offered(server, browser, token)
        assert status == 200
        await until(lambda: len(browser.heard) > 10, "sound")
        await server.post("/api/close", {"token": token})


async def test_a_conversation_from_token_to_goodbye(start: Start) -> None:
    async with start() as server, page(ToneMicrophone(440)) as browser:
        status, body = await server.post("/api/session", {"language": "zh", "voice": "zf_001"})
        assert status == 201
        assert server.host.options == [SessionOptions(language=Language.ZH, voice="zf_001")]
        assert len(body["token"]) >= 43
        assert body["ice_servers"] == []
        status, answer = await offered(server, browser, body["token"])
        assert (status, answer["type"]) == (200, "answer")
        await until(lambda: server.host.samples > 16_000 and len(browser.heard) > 20, "sound both ways")
        assert any(message["type"] == "latency" for message in browser.messages)
        assert (await server.get("/api/info"))[1]["sessions"] == {"open": 1, "limit": 2}
        status, _ = await server.post("/api/close", {"token": body["token"]})
        assert status == 204
        assert len(server.conversations) == 0


async def test_info_says_what_the_page_needs(start: Start) -> None:
    async with start() as server:
        status, info = await server.get("/api/info")
    assert status == 200
    assert info["engine"] == {"name": "scripted", "state": "ready", "stage": "pulling", "share": 0.4, "error": ""}
    assert info["languages"] == ["en", "zh"]
    assert info["voices"] == {"en": ["hibari", "af_heart"], "zh": ["zf_001"]}
    assert (info["can_type"], info["key_required"], info["recording"]) == (True, False, False)
    assert info["text_chars"] == 60
    assert info["can_see"] is False


@pytest.mark.parametrize(
    ("state", "health", "code"), [(HostState.LOADING, 503, "loading"), (HostState.FAILED, 503, "engine_failed")]
)
async def test_before_the_engine_is_there_the_page_says_so(
    start: Start, state: HostState, health: int, code: str
) -> None:
    async with start(ScriptedHost(state=state)) as server:
        assert await server.get("/healthz") == (health, {"state": state})
        status, body = await server.post("/api/session", {})
        assert (status, body["error"]) == (503, code)
        async with server.client.get(server.address) as response:
            assert response.status == 200


async def test_why_loading_failed_is_said_only_to_who_knows_the_key(start: Start) -> None:
    for settings in ({}, {"key": "open sesame"}):
        async with start(ScriptedHost(state=HostState.FAILED), **settings) as server:
            told = [(await server.get("/api/info"))[1]["engine"]["error"]]
            told.append((await server.post("/api/session", {}))[1]["message"])
            assert told[0] == "the engine could not be loaded; the reason is in the log of the server"
            assert not any(server.host.error in text for text in told)
            if settings:
                _, body = await server.post("/api/session", {}, Authorization="Bearer open sesame")
                assert body["message"] == server.host.error


async def test_a_full_house_says_so_and_has_room_again_later(start: Start) -> None:
    async with start(max_sessions=1) as server:
        token = await server.token()
        status, body = await server.post("/api/session", {})
        assert (status, body["error"]) == (429, "full")
        assert body["message"]
        await server.post("/api/close", {"token": token})
        await still_serves(server)


async def test_the_engines_own_limit_counts_too(start: Start) -> None:
    async with start(ScriptedHost(max_sessions=1), max_sessions=10) as server:
        await server.token()
        assert (await server.post("/api/session", {}))[0] == 429


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sdp", ["nonsense", "v=0\r\n", "\x00" * 100, "v=0\r\nm=audio x y z\r\n"])
async def test_a_malformed_description_is_refused(start: Start, sdp: str) -> None:
    async with start() as server:
        token = await server.token()
        status, body = await server.post("/api/offer", {"token": token, "type": "offer", "sdp": sdp})
        assert (status, body["error"]) == (400, "sdp")
        await still_serves(server)


async def test_no_common_codec_is_said_by_name(start: Start) -> None:
    async with start() as server, page(ToneMicrophone()) as browser:
        sdp = only_pcmu(await browser.offer())
        status, body = await server.post("/api/offer", {"token": await server.token(), "type": "offer", "sdp": sdp})
        assert (status, body["error"]) == (422, "codec")
        assert "Opus" in body["message"]
        await still_serves(server)


async def test_a_second_offer_on_the_token_is_refused_while_the_first_page_is_there(start: Start) -> None:
    async with start() as server, page(ToneMicrophone()) as browser, page(ToneMicrophone()) as other:
        token = await server.token()
        await offered(server, browser, token)
        status, body = await offered(server, other, token)
        assert (status, body["error"]) == (409, "connected")
        heard = len(browser.heard)
        await until(lambda: len(browser.heard) > heard + 10, "the first page's sound")


async def test_the_page_itself_may_come_back_before_the_server_has_noticed(start: Start) -> None:
    async with start() as server, page(ToneMicrophone()) as browser, page(ToneMicrophone()) as again:
        token = await server.token()
        _, answer = await offered(server, browser, token)
        status, _ = await offered(server, again, token, resume=answer["resume"])
        assert status == 200
        await until(lambda: len(again.heard) > 10, "sound")
        assert len(server.host.rooms) == 1


async def test_after_a_break_the_same_session_goes_on(start: Start) -> None:
    async with start() as server, page(ToneMicrophone()) as again:
        token = await server.token()
        async with page(ToneMicrophone()) as browser:
            await offered(server, browser, token)
            await until(lambda: len(browser.heard) > 5, "sound")
        conversation = server.conversations.find(token)
        assert conversation is not None
        room = conversation.room
        assert isinstance(room, WebRtcRoom)
        await until(lambda: not room.connected, "the loss")
        status, _ = await offered(server, again, token)
        assert status == 200
        assert len(server.host.rooms) == 1


async def test_a_killed_page_ends_its_own_session_only(start: Start) -> None:
    async with start(grace_s=0.3) as server, page(ToneMicrophone()) as stays:
        kept, lost = await server.token(), await server.token()
        await offered(server, stays, kept)
        async with page(ToneMicrophone()) as browser:
            await offered(server, browser, lost)
        await until(lambda: len(server.conversations) == 1, "the end of the lost session")
        assert server.conversations.find(kept) is not None
        heard = len(stays.heard)
        await until(lambda: len(stays.heard) > heard + 10, "the other page's sound")


async def test_ten_megabytes_are_refused_unread(start: Start) -> None:
    async with start() as server:
        body = io.BytesIO(b'{"token": "t", "type": "offer", "sdp": "' + b"x" * 10_000_000 + b'"}')
        headers = {"Content-Type": "application/json"}
        async with server.client.post(server.address + "/api/offer", data=body, headers=headers) as response:
            status, answer = await said(response)
        assert (status, answer["error"]) == (413, "too_large")
        assert str(MAX_BODY // 1024) in answer["message"]
        await still_serves(server)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1:1", "null", "http://localhost.evil.example"]
)
@pytest.mark.parametrize("path", ["/api/session", "/api/offer", "/api/close"])
async def test_pages_of_other_sites_are_refused(start: Start, origin: str, path: str) -> None:
    async with start() as server:
        status, body = await server.post(path, {}, Origin=origin)
        assert (status, body["error"]) == (403, "origin")
        assert len(server.conversations) == 0


async def test_own_and_allowed_pages_are_let_in(start: Start) -> None:
    async with start(allowed_origins=("https://app.example",)) as server:
        await server.token(Origin=server.address)
        await server.token(Origin="https://app.example")


async def test_a_foreign_name_for_this_machine_is_refused(start: Start) -> None:
    async with start() as server:
        status, body = await server.get("/api/info", Host="rebound.example")
        assert (status, body["error"]) == (403, "host")
        assert (await server.get("/api/info", Host="localhost:5"))[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
async def test_a_server_answers_at_the_address_that_it_says(start: Start, host: str) -> None:
    async with start(host=host) as server:
        status, info = await server.get("/api/info")
        assert (status, info["engine"]["name"]) == (200, "scripted")
        await server.token(Origin=server.address)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/session", {"language": "fr"}),
        ("/api/session", {"voice": "x" * 65}),
        ("/api/session", {"surprise": 1}),
        ("/api/session", []),
        ("/api/offer", {}),
        ("/api/offer", {"token": "t", "type": "answer", "sdp": "v=0"}),
        ("/api/offer", {"token": 5, "type": "offer", "sdp": "v=0"}),
        ("/api/close", {"token": ""}),
    ],
)
async def test_wrong_fields_are_named(start: Start, path: str, body: Any) -> None:
    async with start() as server:
        status, answer = await server.post(path, body)
        assert (status, answer["error"]) == (400, "body")
        assert answer["message"].startswith("wrong or missing: ")


async def test_only_json_is_read(start: Start) -> None:
    async with start() as server:
        form = FormData({"language": "en"})
        async with server.client.post(server.address + "/api/session", data=form) as response:
            assert (response.status, (await response.json())["error"]) == (415, "json")
        headers = {"Content-Type": "application/json"}
        async with server.client.post(server.address + "/api/session", data=b"{", headers=headers) as response:
            assert response.status == 400


async def test_an_unknown_voice_is_refused_before_a_session_begins(start: Start) -> None:
    async with start() as server:
        status, body = await server.post("/api/session", {"voice": "nobody"})
        assert (status, body["error"]) == (400, "voice")
        assert len(server.conversations) == 0


async def test_unknown_and_ended_tokens_are_gone(start: Start) -> None:
    async with start() as server:
        assert (await server.post("/api/offer", {"token": "guess", "type": "offer", "sdp": "v=0"}))[0] == 404
        token = await server.token()
        async with server.client.delete(f"{server.address}/api/session/{token}") as response:
            assert response.status == 204
        async with server.client.delete(f"{server.address}/api/session/{token}") as response:
            assert response.status == 404
        assert (await server.post("/api/close", {"token": token}))[0] == 204
        status, body = await server.post("/api/offer", {"token": token, "type": "offer", "sdp": "v=0"})
        assert (status, body["error"]) == (404, "gone")


async def test_a_key_is_asked_for_and_guessing_is_slowed_down(start: Start) -> None:
    async with start(key="open sesame") as server:
        assert (await server.get("/api/info"))[1]["key_required"] is True
        status, body = await server.post("/api/session", {})
        assert (status, body["error"]) == (401, "key")
        await server.token(Authorization="Bearer open sesame")
        for key in (b"guess", b"schl\xfcssel", b"\xff\xfe", "schlüssel".encode(), *[b"guess"] * 5):
            headers = {"Authorization": (b"Bearer " + key).decode(errors="surrogateescape")}
            assert (await server.post("/api/session", {}, **headers))[0] == 401
        assert (await server.post("/api/session", {}, Authorization="Bearer open sesame"))[0] == 429


async def test_a_conversation_that_fails_is_ended_and_the_house_stands(start: Start) -> None:
    class Broken(ScriptedHost):
        async def converse(self, room: Any, options: SessionOptions) -> None:
            if not self.options:
                self.options.append(options)
                raise VenusError("the engine tripped")
            await super().converse(room, options)

    async with start(Broken()) as server:
        await server.token()
        await until(lambda: len(server.conversations) == 0, "the end")
        await still_serves(server)


# -- page, headers, listening -----------------------------------------------------------------------------------------


async def test_the_page_may_load_nothing_from_elsewhere(start: Start) -> None:
    async with start() as server:
        async with server.client.get(server.address) as response:
            policy = response.headers["Content-Security-Policy"]
            html = await response.text()
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "<script>" not in html
        assert " style=" not in html
        assert "http:" not in html
        async with server.client.get(server.address + "/page/app.js") as response:
            assert response.status == 200
            assert response.content_type in ("text/javascript", "application/javascript")


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/api/info", "/nothing"])
async def test_a_page_may_use_a_camera_only_if_the_engine_sees(start: Start, path: str) -> None:
    for sees, allowed in ((False, "camera=()"), (True, "camera=(self)")):
        async with start(ScriptedHost(sees=sees)) as server, server.client.get(server.address + path) as response:
            permissions = response.headers["Permissions-Policy"].split(", ")
        assert set(permissions) == {"microphone=(self)", allowed, "geolocation=()"}


async def test_the_page_learns_that_the_engine_sees_and_may_send_pictures(start: Start) -> None:
    async with start(ScriptedHost(sees=True)) as server, page(ToneMicrophone(), video=True) as browser:
        assert (await server.get("/api/info"))[1]["can_see"] is True
        _, begun = await server.post("/api/session", {})
        assert begun["can_see"] is True
        assert (await offered(server, browser, begun["token"]))[0] == 200
        await until(lambda: server.host.rooms[0].latest_frame() is not None, "a picture")


async def test_pictures_for_an_engine_that_does_not_see_are_refused(start: Start) -> None:
    async with start() as server, page(ToneMicrophone(), video=True) as browser:
        _, begun = await server.post("/api/session", {})
        assert begun["can_see"] is False
        status, answer = await offered(server, browser, begun["token"])
        assert (status, answer["error"]) == (400, "sdp")
        assert "video" in answer["message"]
        await server.post("/api/close", {"token": begun["token"]})
        await still_serves(server)


@pytest.mark.parametrize("path", ["/page/../server.py", "/page/%2e%2e/server.py", "/page//etc/passwd", "/nothing"])
async def test_nothing_else_is_served(start: Start, path: str) -> None:
    async with start() as server:
        host, port = server.address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 403"))


async def test_every_page_file_is_shipped_and_named_in_the_page(start: Start) -> None:
    async with start() as server, server.client.get(server.address) as response:
        html = await response.text()
    assert {"/page/style.css", "/page/app.js"} <= {part.split('"')[0] for part in html.split('="')}


async def test_a_port_in_use_names_the_setting(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} .*VENUS_ROOM__PORT"):
            async with _fixed(port):
                raise AssertionError("it must not get here")


def _fixed(port: int) -> Any:
    from realtime_venus.demo_room.conversations import Conversations
    from realtime_venus.demo_room.demo import transport
    from realtime_venus.demo_room.server import RoomServer, listening
    from realtime_venus.demo_room.tokens import Door

    settings = RoomSettings(port=port)
    host = ScriptedHost()
    server = RoomServer(settings, host, Conversations(host, transport(settings), 1), Door(None, lambda: 0.0))
    return listening(server.app(), settings, None)


async def test_stopping_ends_every_conversation_and_tells_the_pages(start: Start) -> None:
    async with page(ToneMicrophone()) as browser:
        async with start() as server:
            await offered(server, browser, await server.token())
            await server.token()
            assert len(server.conversations) == 2
        assert len(server.conversations) == 0
        await until(lambda: any(m == {"type": "closing", "reason": "shutdown"} for m in browser.messages), "farewell")


@pytest.mark.parametrize(
    ("host", "secure", "shown"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:5"),
        ("localhost", False, "http://localhost:5"),
        ("::1", False, "http://[::1]:5"),
        ("0.0.0.0", True, "https://localhost:5"),
        ("192.0.2.7", True, "https://192.0.2.7:5"),
    ],
)
def test_the_address_can_be_opened(host: str, secure: bool, shown: str) -> None:
    assert address(RoomSettings(host=host, key=SecretStr("open sesame")), 5, secure=secure) == shown


def test_errors_are_json_that_the_page_has_words_for() -> None:
    """Every code of the server is known to the page."""
    from realtime_venus.demo_room.server import PAGE

    words = (PAGE / "i18n.js").read_text(encoding="utf-8")
    for code in ("full", "loading", "engine_failed", "key", "tries", "connected", "codec", "sdp", "origin", "host"):
        assert words.count(f"error_{code}:") == 2, code
