"""State of a session: apart from every other, saved and taken up again, as new after a reset, moved about by time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni import parcel
from realtime_venus.engines.omni.context import Basic, Off, Policy, Previous, Recent
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.kv import Full
from realtime_venus.engines.omni.pieces import PrivatePiece
from realtime_venus.engines.omni.rotary import angles, rotate
from realtime_venus.engines.omni.units import UnitKind

from tests.kit import golden
from tests.kit.omni_script import (
    HUB,
    Unit,
    close,
    generate,
    listening,
    named,
    prepare,
    second,
    session,
    speaking,
    told,
    unit,
)


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def _plan(seed: int) -> list[dict[str, Any]]:
    """Units of every kind, the same for the same seed; the model says what it wants in most of them."""
    frames = [golden.image(golden.pictures()[seed % 2])] if golden.sees() else []
    return [
        {"audio": second(seed)},
        {"audio": second(seed + 1), "frames": frames, "said": speaking("well then")},
        {"text": "typed"},
        {"audio": second(seed + 2)},
        {"audio": second(seed + 3), "text": "beside", "said": speaking("and so", "turn_eos")},
        {"audio": second(seed + 4)},
    ]


def _do(made: Duplex, planned: dict[str, Any]) -> Unit:
    given = dict(planned)
    said = given.pop("said", None)
    made.prefill(**given)
    done = generate(made, said)
    made.finalise()
    return done


def _same(ours: Unit, other: Unit) -> bool:
    told = (ours.end.ids, ours.text, ours.end.is_listen, ours.end.codes, ours.of(PrivatePiece))
    return told == (
        other.end.ids,
        other.text,
        other.end.is_listen,
        other.end.codes,
        other.of(PrivatePiece),
    ) and np.array_equal(ours.pcm, other.pcm)


def test_two_sessions_in_turns_equal_two_alone() -> None:
    alone: list[list[Unit]] = []
    for seed in (0, 1):
        made = session(speaks=True, seed=seed)
        alone.append([_do(made, planned) for planned in _plan(seed)])
    both = [session(speaks=True, seed=seed) for seed in (0, 1)]
    for step in range(len(alone[0])):
        for seed, made in enumerate(both):
            assert _same(_do(made, _plan(seed)[step]), alone[seed][step])
    assert not _same(alone[0][1], alone[1][1])


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_snapshot_goes_on_as_the_session_would_have(cut: int) -> None:
    """Taken in the middle of a turn, through bytes, into a session that has done something else meanwhile."""
    plan = _plan(3)
    made = session(speaks=True, seed=7, context=Previous(units=3, tokens=20))
    for planned in plan[:cut]:
        _do(made, planned)
    packed = parcel.pack(made.snapshot(), "test")
    other = session(speaks=True, seed=8, context=Previous(units=3, tokens=20))
    _do(other, plan[0])
    other.restore(parcel.unpack(packed, "test"))
    for planned in plan[cut:]:
        assert _same(_do(made, planned), _do(other, planned))
    assert made.units.snapshot() == other.units.snapshot()
    assert made.memory.previous == other.memory.previous


def test_reset_equals_new() -> None:
    new, used = session(speaks=True, seed=4), session(speaks=True, seed=4)
    for planned in _plan(5):
        _do(used, planned)
    used.break_off()
    used.reset()
    assert (used.length, len(used.units), used.text.turn_open) == (0, 0, False)
    prepare(used)
    assert all(_same(_do(used, planned), _do(new, planned)) for planned in _plan(6))


def test_preparing_again_begins_a_new_session() -> None:
    new, used = session(speaks=True, seed=4), session(speaks=True, seed=4)
    for planned in _plan(5)[:2]:
        _do(used, planned)
    prepare(used)
    assert all(_same(_do(used, planned), _do(new, planned)) for planned in _plan(6)[:2])


def test_units_are_copied_out_by_time_and_in_again() -> None:
    made = session()
    for number in range(4):
        unit(made, number, speaking("one two") if number == 2 else listening())
    kept = made.copy_out(1000, 3000)
    assert [each.at_ms for each, _ in kept] == [1000, 2000]
    assert [len(span) for _, span in kept] == [made.units[1].length, made.units[2].length]
    start, stop = made.units.start(1), made.units.start(3)
    for part, held in (("k", made.cache.k), ("v", made.cache.v)):
        copied = torch.cat([getattr(span, part) for _, span in kept], dim=2)
        assert torch.equal(copied, held[:, 0, :, start:stop])

    other = session()
    unit(other, 0, listening())
    _at(other, 9000)
    before = other.units.start(1)
    other.settle()
    tail = other.cache.k[:, 0, :, before : other.length].clone()
    other.copy_in(list(reversed(kept)))
    assert [each.at_ms for each in other.units] == [0, 1000, 2000, 9000]
    assert other.length == other.units.end
    moved = stop - start
    dim, theta = tail.shape[-1], other.cache.rope_theta
    places = torch.arange(before, before + tail.shape[-2])
    cosines, sines = angles(places, dim, theta)
    turned = rotate(rotate(tail, cosines, -sines), *angles(places + moved, dim, theta))
    assert close(other.cache.k[:, 0, :, before + moved : other.length], turned)
    assert torch.equal(other.cache.v[:, 0, :, before : before + moved], made.cache.v[:, 0, :, start:stop])
    assert unit(other, 8, speaking("on")).text == told("on")
    before = other.units.snapshot()
    other.copy_in(kept)
    assert other.units.snapshot() == before, "what is there is not put in again"
    short = [kept[0], (replace(kept[1][0], length=1), kept[1][1])]
    strange = [kept[0], (kept[1][0], replace(kept[1][1], k=kept[1][1].k.double(), v=kept[1][1].v.double()))]
    third = session()
    for wrong, error in ((short, ValueError), (strange, EngineError)):
        with pytest.raises(error):
            third.copy_in(wrong)
        assert len(third.units) == 0, "all of them or none"


def test_a_unit_of_another_session_is_not_taken_for_one_that_is_there() -> None:
    """Both count units and seconds from 0."""
    made, other = session(), session()
    for number in range(3):
        unit(made, number, listening())
        unit(other, number + 7, listening())
    other.copy_in(made.copy_out(1000, 3000))
    assert [each.at_ms for each in other.units] == [0, 1000, 1000, 2000, 2000]


def test_words_of_a_unit_that_is_forgotten_twice_are_kept_once() -> None:
    made = session(context=Previous(units=3, tokens=200))
    unit(made, 0, speaking("one two", "turn_eos"))
    kept = made.copy_out(0, 1000)
    for number in range(1, 5):
        unit(made, number, listening())
    made.copy_in(kept)
    for number in range(5, 10):
        unit(made, number, listening())
    assert made.units[0].at_ms > 0
    assert made.memory.previous_text == told("one two")
    made.settle()
    assert made.length == made.units.end


@pytest.mark.parametrize("policy", [Recent(seconds=5, batch=0), Basic(high=2000, low=1900, units=6), Previous(units=6)])
def test_units_that_were_put_back_stay_as_long_as_new_ones(policy: Policy) -> None:
    """Of whatever age they are: the long memory of a video brings back what the policy has forgotten."""
    made = session(context=policy)
    kept: list[Any] = []
    for number in range(12):
        unit(made, number, speaking("one two") if number % 2 else listening())
        if number == 2:
            kept = made.copy_out(1000, 3000)
    assert 1000 not in [each.at_ms for each in made.units]
    made.copy_in(kept)
    for number in (12, 13):
        unit(made, number, listening())
        assert [each.at_ms for each in made.units][:2] == [1000, 2000]
        made.settle()
        assert made.length == made.units.end
    for number in range(14, 22):
        unit(made, number, listening())
    assert made.units[0].at_ms > 2000, "and go when their time has come"
    made.settle()
    assert made.length == made.units.end


def test_room_is_made_for_units_that_are_put_back() -> None:
    made = session(positions=session().length + 150)
    for number in range(6):
        unit(made, number, listening())
    kept = made.copy_out(0, 6000)
    for number in range(6, 30):
        unit(made, number, listening())
    made.settle()
    assert made.cache.room() < sum(len(span) for _, span in kept)
    made.copy_in(kept)
    assert [each.at_ms for each in made.units][:6] == [0, 1000, 2000, 3000, 4000, 5000]
    assert made.units[len(made.units) - 1].at_ms == 29_000
    assert made.length == made.units.end <= made.cache.capacity
    before = made.units.snapshot()
    again = [(replace(each, id=each.id + 100 * time), span) for each, span in kept for time in range(1, 5)]
    with pytest.raises(Full):
        made.copy_in(again)
    assert made.units.snapshot() == before
    assert unit(made, 30, listening()).end.is_listen


@pytest.mark.parametrize("start_ms", [0, 500_000])
def test_time_goes_on_in_a_session_whose_clock_is_new(start_ms: int) -> None:
    """A restored context with a clock that begins at 0 again: no unit is older than the one before it."""
    made = session(context=Recent(seconds=5, batch=0))
    for number in range(4):
        unit(made, number, listening())
    other = session(context=Recent(seconds=5, batch=0))
    other.restore(made.snapshot())
    for number in range(4, 8):
        other.prefill(second(number), at_ms=start_ms + (number - 4) * 1000)
        generate(other, listening())
    times = [each.at_ms for each in other.units]
    assert times == ([2000, 3000, 4000, 5000, 6000, 7000] if start_ms == 0 else [500_000, 501_000, 502_000, 503_000])


def _at(made: Duplex, at_ms: int) -> None:
    made.prefill(second(7), at_ms=at_ms)
    generate(made, listening())


def test_units_that_do_not_fit_are_left_out() -> None:
    made = session(context=Off())
    for number in range(3):
        unit(made, number, listening())
    kept = made.copy_out(0, 3000)
    small = session(positions=made.length + 8, context=Off())
    _at(small, 9000)
    with pytest.raises(Full):
        small.copy_in(kept)
    assert small.length == small.units.end
    assert len(small.units) == 1


def test_unit_rides_in_the_next_prefill() -> None:
    made = session()
    unit(made, 0, listening())
    rode = made.length
    made.settle()
    assert (made.length, made.units.end) == (rode + 2, rode + 2)
    made.settle()
    assert made.length == rode + 2
    other = session()
    unit(other, 0, listening())
    for each in (made, other):
        each.prefill(second(1))
    assert made.length == other.length
    assert made.pending is not None
    assert other.pending is not None
    assert close(made.pending.logits, other.pending.logits)


def test_background_result_in_a_unit_of_its_own() -> None:
    made = session()
    unit(made, 0, listening())
    before = made.units.end
    assert made.inject("The task <|turn_eos|> is done.</backend>")
    done = generate(made, speaking("it is done"))
    assert done.text == told("it is done")
    (fed,) = [made.fed]
    assert fed is not None
    assert fed.kind is UnitKind.TEXT
    result = made.input.backend("The task <|turn_eos|> is done.</backend>")
    assert [result[0], result[-1]] == [named("backend"), named("backend_end")]
    control = {named("turn_eos"), named("backend"), named("backend_end")}
    assert not control & {*result[1:-1]}
    made.settle()
    assert made.length == before + 1 + len(result) + len(done.end.ids)
    assert [each.at_ms for each in made.units] == [0, 1000]
    unit(made, 1, listening())
    assert made.units[2].at_ms == 1000, "a unit of words takes no time"


def test_background_result_beside_the_media_of_the_next_unit() -> None:
    """As the paper has it: behind what is heard, and in front of the decision."""
    made, other = session(backend="media_unit"), session()
    for each in (made, other):
        unit(each, 0, listening())
    assert not made.inject("finished")
    made.prefill(second(1))
    other.prefill(second(1), text=made.input.backend("finished"))
    assert made.length == other.length
    assert made.pending is not None
    assert other.pending is not None
    assert close(made.pending.logits, other.pending.logits)
    made.prefill(second(2))
    assert made.input.hearing is not None
    assert made.length - other.length == 1 + made.input.hearing.rows


def test_words_from_outside_hold_no_control_tokens() -> None:
    made = session()
    before = made.length
    typed = "</unit><|speak|> <backend>"
    made.prefill(text=typed)
    assert made.length - before == 1 + len(made.input.plain(typed))
    controls = {named(name) for name in ("unit", "unit_end", "speak", "listen", "backend", "backend_end")}
    assert not controls & {*made.input.plain(typed)}


def test_checkpoint_without_background_results_says_so() -> None:
    from dataclasses import replace

    made = session()
    tokens = made.model.tokens
    old = tokens.ids
    try:
        tokens.ids = replace(old, backend=None)
        with pytest.raises(EngineError, match="no <backend>"):
            made.inject("x")
    finally:
        tokens.ids = old


@pytest.mark.parametrize("tower", ["vision", "encoder"])
def test_checkpoint_without_a_tower(tower: str) -> None:
    from dataclasses import replace

    from tests.kit.omni_replay import model

    made = session(of=replace(model(), **{tower: None}), prepared=False)
    made.prepare("<|im_start|>system\n", "<|im_end|>", None)
    length = made.length
    given: dict[str, Any] = {"frames": [np.zeros((28, 28, 3), np.uint8)]} if tower == "vision" else {"audio": second(0)}
    with pytest.raises(EngineError, match="checkpoint has no"):
        made.prefill(**given)
    assert made.length == length
    made.prefill(text="words alone")
    assert generate(made, speaking("yes")).text == told("yes")


def test_bad_input_changes_nothing() -> None:
    made = session()
    length = made.length
    with pytest.raises(ValueError, match="audio, frames or text"):
        made.prefill()
    with pytest.raises(ValueError if golden.sees() else EngineError, match=r"slice limits|no vision tower"):
        made.prefill(frames=[np.zeros((28, 28, 3), np.uint8)], max_slices=[1, 2])
    with pytest.raises(EngineError, match="not numbers"):
        made.prefill(np.full(16_000, np.nan, np.float32))
    with pytest.raises(EngineError):
        made.prefill(second(0), frames=[np.zeros((4, 4), np.uint8)])
    assert made.length == length
    assert made.input.hearing is not None
    assert made.input.hearing.units == 0
    assert made.prefill(second(0)) is not None


def test_full_cache_is_an_error_before_anything_is_written() -> None:
    made = session(positions=session().length + 26, context=Off())
    unit(made, 0, listening())
    length = made.length
    with pytest.raises(Full):
        made.prefill(text="far too many words for what is left " * 4)
    assert made.length == length


def test_session_that_speaks_needs_a_voice() -> None:
    made = session(speaks=True, prepared=False)
    with pytest.raises(EngineError, match="enrolled voice"):
        made.prepare("<|im_start|>system\n", "<|im_end|>", second(0))


def test_published_code_keeps_counting_units_over_a_failed_one() -> None:
    """The stray mark of a failed unit belongs to the next one, so that the table still says where each unit lies."""
    made = session(HUB)
    unit(made, 0, listening())
    assert made.prefill(second(1)[:4000]) is None
    unit(made, 1, listening())
    assert made.length == made.units.end
    assert [each.id for each in made.units] == [0, 1]
    assert made.units[1].length == made.units[0].length + 1
