from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import FloatPcm, Frame, MediaUnit
from realtime_venus.plugin.rooms.base import AudioChunk
from realtime_venus.plugin.units import Aligned, Aligner, Chunker

SOURCE: FloatPcm = ((np.arange(16000 * 12) % 997 + 1) / 1000).astype(np.float32)


def chunk(position: int, length: int) -> AudioChunk:
    return AudioChunk(SOURCE[position : position + length], position, 0.0)


def feed(chunker: Chunker, aligner: Aligner, *spans: tuple[int, int]) -> None:
    for position, length in spans:
        aligned = aligner.add(chunk(position, length))
        if aligned is not None:
            chunker.add(aligned)


def take_all(chunker: Chunker) -> list[MediaUnit]:
    units: list[MediaUnit] = []
    while (unit := chunker.take()) is not None:
        units.append(unit)
    return units


def picture(captured_ms: float) -> Frame:
    return Frame(np.zeros((2, 2, 3), np.uint8), captured_ms)


@given(
    unit_ms=st.sampled_from([10, 100, 160, 1000]),
    lengths=st.lists(st.integers(min_value=1, max_value=3000), min_size=1, max_size=40),
)
def test_units_are_the_samples_that_came(unit_ms: int, lengths: list[int]) -> None:
    aligner, chunker = Aligner(), Chunker(unit_ms, fast=True)
    position = 0
    for length in lengths:
        feed(chunker, aligner, (position, length))
        position += length
    units = take_all(chunker)
    assert len(units) == position // (unit_ms * 16)
    assert [unit.index for unit in units] == list(range(len(units)))
    assert [unit.start_ms for unit in units] == [index * unit_ms for index in range(len(units))]
    assert all(unit.missing_ms == 0 and unit.audio.dtype == np.float32 for unit in units)
    if units:
        joined = np.concatenate([unit.audio for unit in units])
        assert np.array_equal(joined, SOURCE[: len(joined)])


