"""The table of units."""

from __future__ import annotations

from dataclasses import replace

import pytest
from realtime_venus.engines.omni.units import Unit, UnitKind, UnitTable


def _unit(number: int, length: int = 10, at_ms: int | None = None) -> Unit:
    start = number * 1000 if at_ms is None else at_ms
    return Unit(number, length, UnitKind.AUDIO, number % 2 == 0, f"t{number}", (number, 7), start)


def _table(*lengths: int) -> UnitTable:
    table = UnitTable()
    table.protected = 5
    for number, length in enumerate(lengths):
        table.append(_unit(number, length))
    return table


def test_places_follow_from_lengths() -> None:
    table = _table(13, 79, 2)
    assert [table.start(index) for index in range(4)] == [5, 18, 97, 99]
    assert table.end == 99


def test_dropping_moves_what_stays() -> None:
    table = _table(13, 79, 2)
    assert [unit.id for unit in table.drop([0, 1])] == [0, 1]
    assert ([unit.id for unit in table], table.start(0), table.end) == ([2], 5, 7)
    table = _table(1, 2, 4, 8)
    assert [unit.id for unit in table.drop([2, 0])] == [0, 2]
    assert ([unit.id for unit in table], table.start(1), table.end) == ([1, 3], 7, 15)


def test_positions_of_units_are_runs_without_a_gap() -> None:
    table = _table(1, 2, 4, 8, 16)
    assert table.runs([0, 1, 3]) == [(5, 3), (12, 8)]
    assert table.runs([]) == []


def test_what_was_put_back_counts_as_new() -> None:
    table = _table(1, 1, 1)
    table.insert(replace(_unit(9, at_ms=500), copied_at_ms=2000))
    assert [unit.id for unit in table] == [0, 9, 1, 2]
    assert table.longest_here() == [0, 2, 1], "all but the newest"


def test_units_by_time() -> None:
    table = _table(1, 1, 1, 1)
    assert list(table.between(1000, 3000)) == [1, 2]
    assert list(table.between(1001, 3001)) == [2, 3]
    assert list(table.between(9000, 9999)) == []


def test_insertion_keeps_the_order_of_time() -> None:
    table = _table(10, 10)
    assert table.insert(_unit(9, 3, at_ms=500)) == 1
    assert [unit.id for unit in table] == [0, 9, 1]
    assert table.start(2) == 5 + 13
    table.insert(_unit(4, at_ms=1000))
    assert [unit.id for unit in table] == [0, 9, 1, 4], "of one time: as they were made"


@pytest.mark.parametrize(("audio", "video"), [(True, True), (True, False), (False, True), (False, False)])
def test_kind_says_what_was_fed(audio: bool, video: bool) -> None:
    kind = UnitKind.of(audio=audio, video=video)
    assert kind.value == {(1, 1): "omni", (1, 0): "audio", (0, 1): "video", (0, 0): "text"}[audio, video]


def test_snapshot_is_plain_and_complete() -> None:
    table, other = _table(13, 79), UnitTable()
    table.insert(replace(_unit(9, at_ms=500), copied_at_ms=1000))
    snapshot = table.snapshot()
    assert isinstance(snapshot["units"][0]["kind"], str)
    other.restore(snapshot)
    assert (list(other), other.protected) == (list(table), 5)
    table.reset()
    assert (len(table), table.end, len(other)) == (0, 0, 3)
