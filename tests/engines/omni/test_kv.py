from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni.kv import Full, KVCache
from realtime_venus.engines.omni.rotary import angles, rotate
from torch import Tensor

from tests.kit import golden

LAYERS, SLOTS, HEADS, CAPACITY, DIM, THETA = 2, 3, 2, 48, 8, 10_000.0
TOLERANCE = 2e-5
"""Of keys of size 1 at positions below 48: float32 angles differ by 48 / 2**24 radians, twice."""


def empty(dtype: torch.dtype = torch.float32, capacity: int = CAPACITY) -> KVCache:
    return KVCache(LAYERS, SLOTS, HEADS, capacity, DIM, dtype=dtype, device="cpu", rope_theta=THETA)


def raw(count: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Keys before rotation, and values: ``[layers, heads, count, dim]``."""
    keys, values = torch.as_tensor(golden.normal(seed, 2, LAYERS, HEADS, count, DIM))
    return keys, values


def turned(keys: Tensor, start: int = 0) -> Tensor:
    return rotate(keys, *angles(torch.arange(start, start + keys.shape[2]), DIM, THETA))


def fill(cache: KVCache, slot: int, keys: Tensor, values: Tensor) -> None:
    """Appends entries at the positions they get."""
    start = cache.length(slot)
    stop = start + keys.shape[2]
    cache.k[:, slot, :, start:stop] = turned(keys, start).to(cache.k.dtype)
    cache.v[:, slot, :, start:stop] = values.to(cache.v.dtype)
    cache.advance(keys.shape[2], slot)


def held(cache: KVCache, slot: int) -> tuple[Tensor, Tensor]:
    span = cache.copy_out(slot, 0, cache.length(slot))
    return span.k, span.v


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int, int]:
    """A length, and a span within it."""
    length = draw(st.integers(0, CAPACITY))
    start = draw(st.integers(0, length))
    return length, start, draw(st.integers(0, length - start))


@settings(deadline=None, max_examples=60)
@given(spans())
def test_eviction_equals_direct_rotation_at_the_new_positions(span: tuple[int, int, int]) -> None:
    length, start, count = span
    cache, (keys, values) = empty(), raw(length)
    fill(cache, 1, keys, values)
    cache.evict(1, start, count)
    kept = torch.tensor([*range(start), *range(start + count, length)], dtype=torch.int64)
    k, v = held(cache, 1)
    torch.testing.assert_close(k, turned(keys[:, :, kept]), atol=TOLERANCE, rtol=0)
    assert torch.equal(v, values[:, :, kept])


@settings(deadline=None, max_examples=60)
@given(spans(), st.integers(0, CAPACITY))
def test_a_span_comes_back_anywhere(span: tuple[int, int, int], at: int) -> None:
    length, start, count = span
    assume(at <= length - count)
    cache, (keys, values) = empty(), raw(length)
    fill(cache, 2, keys, values)
    taken = cache.copy_out(2, start, start + count)
    assert len(taken) == count
    cache.evict(2, start, count)
    cache.copy_in(2, at, taken)
    left = [*range(start), *range(start + count, length)]
    order = torch.tensor([*left[:at], *range(start, start + count), *left[at:]], dtype=torch.int64)
    k, v = held(cache, 2)
    torch.testing.assert_close(k, turned(keys[:, :, order]), atol=TOLERANCE, rtol=0)
    assert torch.equal(v, values[:, :, order])


def test_out_and_in_again_at_the_end_is_exact() -> None:
    cache, (keys, values) = empty(), raw(30)
    fill(cache, 0, keys, values)
    before = held(cache, 0)
    taken = cache.copy_out(0, 12, 30)
    cache.truncate(0, 12)
    cache.copy_in(0, 12, taken)
    assert all(torch.equal(one, other) for one, other in zip(before, held(cache, 0), strict=True))
    assert taken.bytes == 2 * LAYERS * HEADS * 18 * DIM * 4


def test_coarse_keys_are_rounded_once() -> None:
    cache, (keys, values) = empty(torch.bfloat16), raw(20)
    fill(cache, 0, keys, values)
    fine = empty()
    fine.k[:, 0, :, :20], fine.v[:, 0, :, :20] = cache.k[:, 0, :, :20].float(), cache.v[:, 0, :, :20].float()
    fine.advance(20)
    for each in (cache, fine):
        each.evict(0, 3, 9)
    assert torch.equal(held(cache, 0)[0], held(fine, 0)[0].to(torch.bfloat16))


@pytest.mark.parametrize(("moves", "least", "most"), [(120, 0.02, 0.2), (12, 0.0, 0.01)])
def test_coarse_keys_stay_in_place_when_they_move_seldom(moves: int, least: float, most: float) -> None:
    """Two minutes of pictures, forgotten second by second, turn keys by less than their precision."""
    gone, dim, theta = 79 * 120, 128, 1e6
    cache = KVCache(1, 1, 1, gone + 8, dim, dtype=torch.bfloat16, device="cpu", rope_theta=theta)
    cache.k[:, 0] = torch.as_tensor(golden.normal(1, 1, 1, gone + 8, dim)).to(torch.bfloat16)
    cache.advance(gone + 8)
    before = cache.k[0, 0, 0, gone:].float()
    for _ in range(moves):
        cache.evict(0, 0, gone // moves)
    cosines, sines = angles(torch.full((8,), gone, dtype=torch.float64), dim, theta)
    wanted = rotate(before, cosines, -sines)
    wrong = cache.k[0, 0, 0, :8].float() - wanted
    error = float(wrong.square().sum().sqrt() / wanted.square().sum().sqrt())
    assert least <= error <= most


def test_slots_do_not_touch_each_other() -> None:
    cache = empty()
    for slot in range(SLOTS):
        fill(cache, slot, *raw(10 + slot, seed=slot))
    others = [held(cache, slot) for slot in (0, 2)]
    cache.evict(1, 2, 5)
    cache.copy_in(1, 0, cache.copy_out(0, 1, 4))
    cache.truncate(1, 3)
    cache.reset(1)
    assert [cache.length(slot) for slot in range(SLOTS)] == [10, 0, 12]
    for slot, before in zip((0, 2), others, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(before, held(cache, slot), strict=True))


def test_reset_leaves_nothing_behind() -> None:
    """What masked rows still read must be finite, and no other session's."""
    cache = empty()
    fill(cache, 1, *(part * float("nan") for part in raw(9)))
    cache.truncate(1, 2)
    cache.reset(1)
    assert cache.length(1) == 0
    assert not cache.k.any()
    assert not cache.v.any()


def test_a_snapshot_is_a_copy_and_goes_into_any_slot() -> None:
    cache = empty()
    fill(cache, 0, *raw(17))
    before = held(cache, 0)
    snapshot = cache.snapshot(0)
    cache.evict(0, 0, 4)
    fill(cache, 0, *raw(20, seed=5))
    cache.restore(snapshot, 0)
    other = empty(capacity=20)
    other.restore(snapshot, 2)
    for copy in (held(cache, 0), held(other, 2)):
        assert all(torch.equal(one, both) for one, both in zip(before, copy, strict=True))
    with pytest.raises(Full, match="17 positions"):
        empty(capacity=16).restore(snapshot, 1)


def test_full_is_said_before_anything_is_written() -> None:
    cache = empty()
    fill(cache, 0, *raw(CAPACITY - 2))
    before = held(cache, 0)
    with pytest.raises(Full, match="46 of 48 are in use"):
        cache.place(3, None, [0], group=1)
    with pytest.raises(Full):
        cache.copy_in(0, 1, cache.copy_out(0, 0, 3))
    with pytest.raises(Full):
        cache.advance(3, 0)
    assert cache.room(0) == 2
    assert all(torch.equal(one, other) for one, other in zip(before, held(cache, 0), strict=True))
    cache.place(2, None, [0], group=1)


def test_spans_of_another_network_are_refused() -> None:
    cache, other = empty(), KVCache(LAYERS, 1, HEADS, 4, 2 * DIM, dtype=torch.float32, device="cpu", rope_theta=THETA)
    other.advance(2)
    with pytest.raises(EngineError, match="another network"):
        cache.copy_in(0, 0, other.copy_out(0, 0, 2))
    coarse = empty(torch.float16)
    coarse.advance(2)
    with pytest.raises(EngineError, match="float16"):
        cache.restore(coarse.snapshot())


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, 5), (5, 0), (2, -1)])
def test_positions_that_are_not_in_use_are_refused(start: int, count: int) -> None:
    cache = empty()
    fill(cache, 0, *raw(4))
    with pytest.raises(ValueError, match="positions"):
        cache.evict(0, start, count)
    with pytest.raises(ValueError, match="truncate"):
        cache.truncate(0, 5)


def test_rows_are_placed_once_each() -> None:
    cache = empty()
    with pytest.raises(ValueError, match="each slot once"):
        cache.place(1, None, [0, 0], group=1)
    with pytest.raises(ValueError, match="counts"):
        cache.place(1, [2, 1, 1], None, group=1)


def test_buffers_say_what_they_occupy() -> None:
    assert empty(torch.bfloat16).bytes == 2 * 2 * LAYERS * SLOTS * HEADS * CAPACITY * DIM
