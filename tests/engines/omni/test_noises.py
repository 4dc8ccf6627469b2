"""The vocoder's noise by behaviour."""

from __future__ import annotations

import torch
from realtime_venus.engines.omni.noises import FreshNoise, noise_of

from tests.kit.omni_script import DEMO, HUB, VENUS


def test_ours_is_that_of_the_seed() -> None:
    one, same, other = noise_of(VENUS, 3), noise_of(VENUS, 3), noise_of(VENUS, 4)
    assert torch.equal(one.flow(), same.flow())
    assert torch.equal(one.vocoder(96, 2), same.vocoder(96, 2))
    assert not torch.equal(one.flow(), other.flow())


def test_published_codes_never_repeat_themselves() -> None:
    for behaviour in (HUB, DEMO):
        noise = noise_of(behaviour, 3)
        assert isinstance(noise, FreshNoise)
        assert torch.equal(noise.flow(), noise.flow()), "drawn once for a process"
        assert not torch.equal(noise.vocoder(96, 0), noise.vocoder(96, 0))
        assert not torch.equal(noise.flow(), noise_of(behaviour, 3).flow())
        assert (noise.flow().shape[:2], noise.vocoder(96, 0).shape) == ((1, 80), (1, 96, 9))
