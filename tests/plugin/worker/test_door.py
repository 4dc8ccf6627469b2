from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from livekit.agents import JobRequest
from livekit.agents.job import JobAcceptArguments
from livekit.protocol import agent, models
from realtime_venus.plugin.worker.door import REFUSED, Door
from realtime_venus.plugin.worker.metrics import WorkerMetrics
from realtime_venus.plugin.worker.slots import Slots

from ...kit.fake_engine import FakeEngine


class NotAssigned(Exception):
    """What the library raises when the server gave the job to somebody else."""


@dataclass
class House:
    """A door with one place, and what the server would be told."""

    slots: Slots = field(default_factory=lambda: Slots(1))
    visits: Slots = field(default_factory=lambda: Slots(1))
    metrics: WorkerMetrics = field(default_factory=WorkerMetrics)
    accepted: list[JobAcceptArguments] = field(default_factory=list[JobAcceptArguments])
    rejected: list[bool] = field(default_factory=list[bool])
    changes: int = 0
    assigned: bool = True

    async def ask(self, job_id: str, metadata: str = "") -> None:
        door = Door(FakeEngine(), self.slots, self.visits, self.metrics, "Clerk", self._changed)
        job = agent.Job(id=job_id, metadata=metadata, room=models.Room(name="lobby"))
        await door.answer(JobRequest(job=job, on_reject=self._reject, on_accept=self._accept))

    def count(self, name: str) -> float:
        lines = self.metrics.page(self.slots.occupancy, ready=True).decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def refused(self, reason: str) -> float:
        return self.count(f'venus_jobs_refused_total{{reason="{reason}"}}')

    def _changed(self) -> None:
        self.changes += 1

    async def _reject(self, terminate: bool) -> None:
        self.rejected.append(terminate)

    async def _accept(self, arguments: JobAcceptArguments) -> None:
        if not self.assigned:
            raise NotAssigned
        self.accepted.append(arguments)


async def test_a_job_is_taken_under_the_name_that_was_set() -> None:
    house = House()
    await house.ask("a")
    (taken,) = house.accepted
    assert (taken.name, taken.attributes) == ("Clerk", None)
    assert house.slots.occupancy.in_use == 1
    assert house.count("venus_jobs_accepted_total") == 1
    assert house.changes == 1, "the server is to hear of it at once"


async def test_a_full_worker_lets_the_server_ask_another_one() -> None:
    house = House()
    await house.ask("a")
    await house.ask("b")
    assert house.rejected == [False]
    assert len(house.accepted) == 1
    assert house.refused("full") == 1


async def test_an_ending_worker_lets_the_server_ask_another_one() -> None:
    house = House()
    house.slots.close()
    await house.ask("a")
    assert (house.rejected, house.refused("draining")) == ([False], 1)


async def test_bad_metadata_is_told_by_an_agent_that_takes_no_place() -> None:
    house = House()
    await house.ask("a", '{"voice": "nobody"}')
    (taken,) = house.accepted
    assert taken.attributes is not None
    assert "no voice" in taken.attributes[REFUSED]
    assert house.slots.occupancy.in_use == 0
    assert (house.refused("bad_metadata"), house.count("venus_jobs_accepted_total")) == (1, 0)


async def test_more_bad_metadata_than_can_be_told_is_refused_for_good() -> None:
    house = House()
    for job_id in ("a", "b", "c"):
        await house.ask(job_id, "hello")
    assert len(house.accepted) == 1
    assert house.rejected == [True, True]
    assert house.refused("bad_metadata") == 3


@pytest.mark.parametrize("metadata", ["", "hello"])
async def test_a_job_that_went_elsewhere_after_all_gives_its_place_back(metadata: str) -> None:
    house = House(assigned=False)
    with pytest.raises(NotAssigned):
        await house.ask("a", metadata)
    assert (house.slots.occupancy.in_use, house.visits.occupancy.in_use) == (0, 0)
    assert house.refused("not_assigned") == 1
    assert house.count("venus_jobs_accepted_total") == 0
