from __future__ import annotations

import threading

import pytest
from realtime_venus.plugin.worker.slots import Refusal, Slots


def test_places_are_taken_until_there_are_none() -> None:
    slots = Slots(2)
    assert [slots.take("a"), slots.take("b"), slots.take("c")] == [None, None, Refusal.FULL]
    assert (slots.occupancy.in_use, slots.occupancy.free, slots.occupancy.load) == (2, 0, 1.0)
    slots.release("a")
    assert slots.occupancy.free == 1
    assert slots.take("c") is None


@pytest.mark.parametrize("count", [1, 2, 4, 64])
def test_while_there_is_a_place_the_load_is_one_that_servers_accept(count: int) -> None:
    slots = Slots(count)
    loads = [slots.occupancy.load]
    for number in range(count):
        slots.take(str(number))
        loads.append(slots.occupancy.load)
    assert loads == sorted(set(loads)), "who has more calls must report more"
    assert loads[0] == 0
    assert loads[-1] == 1
    assert all(load < 0.7 for load in loads[:-1])


def test_a_place_given_back_twice_is_one_place() -> None:
    slots = Slots(2)
    slots.take("a")
    slots.release("a")
    slots.release("a")
    assert slots.occupancy.free == 2


def test_a_job_asked_about_twice_has_one_place() -> None:
    slots = Slots(1)
    assert [slots.take("a"), slots.take("a"), slots.take("b")] == [None, None, Refusal.FULL]


def test_closed_slots_take_nobody_and_keep_who_is_there() -> None:
    slots = Slots(2)
    slots.take("a")
    slots.close()
    assert slots.take("b") is Refusal.DRAINING
    occupancy = slots.occupancy
    assert (occupancy.in_use, occupancy.free, occupancy.load) == (1, 0, 1.0)


def test_only_launched_jobs_that_run_no_longer_lose_their_place() -> None:
    slots = Slots(3)
    for job_id in ("runs", "died", "waits"):
        slots.take(job_id)
    slots.launched("runs")
    slots.launched("died")
    assert slots.reconcile({"runs"}) == ["died"]
    assert slots.occupancy.in_use == 2


def test_a_job_that_was_over_before_it_was_called_launched_has_no_place() -> None:
    slots = Slots(1)
    slots.take("quick")
    slots.release("quick")
    slots.launched("quick")
    assert slots.occupancy.free == 1


def test_the_last_place_goes_to_one_of_many_threads() -> None:
    slots = Slots(3)
    begin = threading.Barrier(8)
    got: list[Refusal | None] = []

    def ask(number: int) -> None:
        begin.wait(10)
        got.append(slots.take(f"job {number}"))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert got.count(None) == 3
    assert got.count(Refusal.FULL) == 5


def test_a_worker_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Slots(0)
