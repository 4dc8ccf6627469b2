"""The sampler's times are the recorded ones, and its cache keeps the frames that the published one keeps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.omni.token2wav.config import MAX_CODES, TAIL_FRAMES, DitConfig, Token2WavError
from realtime_venus.engines.omni.token2wav.euler import DitCache, Euler

from ....kit import t2w, t2w_modules
from ....kit.recording import Recording

CPU = torch.device("cpu")
SMALL = DitConfig(hidden_size=4, depth=1, num_heads=1, head_dim=2)


def test_times_as_recorded() -> None:
    t2w_modules.euler_times(Recording(t2w_modules.STAGE))


def test_a_flow_of_no_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="one step or more"):
        Euler(t2w.recorded_decoder().flow.decoder.estimator, 0, 0.7)


def test_guidance_of_nought_is_following_the_conditions_alone() -> None:
    dit = t2w.recorded_decoder().flow.decoder.estimator
    mel = dit.config.out_channels
    mu, speaker, noise = t2w.normal(1, 1, mel, 20), t2w.normal(2, 1, mel), t2w.normal(3, 1, mel, 20)
    cache = DitCache(1, dit.config, 40, CPU)
    given = Euler(dit, 1, 0.0)(noise, mu, speaker, None, cache)
    fresh = DitCache(1, dit.config, 40, CPU)
    slots, valid = fresh.admit(20)
    conditions = torch.cat([mu, speaker[:, :, None].expand_as(mu), torch.zeros_like(mu)], 1)
    velocity = dit(
        noise.expand(2, -1, -1),
        torch.cat([conditions, torch.zeros_like(conditions)]),
        dit.modulations(torch.zeros(1))[0],
        fresh.step(0, slots, valid),
    )
    torch.testing.assert_close(given, noise + velocity[:1])


def test_the_cache_has_room_for_its_steps_only() -> None:
    assert DitCache(5, SMALL, 10, CPU).k.shape == (5, 1, 2, 1, 10, 2)


def test_a_full_cache_is_an_error_and_stays_usable() -> None:
    cache = DitCache(1, SMALL, 10, CPU)
    cache.admit(6)
    with pytest.raises(Token2WavError, match="do not fit"):
        cache.admit(5)
    assert cache.length == 6
    cache.admit(4)


@given(prompt=st.integers(2, 200), chunks=st.lists(st.integers(1, 2 * MAX_CODES), max_size=12))
def test_the_attended_frames_are_those_that_concatenating_and_cutting_leaves(prompt: int, chunks: list[int]) -> None:
    """Frames carry their number in the first key; the published cache is a list with the newest chunk in front."""
    cache = DitCache(1, SMALL, prompt + TAIL_FRAMES + 2 * MAX_CODES, CPU)
    published: list[int] = []
    born = 0
    for frames in [prompt, *chunks]:
        slots, valid = cache.admit(frames)
        numbers = list(range(born, born + frames))
        born += frames
        cache.k[0, 0, 0, 0, slots, 0] = torch.tensor(numbers, dtype=torch.float32)
        published = numbers + published
        held = cache.k[0, 0, 0, 0, :, 0]
        assert sorted(float(value) for value in held[valid]) == sorted(published)
        if len(published) > prompt + TAIL_FRAMES:
            published = published[:prompt] + published[-TAIL_FRAMES:]
        cache.trim(prompt)
        assert cache.length == len(published)
        assert [int(value) for value in held[cache.order]] == published


@given(chunks=st.lists(st.integers(1, 30), min_size=1, max_size=8), again=st.lists(st.integers(1, 30), max_size=4))
def test_rewinding_brings_the_prompt_back_whatever_was_overwritten(chunks: list[int], again: list[int]) -> None:
    prompt = 20
    base = DitCache(1, SMALL, prompt, CPU)
    base.admit(prompt)
    base.k.normal_()
    base.v.normal_()
    base.conv.normal_()
    cache = DitCache(1, SMALL, prompt + TAIL_FRAMES + 30, CPU)
    cache.adopt(base)
    for turn in (chunks, again):
        for frames in turn:
            slots, _ = cache.admit(frames)
            cache.k[..., slots, :] = 7.0
            cache.v[..., slots, :] = 7.0
            cache.conv.fill_(7.0)
            cache.trim(prompt)
        cache.rewind(base)
        assert cache.order == base.order
        assert torch.equal(cache.k[..., :prompt, :], base.k)
        assert torch.equal(cache.v[..., :prompt, :], base.v)
        assert torch.equal(cache.conv, base.conv)
