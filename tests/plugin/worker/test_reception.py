from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from livekit import api
from livekit.api.access_token import Claims
from realtime_venus.plugin.worker.endpoint import Condition, Endpoint
from realtime_venus.plugin.worker.metrics import CONTENT_TYPE, WorkerMetrics
from realtime_venus.plugin.worker.reception import Reception
from realtime_venus.plugin.worker.settings import WorkerSettings
from realtime_venus.plugin.worker.slots import Slots

from ...kit.livekit_server import KEY, SECRET

NOBODY = "ws://127.0.0.1:1"
"""Where no LiveKit server is."""
BEARER = "a-secret-of-16-letters-or-more"

Json = dict[str, Any]


class House:
    """A worker's endpoint with a reception."""

    def __init__(self, slots: int = 1, **settings: object) -> None:
        given = {"url": NOBODY, "api_key": KEY, "api_secret": SECRET, "agent_name": "", **settings}
        self.settings = WorkerSettings.model_validate(given)
        self.slots = Slots(slots)
        self.trouble = ""
        self.sees = False
        self.metrics = WorkerMetrics()

    def condition(self) -> Condition:
        return Condition(self.trouble, self.slots.occupancy)

    def page(self) -> bytes:
        return self.metrics.page(self.slots.occupancy, ready=True)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[str]:
        reception = Reception(self.settings, self.condition, lambda: self.sees, self.metrics)
        routes = [web.post("/token", reception.answer)]
        endpoint = Endpoint("127.0.0.1", 0, self.condition, self.page, CONTENT_TYPE, routes)
        await endpoint.start()
        try:
            yield f"http://127.0.0.1:{endpoint.port}"
        finally:
            await endpoint.close()


async def asked(house: House, body: object = None, **headers: str) -> tuple[int, Json, str]:
    """Status, body and ``Retry-After`` of the answer to a request."""
    async with house.served() as at:
        return await asked_at(at, body, **headers)


async def asked_at(at: str, body: object = None, **headers: str) -> tuple[int, Json, str]:
    raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    sent = {"Content-Type": "application/json", **headers}
    async with aiohttp.ClientSession() as client, client.post(f"{at}/token", data=raw, headers=sent) as answer:
        return answer.status, await answer.json(), answer.headers.get("Retry-After", "")


def claims(answer: Json) -> Claims:
    return api.TokenVerifier(KEY, SECRET).verify(answer["participant_token"])


# -- while there is a place -----------------------------------------------------------------------------------------


async def test_a_token_opens_one_room_for_speaking_listening_and_messages_and_nothing_else() -> None:
    wanted = {"room_name": "lobby", "participant_identity": "alice", "participant_name": "Alice"}
    status, answer, _ = await asked(House(token_url="wss://livekit.example.org"), wanted)
    assert (status, answer["server_url"]) == (201, "wss://livekit.example.org")
    said = claims(answer)
    assert (said.identity, said.name, said.kind) == ("alice", "Alice", "")
    assert said.video is not None
    given = {name: value for name, value in dataclasses.asdict(said.video).items() if value}
    assert given == {
        "room_join": True,
        "room": "lobby",
        "can_publish": True,
        "can_publish_sources": ["microphone"],
        "can_subscribe": True,
        "can_publish_data": True,
    }


async def test_names_that_are_left_out_cannot_be_guessed() -> None:
    house = House(slots=2)
    answers = [claims((await asked(house))[1]) for _ in range(2)]
    names = [one.identity for one in answers] + [one.video.room for one in answers if one.video is not None]
    assert len(set(names)) == 4
    assert all(len(name) > 20 for name in names)


async def test_an_engine_that_sees_may_be_shown_something() -> None:
    house = House()
    house.sees = True
    video = claims((await asked(house))[1]).video
    assert video is not None
    assert video.can_publish_sources == ["microphone", "camera", "screen_share"]


async def test_a_named_agent_is_asked_for_by_the_token() -> None:
    said = claims((await asked(House(agent_name="clerk")))[1])
    assert said.room_config is not None
    assert [agent.agent_name for agent in said.room_config.agents] == ["clerk"]


# -- when there is none ---------------------------------------------------------------------------------------------


async def test_a_full_house_is_said_with_when_to_ask_again() -> None:
    house = House()
    house.slots.take("a call")
    status, answer, retry = await asked(house)
    assert (status, answer["error"], retry) == (503, "full", "10")
    assert "all 1 places are taken" in answer["message"]
    assert b'venus_tokens_total{outcome="full"} 1.0' in house.page()
    house.slots.release("a call")
    assert (await asked(house))[0] == 201


async def test_a_worker_that_takes_no_call_says_why() -> None:
    house = House()
    house.trouble = "the models are being loaded"
    status, answer, retry = await asked(house)
    assert (status, answer["error"], retry) == (503, "not_ready", "10")
    assert house.trouble in answer["message"]


async def test_a_place_at_another_worker_is_one() -> None:
    other = House()
    async with other.served() as at:
        house = House(token_workers=("http://127.0.0.1:1", f"{at}/"))
        house.slots.take("a call")
        assert (await asked(house))[0] == 201
        other.slots.take("another")
        status, answer, _ = await asked(house)
        assert (status, answer["error"]) == (503, "full")
        assert "all 2 places" in answer["message"]
        house.trouble = "no connection"
        assert "all 1 places" in (await asked(house))[1]["message"]


async def test_a_worker_that_answers_nonsense_has_no_place() -> None:
    async def nonsense(_: web.Request) -> web.Response:
        return web.Response(text='{"slots": "many"}')

    app = web.Application()
    app.add_routes([web.get("/slots", nonsense)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        house = House(token_workers=(f"http://127.0.0.1:{runner.addresses[0][1]}",))
        house.slots.take("a call")
        assert (await asked(house))[1]["error"] == "full"
    finally:
        await runner.cleanup()


# -- who may ask, and for what --------------------------------------------------------------------------------------


async def test_with_a_secret_it_is_asked_for() -> None:
    house = House(token_secret=BEARER)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {BEARER}"}):
        status, answer, _ = await asked(house, **headers)
        assert (status, answer["error"]) == (401, "secret")
    assert (await asked(house, Authorization=f"Bearer {BEARER}", Origin="https://example.org"))[0] == 201


async def test_without_one_no_page_gets_a_token() -> None:
    status, answer, _ = await asked(House(), Origin="http://127.0.0.1:8081")
    assert (status, answer["error"]) == (403, "origin")


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"no json", 400, "body"),
        (b"[]", 400, "body"),
        ({"room_name": ""}, 400, "room_name"),
        ({"room_name": "a" * 129}, 400, "room_name"),
        ({"room_name": "../admin"}, 400, "room_name"),
        ({"participant_identity": "a\nb"}, 400, "participant_identity"),
        ({"participant_identity": "venus-AJ_1"}, 400, "participant_identity"),
        ({"participant_name": "a\tb"}, 400, "participant_name"),
        ({"room_config": {}}, 400, "room_config"),
        ({"participant_name": "a" * 20_000}, 413, "too long"),
    ],
)
async def test_names_are_checked(body: object, code: int, said: str) -> None:
    status, answer, _ = await asked(House(), body)
    assert status == code
    assert said in answer["message"]
    assert "participant_token" not in answer


async def test_only_json_is_read() -> None:
    house = House()
    async with (
        house.served() as at,
        aiohttp.ClientSession() as client,
        client.post(f"{at}/token", data={"room_name": "lobby"}) as answer,
    ):
        assert answer.status == 415
