"""What is forgotten, and that what stays is untouched.  The recorded sessions compare the published policies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from pydantic import ValidationError
from realtime_venus.engines.omni.context import Basic, Memory, Off, Previous, Recent, overdue
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.kv import Full
from realtime_venus.engines.omni.rotary import angles, rotate
from realtime_venus.engines.omni.units import Unit, UnitKind, UnitTable

from tests.kit.omni_script import close, generate, listening, session, speaking, told, unit, words


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def _table(*lengths: int) -> UnitTable:
    table = UnitTable()
    table.protected = 50
    for number, length in enumerate(lengths):
        table.append(Unit(number, length, UnitKind.AUDIO, True, "", (), number * 1000))
    return table


@pytest.mark.parametrize(
    ("policy", "lengths", "count"),
    [
        (Off(), [100] * 9, 0),
        (Basic(high=150, low=100), [20] * 5, 0),
        (Basic(high=149, low=100), [20] * 5, 3),
        (Basic(high=60, low=51), [20] * 5, 4),
        (Basic(high=1000, low=900, units=3), [20] * 5, 2),
        (Basic(high=149, low=100, units=4), [20] * 5, 3),
        (Previous(units=3), [20] * 3, 0),
        (Previous(units=3), [20] * 5, 2),
        (Recent(seconds=3, batch=0), [20] * 4, 0),
        (Recent(seconds=3, batch=0), [20] * 6, 2),
        (Recent(seconds=2.5, batch=0), [20] * 6, 3),
        (Recent(seconds=3, batch=2), [20] * 6, 0),
        (Recent(seconds=3, batch=2), [20] * 7, 3),
        (Recent(seconds=3), [20] * 14, 0),
        (Recent(seconds=3), [20] * 15, 11),
        (Recent(seconds=9, high=100), [20] * 4, 2),
        (Recent(seconds=9, high=130, low=100), [20] * 4, 0),
        (Recent(seconds=9, high=129, low=100), [20] * 4, 2),
        (Recent(seconds=9, high=10), [20] * 4, 3),
        (Recent(seconds=1), [], 0),
        (Previous(units=1), [20], 0),
    ],
)
def test_how_many_have_to_go(policy: Off | Basic | Previous | Recent, lengths: list[int], count: int) -> None:
    assert overdue(policy, _table(*lengths)) == list(range(count))


@pytest.mark.parametrize(
    ("policy", "going"),
    [
        (Recent(seconds=3, batch=0), [1, 2]),
        (Basic(high=110, low=110), [1, 2, 3]),
        (Basic(high=1000, low=900, units=3), [1, 2, 3]),
        (Previous(units=4), [1, 2]),
        (Previous(units=1), [0, 1, 2, 3, 4]),
        (Off(), []),
    ],
)
def test_a_unit_that_was_put_back_goes_after_those_that_were_there(
    policy: Off | Basic | Previous | Recent, going: list[int]
) -> None:
    table = UnitTable()
    table.protected = 50
    for number, at_ms, copied_at_ms in (
        (0, 0, 9000),
        (1, 4000, 0),
        (2, 5000, 0),
        (3, 7000, 0),
        (4, 8000, 0),
        (5, 9000, 0),
    ):
        table.append(Unit(number, 20, UnitKind.AUDIO, True, "", (), at_ms, copied_at_ms))
    assert overdue(policy, table) == going


@pytest.mark.parametrize("limits", [{"low": 5, "high": 4}, {"low": 9000}])
def test_a_lower_limit_lies_below_the_upper_one(limits: dict[str, int]) -> None:
    for policy in (Basic, Recent):
        with pytest.raises(ValidationError, match="must not lie above"):
            policy.model_validate(limits)


def _turned(made: Duplex, before: torch.Tensor, start: int, gone: int) -> torch.Tensor:
    """Keys that were at ``start`` and after, rotated to where they are now: back to no rotation, and to the place."""
    dim, theta = before.shape[-1], made.cache.rope_theta
    places = torch.arange(start, start + before.shape[-2])
    cosines, sines = angles(places.double(), dim, theta)
    plain = rotate(before, cosines, -sines)
    return rotate(plain, *angles(places - gone, dim, theta))


def test_time_window_rotates_once_and_touches_no_value() -> None:
    made = session(context=Recent(seconds=2, batch=0))
    for number in range(3):
        unit(made, number, speaking("one two") if number == 1 else listening())
    made.settle()
    protected, length, first = made.units.protected, made.length, made.units[0].length
    keys, values = (each[:, 0, :, :length].clone() for each in (made.cache.k, made.cache.v))
    unit(made, 3, listening())
    assert [each.at_ms for each in made.units] == [1000, 2000, 3000]
    kept = length - first
    assert torch.equal(made.cache.k[:, 0, :, :protected], keys[:, :, :protected])
    assert torch.equal(made.cache.v[:, 0, :, protected:kept], values[:, :, protected + first :])
    wanted = _turned(made, keys[:, :, protected + first :], protected + first, first)
    assert close(made.cache.k[:, 0, :, protected:kept], wanted)
    assert made.memory.dropped == first


def test_default_policy_makes_room_before_the_cache_is_full() -> None:
    positions = session().length + 150
    made = session(positions=positions)
    for number in range(20):
        unit(made, number, listening())
        assert made.length <= positions
    assert len(made.units) < 20
    assert made.units.end <= positions * 7 / 8


def test_room_is_made_for_a_text_and_one_that_never_fits_is_refused_and_nothing_lost() -> None:
    positions = session().length + 250
    made = session(positions=positions)
    number = 0
    while made.length + 60 < made.memory.policy.model_dump()["high"]:
        unit(made, number, listening())
        number += 1
    before = len(made.units)
    made.prefill(text=words("one two three ") * 8 + words("one two three ") * 4)
    assert len(made.units) < before
    assert generate(made, listening()).end.is_listen
    made.finalise()
    length, kept = made.length, list(made.units)
    with pytest.raises(Full):
        made.prefill(text=words("one two three ") * 100)
    assert (made.length, list(made.units)) == (length, kept)
    assert unit(made, number, listening()).end.is_listen


def test_room_is_made_beside_the_words_that_are_kept_of_what_goes() -> None:
    """Dropped units leave their words in the prompt, so more of them must go than their length says."""
    made = session(positions=session().length + 330, context=Previous(units=50, tokens=500))
    said = "one two three four five"
    for number in range(6):
        unit(made, number, speaking(said, "turn_eos"))
    made.settle()
    text = words("one two three ")
    text = (text * 200)[: made.cache.room() + made.units[0].length - made.decoding.max_tokens - 2]
    assert made.prefill(text=text) is not None
    assert len(made.memory.previous) > 0
    assert made.length <= made.cache.capacity
    assert generate(made, listening()).end.is_listen
    made.settle()
    assert made.length == made.units.end


def test_a_policy_that_forgets_nothing_makes_no_room() -> None:
    made = session(positions=session().length + 100, context=Off())
    unit(made, 0, listening())
    with pytest.raises(Full):
        made.prefill(text=words("one two three ") * 60)
    assert len(made.units) == 1


def test_words_of_dropped_units_stay_and_the_suffix_is_computed_behind_them() -> None:
    made = session(context=Previous(units=2, tokens=50))
    unit(made, 0, speaking("first words", "turn_eos"))
    unit(made, 1, listening())
    before = made.units.protected
    unit(made, 2, listening())
    assert made.memory.previous_text == told("first words")
    assert made.units.protected == before + len(made.memory.previous)
    assert made.model.tokens.decode(made.memory.previous) == "\n\nprevious: " + told("first words")
    made.settle()
    assert made.length == made.units.end


def test_memory_goes_through_a_snapshot() -> None:
    memory = Memory(Previous(), 7, torch.ones(1, 2, 3), 5, (1, 2), "x")
    other = Memory(Previous())
    other.restore(memory.snapshot(), torch.device("cpu"))
    assert memory.snapshot().keys() == {"prefix", "suffix", "dropped", "previous", "previous_text"}
    assert (other.prefix, other.dropped, other.previous, other.previous_text) == (7, 5, (1, 2), "x")
    assert other.suffix is not None
    assert torch.equal(other.suffix, torch.ones(1, 2, 3))
    memory.reset()
    assert (memory.prefix, memory.suffix, memory.previous) == (0, None, ())
