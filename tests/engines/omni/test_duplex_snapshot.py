"""A snapshot between two units is a copy: the network is not asked for anything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.behaviour import Behaviour
from realtime_venus.engines.omni.pieces import Feed
from realtime_venus.engines.omni.thinker import Step

from tests.kit.omni_script import DEMO, HUB, VENUS, generate, named, second, session, speaking


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def refused(feed: Feed) -> Step:
    pytest.fail("a forward was asked for")


@pytest.mark.parametrize("behaviour", [VENUS, HUB, DEMO])
def test_it_asks_for_no_forward_and_the_end_of_the_unit_still_rides(
    behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = (session(behaviour, speaks=True, seed=seed) for seed in (1, 2))
    made.prefill(second(0))
    generate(made, speaking("well then"))
    made.finalise()
    length = made.length
    with monkeypatch.context() as patch:
        patch.setattr(made, "run", refused)
        state = made.snapshot()
    assert made.length == length
    riding = [named("chunk_eos"), named("unit_end")] if behaviour is VENUS else []
    assert state["carry"] == riding
    assert made.units.end == length + len(riding)
    other.prefill(second(3))
    other.restore(state)
    heard: list[list[float]] = []
    for one in (made, other):
        one.prefill(second(1))
        heard.append(np.round(generate(one, speaking("and so", "turn_eos")).pcm, 6).tolist())
        one.finalise()
        one.settle()
    assert heard[0] == heard[1] != []
    assert (made.length, made.units.snapshot()) == (other.length, other.units.snapshot())
