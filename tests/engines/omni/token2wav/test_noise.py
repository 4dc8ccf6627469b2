"""Seeded noise is the same every time, and different wherever it should be."""

from __future__ import annotations

import pytest
import torch
from realtime_venus.engines.omni.token2wav.noise import FLOW_FRAMES, SeededNoise


def test_it_repeats_itself_in_any_order() -> None:
    one, other = SeededNoise(5), SeededNoise(5)
    late = one.vocoder(96, 3)
    assert torch.equal(other.flow(), one.flow())
    assert torch.equal(other.vocoder(96, 3), late)
    assert one.flow().shape == (1, 80, FLOW_FRAMES)
    assert late.shape == (1, 96, 9)


def test_calls_and_seeds_differ() -> None:
    drawn = [SeededNoise(seed).vocoder(96, call) for seed in (0, 1) for call in (0, 1)]
    assert not any(torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])
    assert not torch.equal(SeededNoise(0).flow(), SeededNoise(1).flow())


def test_it_is_normal() -> None:
    flow = SeededNoise(2).flow()
    assert abs(float(flow.mean())) < 0.005
    assert abs(float(flow.std()) - 1) < 0.005


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="noise seed"):
        SeededNoise(-1)
