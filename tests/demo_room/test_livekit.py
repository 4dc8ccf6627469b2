"""The server side of conversations in LiveKit rooms, against a real LiveKit server."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
from typing import Any

import pytest
from livekit import api, rtc
from realtime_venus.demo_room.demo import transport
from realtime_venus.demo_room.livekit import LiveKitTransport
from realtime_venus.demo_room.settings import LiveKitAccess, RoomSettings
from realtime_venus.demo_room.transport import NoConnection
from realtime_venus.engines.base import Language, SessionOptions
from realtime_venus.plugin.rooms.livekit import LiveKitRoom, sdk

from ..kit.livekit_server import KEY, SECRET, LiveKitServer
from ..plugin.rooms.webrtc.page import until
from .conftest import Running, Start
from .scripted import ScriptedHost

pytestmark = pytest.mark.usefixtures("native_sockets_closed")


def access(server: LiveKitServer, **more: Any) -> dict[str, Any]:
    return {"url": server.url, "key": KEY, "secret": SECRET, **more}


def claims(token: str) -> dict[str, Any]:
    """What a token says, its signature checked first."""
    api.TokenVerifier(KEY, SECRET).verify(token)
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


async def begun(server: Running, **body: str) -> dict[str, Any]:
    status, answer = await server.post("/api/session", body)
    assert status == 201, answer
    return answer


async def rooms(livekit_server: LiveKitServer) -> list[str]:
    async with livekit_server.api() as client:
        return [room.name for room in (await client.room.list_rooms(api.ListRoomsRequest())).rooms]


async def test_a_page_gets_what_it_needs_and_talks_to_her(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server)) as server:
        answer = await begun(server, language="zh", voice="zf_001")
        assert set(answer) == {"token", "grace_s", "can_see", "livekit"}
        assert set(answer["livekit"]) == {"url", "token", "agent"}
        assert answer["livekit"]["url"] == livekit_server.url
        assert server.host.options == [], "nobody is there yet to talk to"
        visitor, told = rtc.Room(), list[dict[str, Any]]()

        def keep(packet: rtc.DataPacket) -> None:
            told.append(json.loads(packet.data))

        sdk.on(visitor, "data_received", keep)
        await visitor.connect(livekit_server.url, answer["livekit"]["token"])
        try:
            agent = answer["livekit"]["agent"]
            await until(lambda: agent in visitor.remote_participants, "Venus in the room")
            await until(lambda: any(event["type"] == "session.started" for event in told), "the first event")
            assert server.host.options == [SessionOptions(language=Language.ZH, voice="zf_001")]
            assert isinstance(server.host.rooms[0], LiveKitRoom)
            assert visitor.remote_participants[agent].kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
            assert (await server.get("/api/info"))[1]["sessions"] == {"open": 1, "limit": 2}
            assert (await server.post("/api/close", {"token": answer["token"]}))[0] == 204
            await until(lambda: not visitor.isconnected(), "the end for the visitor")
            assert {"type": "closing", "reason": "left"} in told
        finally:
            await visitor.disconnect()
        assert len(server.conversations) == 0
        assert await rooms(livekit_server) == []


async def test_a_token_opens_one_room_for_a_short_time_and_no_more(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server, token_ttl_s=45)) as server:
        answer = await begun(server)
        said = claims(answer["livekit"]["token"])
        (room,) = await rooms(livekit_server)
    assert said.pop("video") == {
        "roomJoin": True,
        "room": room,
        "canPublish": True,
        "canPublishSources": ["microphone"],
        "canSubscribe": True,
        "canPublishData": True,
        "canUpdateOwnMetadata": False,
    }
    assert said.pop("exp") - said.pop("nbf") == 45
    assert said.pop("iss") == KEY
    assert said.pop("sub") not in ("", answer["livekit"]["agent"])
    assert not any(said.values()), "it grants nothing else"


async def test_a_token_lets_a_camera_in_only_if_the_engine_sees(start: Start, livekit_server: LiveKitServer) -> None:
    for sees, sources in ((False, ["microphone"]), (True, ["microphone", "camera"])):
        async with start(ScriptedHost(sees=sees), livekit=access(livekit_server)) as server:
            answer = await begun(server)
            status, again = await server.post("/api/entrance", {"token": answer["token"]})
            assert status == 200
        assert answer["can_see"] is sees
        for ticket in (answer, again):
            assert claims(ticket["livekit"]["token"])["video"]["canPublishSources"] == sources


async def test_rooms_and_visitors_cannot_be_guessed(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server)) as server:
        answers = [await begun(server) for _ in range(2)]
    said = [claims(answer["livekit"]["token"]) for answer in answers]
    names = [one["video"]["room"] for one in said] + [one["sub"] for one in said]
    names += [answer[key] for answer in answers for key in ("token",)] + [one["livekit"]["agent"] for one in answers]
    assert len(set(names)) == len(names)
    assert all(len(one["video"]["room"].removeprefix("venus-")) >= 32 for one in said)
    assert all(len(one["sub"].removeprefix("visitor-")) >= 16 for one in said)


async def test_a_second_person_finds_the_room_full(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server)) as server:
        answer = await begun(server)
        visitor, stranger = rtc.Room(), rtc.Room()
        await visitor.connect(livekit_server.url, answer["livekit"]["token"])
        try:
            (room,) = await rooms(livekit_server)
            with pytest.raises(rtc.ConnectError):
                await stranger.connect(livekit_server.url, livekit_server.token("stranger", room))
        finally:
            await stranger.disconnect()
            await visitor.disconnect()


async def test_a_room_that_could_not_be_joined_is_not_left_behind(livekit_server: LiveKitServer) -> None:
    access_ = LiveKitAccess.model_validate(access(livekit_server))

    class Unjoinable(LiveKitTransport):
        async def _join(self, name: str, agent: str, visitor: str, *, sees: bool) -> Any:
            assert await rooms(livekit_server) == [name]
            raise sdk.JoinRefused("unreachable", "nobody is there")

    with pytest.raises(NoConnection):
        await Unjoinable(access_, 1.0).open(sees=False)
    (deleting,) = (task for task in asyncio.all_tasks() if task.get_name() == "livekit-delete")
    await deleting
    assert await rooms(livekit_server) == []


async def test_a_lost_page_gets_a_new_token_for_its_old_place(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server)) as server:
        answer = await begun(server)
        status, again = await server.post("/api/entrance", {"token": answer["token"]})
        assert status == 200
        first, second = claims(answer["livekit"]["token"]), claims(again["livekit"]["token"])
        assert (first["sub"], first["video"]) == (second["sub"], second["video"])
        assert again["livekit"]["agent"] == answer["livekit"]["agent"]
        await server.post("/api/close", {"token": answer["token"]})
        status, gone = await server.post("/api/entrance", {"token": answer["token"]})
        assert (status, gone["error"]) == (404, "gone")
        assert (await server.post("/api/entrance", {"token": "guess"}))[0] == 404


async def test_the_secret_stays_here(
    start: Start, livekit_server: LiveKitServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers: list[str] = []
    async with start(livekit=access(livekit_server)) as server:

        async def keep(method: str, path: str, **more: Any) -> None:
            async with server.client.request(method, server.address + path, **more) as response:
                answers.append(f"{response.status} {dict(response.headers)} {await response.text()}")

        await keep("GET", "/")
        await keep("GET", "/api/info")
        answer = await begun(server)
        answers.append(json.dumps(answer))
        await keep("POST", "/api/entrance", json={"token": answer["token"]})
        await keep("POST", "/api/entrance", json={"token": SECRET[:4]})
        await keep("POST", "/api/session", json={"surprise": 1})
        await keep("POST", "/api/session", json={}, headers={"Origin": "https://evil.example"})
        livekit_server.stop()
        await keep("POST", "/api/session", json={})
    wrong = "another-secret-of-tests-that-is-32-letters-long"
    await livekit_server.start()
    async with (
        start(livekit={**access(livekit_server), "secret": wrong}) as server,
        server.client.post(server.address + "/api/session", json={}) as response,
    ):
        answers.append(await response.text())
    records = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records if record.name != "asyncio"]
    assert not [text for text in (*answers, *records) if SECRET in text or wrong in text]


@pytest.mark.parametrize("path", ["/api/session", "/api/entrance"])
async def test_pages_of_other_sites_are_refused(start: Start, livekit_server: LiveKitServer, path: str) -> None:
    async with start(livekit=access(livekit_server)) as server:
        status, body = await server.post(path, {}, Origin="https://evil.example")
        assert (status, body["error"]) == (403, "origin")
        assert await rooms(livekit_server) == []


async def test_the_key_is_asked_for(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server), key="open sesame") as server:
        status, body = await server.post("/api/session", {})
        assert (status, body["error"]) == (401, "key")
        assert await rooms(livekit_server) == []
        await server.token(Authorization="Bearer open sesame")


async def test_who_is_just_coming_in_takes_a_place_too(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server), max_sessions=1) as server:
        both = await asyncio.gather(*(server.post("/api/session", {}) for _ in range(2)))
        assert sorted(status for status, _ in both) == [201, 429]
        (refused,) = [body for status, body in both if status == 429]
        assert (refused["error"], bool(refused["message"])) == ("full", True)
        (let_in,) = [body for status, body in both if status == 201]
        await server.post("/api/close", {"token": let_in["token"]})
        await server.token()


async def test_a_server_that_is_down_is_said_and_takes_no_place(start: Start, livekit_server: LiveKitServer) -> None:
    livekit_server.stop()
    async with start(livekit=access(livekit_server), max_sessions=1) as server:
        status, body = await server.post("/api/session", {})
        assert (status, body["error"]) == (503, "livekit_down")
        assert len(server.conversations) == 0
        await livekit_server.start()
        await server.token()


async def test_a_server_that_never_answers_is_given_up(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        given = {"url": f"ws://127.0.0.1:{port}", "key": KEY, "secret": SECRET, "join_deadline_s": 0.3}
        async with start(livekit=given) as server:
            status, body = await server.post("/api/session", {})
            assert (status, body["error"]) == (503, "livekit_down")


async def test_a_wrong_secret_is_said_in_its_own_words(start: Start, livekit_server: LiveKitServer) -> None:
    given = {**access(livekit_server), "secret": "another-secret-of-tests-that-is-32-letters-long"}
    async with start(livekit=given) as server:
        status, body = await server.post("/api/session", {})
        assert (status, body["error"]) == (503, "livekit_refused")
        assert len(server.conversations) == 0


async def test_an_offer_has_no_place_here(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server)) as server:
        offer = {"token": await server.token(), "type": "offer", "sdp": "v=0"}
        status, body = await server.post("/api/offer", offer)
        assert (status, body["error"]) == (409, "transport")
        assert len(server.conversations) == 1


async def test_the_page_may_connect_to_the_livekit_server_and_nowhere_else(
    start: Start, livekit_server: LiveKitServer
) -> None:
    async with start(livekit=access(livekit_server)) as server, server.client.get(server.address) as response:
        policy = response.headers["Content-Security-Policy"]
    assert f"connect-src 'self' {livekit_server.url} {livekit_server.http};" in policy
    async with start() as server:
        async with server.client.get(server.address) as response:
            assert "connect-src 'self';" in response.headers["Content-Security-Policy"]
        assert (await server.get("/api/info"))[1]["transport"] == "webrtc"


async def test_stopping_ends_every_conversation_and_leaves_no_room(start: Start, livekit_server: LiveKitServer) -> None:
    async with start(livekit=access(livekit_server)) as server:
        assert (await server.get("/api/info"))[1]["transport"] == "livekit"
        await server.token()
        await server.token()
        assert len(await rooms(livekit_server)) == 2
    assert len(server.conversations) == 0
    assert await rooms(livekit_server) == []


async def test_who_comes_in_while_it_stops_is_put_out_again(livekit_server: LiveKitServer) -> None:
    from realtime_venus.demo_room.conversations import Conversations

    settings = RoomSettings.model_validate({"livekit": access(livekit_server)})
    conversations = Conversations(ScriptedHost(), transport(settings), 1)
    coming = asyncio.create_task(conversations.begin(SessionOptions()))
    await asyncio.sleep(0)
    await conversations.close("shutdown")
    with pytest.raises(NoConnection):
        await coming
    assert len(conversations) == 0
    assert await rooms(livekit_server) == []
