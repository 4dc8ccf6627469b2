from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from realtime_venus.plugin.worker.endpoint import Condition, Endpoint, EndpointTaken
from realtime_venus.plugin.worker.metrics import CONTENT_TYPE, WorkerMetrics
from realtime_venus.plugin.worker.slots import Refusal, Slots


class House:
    """What the endpoint tells of."""

    def __init__(self) -> None:
        self.slots = Slots(2)
        self.trouble = ""
        self.metrics = WorkerMetrics()

    def condition(self) -> Condition:
        return Condition(self.trouble, self.slots.occupancy)

    def page(self) -> bytes:
        return self.metrics.page(self.slots.occupancy, ready=not self.trouble)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[aiohttp.ClientSession]:
        endpoint = Endpoint("127.0.0.1", 0, self.condition, self.page, CONTENT_TYPE)
        await endpoint.start()
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoint.port}") as client:
                yield client
        finally:
            await endpoint.close()
            await endpoint.close()


async def test_a_worker_in_trouble_is_alive_but_not_ready_and_says_why() -> None:
    house = House()
    async with house.served() as client:
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.json()) == (200, {"ready": True, "trouble": ""})
        house.trouble = "the models are being loaded"
        async with client.get("/readyz") as answer:
            assert (answer.status, await answer.json()) == (503, {"ready": False, "trouble": house.trouble})
        async with client.get("/healthz") as answer:
            assert answer.status == 200


async def test_a_full_worker_is_ready_and_says_that_it_is_full() -> None:
    house = House()
    house.slots.take("a")
    async with house.served() as client:
        async with client.get("/slots") as answer:
            assert await answer.json() == {"slots": 2, "in_use": 1, "free": 1, "trouble": ""}
        house.slots.take("b")
        async with client.get("/readyz") as answer:
            assert answer.status == 200
        async with client.get("/slots") as answer:
            assert (await answer.json())["free"] == 0
        house.slots.release("a")
        house.trouble = "no connection"
        async with client.get("/slots") as answer:
            assert (await answer.json())["free"] == 0


async def test_metrics_are_in_the_format_they_are_announced_in() -> None:
    house = House()
    house.slots.take("a")
    house.metrics.accepted()
    house.metrics.refused(Refusal.FULL)
    house.metrics.began()
    house.metrics.began()
    house.metrics.ended("left")
    house.metrics.answered(250)
    async with house.served() as client, client.get("/metrics") as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        lines = (await answer.text()).splitlines()
    expected = (
        "venus_slots 2.0",
        "venus_slots_in_use 1.0",
        "venus_ready 1.0",
        "venus_active_jobs 1.0",
        "venus_jobs_accepted_total 1.0",
        'venus_jobs_refused_total{reason="full"} 1.0',
        'venus_jobs_refused_total{reason="bad_metadata"} 0.0',
        'venus_sessions_ended_total{reason="left"} 1.0',
        'venus_response_latency_seconds_bucket{le="0.2"} 0.0',
        'venus_response_latency_seconds_bucket{le="0.3"} 1.0',
        "venus_response_latency_seconds_sum 0.25",
    )
    assert [line for line in expected if line not in lines] == []
    names = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(names) == len(set(names)), "a name that comes twice makes the whole page unreadable"


async def test_a_port_that_is_taken_is_said_with_what_to_do() -> None:
    house = House()
    first = Endpoint("127.0.0.1", 0, house.condition, house.page, CONTENT_TYPE)
    await first.start()
    try:
        second = Endpoint("127.0.0.1", first.port, house.condition, house.page, CONTENT_TYPE)
        with pytest.raises(EndpointTaken, match=rf"127\.0\.0\.1:{first.port}.*VENUS_WORKER__PORT"):
            await second.start()
        await second.close()
    finally:
        await first.close()