@given(
    spans=st.lists(st.tuples(st.integers(0, 30000), st.integers(0, 4000)), min_size=1, max_size=25),
    unit_ms=st.sampled_from([20, 100]),
)
def test_gaps_repeats_and_overlaps_never_move_a_sample(spans: list[tuple[int, int]], unit_ms: int) -> None:
    aligner, chunker = Aligner(), Chunker(unit_ms, fast=True)
    known = np.zeros(40000, dtype=np.float32)
    reached = 0
    for position, length in spans:
        feed(chunker, aligner, (position, length))
        if position + length > reached and length:
            first = max(position, reached)
            known[first : position + length] = SOURCE[first : position + length]
            reached = position + length
    units = take_all(chunker)
    assert aligner.position == reached
    assert len(units) == reached // (unit_ms * 16)
    for unit in units:
        first = unit.start_ms * 16
        assert np.array_equal(unit.audio, known[first : first + unit_ms * 16])
        lost = int(np.count_nonzero(unit.audio == 0.0))
        assert unit.missing_ms == -(-lost // 16)


def test_a_gap_is_filled_with_zeros_and_counted() -> None:
    aligner, chunker = Aligner(), Chunker(100)
    feed(chunker, aligner, (0, 800), (1120, 2080))
    first, second = take_all(chunker)
    assert not first.audio[800:1120].any()
    assert np.array_equal(first.audio[1120:], SOURCE[1120:1600])
    assert (first.missing_ms, second.missing_ms) == (20, 0)
    assert aligner.lost_samples == 320


def test_what_comes_twice_or_too_late_is_counted_and_left_out() -> None:
    aligner = Aligner()
    assert aligner.add(chunk(0, 320)) is not None
    assert aligner.add(chunk(0, 320)) is None
    overlapping = aligner.add(chunk(160, 320))
    assert overlapping is not None
    assert (overlapping.position, len(overlapping.samples)) == (320, 160)
    assert aligner.repeated_samples == 480
    assert aligner.add(chunk(600, 0)) is None


def test_broken_samples_become_silence() -> None:
    aligner = Aligner()
    aligned = aligner.add(AudioChunk(np.array([np.nan, 0.5, np.inf], np.float32), 0, 0.0))
    assert aligned is not None
    assert aligned.samples.tolist() == [0.0, 0.5, 0.0]
    assert aligner.broken_samples == 2


def test_a_burst_at_the_start_is_accepted() -> None:
    aligner, chunker = Aligner(), Chunker(100)
    feed(chunker, aligner, (0, 16000 * 5))
    assert len(take_all(chunker)) == 50
    assert chunker.dropped_units == 0


def started(unit_ms: int) -> tuple[Aligner, Chunker]:
    aligner, chunker = Aligner(), Chunker(unit_ms)
    feed(chunker, aligner, (0, unit_ms * 16))
    take_all(chunker)
    chunker.caught_up()
    return aligner, chunker


@pytest.mark.parametrize(("unit_ms", "limit"), [(100, 20), (160, 12), (1000, 2), (1500, 2)])
def test_a_backlog_is_dropped_to_its_newest_unit(unit_ms: int, limit: int) -> None:
    aligner, chunker = started(unit_ms)
    one = unit_ms * 16
    for index in range(1, limit + 1):
        feed(chunker, aligner, (index * one, one))
    assert chunker.waiting == limit
    assert chunker.dropped_units == 0
    feed(chunker, aligner, ((limit + 1) * one, one))
    assert chunker.dropped_units == limit
    assert chunker.take_dropped_ms() == limit * unit_ms
    assert chunker.take_dropped_ms() == 0
    (unit,) = take_all(chunker)
    assert (unit.index, unit.start_ms, unit.missing_ms) == (1, (limit + 1) * unit_ms, limit * unit_ms)
    assert np.array_equal(unit.audio, SOURCE[(limit + 1) * one : (limit + 2) * one])


def test_a_long_break_is_skipped_and_counted_once() -> None:
    aligner, chunker = started(100)
    feed(chunker, aligner, (1600 * 60, 1600))
    units = take_all(chunker)
    assert sum(unit.missing_ms for unit in units) == 5900
    assert units[-1].start_ms == 6000
    assert chunker.take_dropped_ms() == 0  # nothing that had arrived was dropped
    assert [unit.index for unit in units] == list(range(1, 1 + len(units)))


def test_an_absurd_jump_costs_no_memory() -> None:
    chunker = started(100)[1]
    chunker.add(Aligned(2**50, SOURCE[:1600], 2**50 - 1600))
    units = take_all(chunker)
    assert len(units) <= 3
    assert sum(unit.missing_ms for unit in units) >= (2**50 - 1600) // 16 - 100


def test_fast_mode_never_drops() -> None:
    aligner, chunker = Aligner(), Chunker(100, fast=True)
    feed(chunker, aligner, (0, 1600))
    take_all(chunker)
    chunker.caught_up()
    feed(chunker, aligner, (1600, 16000 * 4))
    assert len(take_all(chunker)) == 40


def test_more_than_half_a_minute_is_too_much_even_at_the_start() -> None:
    chunker = Chunker(1000)
    for second in range(31):
        chunker.add(Aligned(second * 16000, np.ones(16000, np.float32)))
    assert chunker.dropped_units == 30
    assert chunker.waiting == 1


def test_restart_counts_from_zero_with_time_going_on() -> None:
    aligner, chunker = started(100)
    chunker.restart()
    feed(chunker, aligner, (1600, 1600))
    (unit,) = take_all(chunker)
    assert (unit.index, unit.start_ms) == (0, 100)


def test_the_newest_fresh_frame_rides_with_its_unit() -> None:
    aligner, chunker = Aligner(), Chunker(1000)
    chunker.offer_frame(picture(100.0))
    chunker.offer_frame(picture(900.0))
    chunker.offer_frame(picture(500.0))
    feed(chunker, aligner, (0, 16000))
    chunker.offer_frame(picture(900.0))  # the same one again
    feed(chunker, aligner, (16000, 16000))
    first, second = take_all(chunker)
    assert [frame.captured_ms for frame in first.frames] == [900.0]
    assert second.frames == ()


def test_a_stale_frame_is_dropped_and_counted() -> None:
    aligner, chunker = Aligner(), Chunker(1000)
    feed(chunker, aligner, (0, 32000))
    chunker.offer_frame(picture(1400.0))
    feed(chunker, aligner, (32000, 16000))
    assert [unit.frames for unit in take_all(chunker)] == [(), (), ()]
    assert chunker.stale_frames == 1


def test_a_unit_has_a_length() -> None:
    with pytest.raises(ValueError, match="1 ms"):
        Chunker(0)
