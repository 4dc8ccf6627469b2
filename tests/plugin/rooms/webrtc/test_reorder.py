from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.plugin.rooms.webrtc.reorder import Reorder


def run(sequence: list[int], patience: int = 3) -> tuple[list[list[int]], Reorder[int]]:
    reorder: Reorder[int] = Reorder(patience)
    return [reorder.push(number % 65_536, number) for number in sequence], reorder


def test_what_is_in_order_passes_at_once() -> None:
    passed, reorder = run([7, 8, 9])
    assert passed == [[7], [8], [9]]
    assert reorder.counters.lost == 0


def test_a_swapped_pair_is_put_right_without_loss() -> None:
    passed, reorder = run([1, 3, 2, 4])
    assert passed == [[1], [], [2, 3], [4]]
    assert (reorder.counters.lost, reorder.counters.late) == (0, 0)


def test_a_missing_packet_is_given_up_after_the_patience_and_nothing_is_late_afterwards() -> None:
    passed, reorder = run([1, 3, 4, 5, 6, 7])
    assert passed == [[1], [], [], [3, 4, 5], [6], [7]]
    assert reorder.counters.lost == 1


def test_a_packet_that_comes_after_it_was_given_up_is_dropped() -> None:
    passed, reorder = run([1, 3, 4, 5, 2, 6])
    assert passed[4:] == [[], [6]]
    assert reorder.counters.late == 1


def test_duplicates_are_dropped() -> None:
    passed, reorder = run([1, 1, 3, 3, 2])
    assert passed == [[1], [], [], [], [2, 3]]
    assert reorder.counters.late == 2


def test_numbers_wrap() -> None:
    passed, reorder = run([65_534, 65_536, 65_535, 65_537])
    assert passed == [[65_534], [], [65_535, 65_536], [65_537]]
    assert reorder.counters.restarts == 0


def test_a_long_break_costs_only_what_was_lost() -> None:
    passed, reorder = run([1, 2, *range(250, 256)])
    assert [item for group in passed for item in group] == [1, 2, *range(250, 256)]
    assert reorder.counters.lost == 247


def test_a_sender_that_begins_anew_is_followed() -> None:
    passed, reorder = run([50_000, 50_002, 10, 11])
    assert passed == [[50_000], [], [50_002, 10], [11]]
    assert reorder.counters.restarts == 1


def test_patience_must_be_positive() -> None:
    with pytest.raises(ValueError, match="patience"):
        Reorder(0)


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(0, 40), st.integers(0, 65_535))
def test_order_holds_and_every_packet_has_one_fate(seed: int, patience: int, loss: int, start: int) -> None:
    chance = random.Random(seed)
    sent = [number for number in range(start, start + 400) if chance.random() * 100 >= loss]
    arrival = sorted(sent, key=lambda number: number + chance.uniform(0, 3))
    passed, reorder = run(arrival, patience)
    out = [item for group in passed for item in group]
    assert out == sorted(set(out))
    assert reorder.counters.passed == len(out)
    assert len(out) + reorder.counters.late <= len(arrival)
    assert len(arrival) - len(out) - reorder.counters.late < patience
