"""The encoder is the recorded one, layer by layer and chunk by chunk, and its caches keep what they should."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from realtime_venus.engines.omni.token2wav.config import TAIL_FRAMES, Token2WavError
from realtime_venus.engines.omni.token2wav.flow_encoder import (
    EncoderCache,
    FlowEncoder,
    RelativeAttention,
    relative_sinusoids,
)
from torch import Tensor

from ....kit import golden, t2w, t2w_modules
from ....kit.recording import Recording
from ....kit.t2w_modules import encoder_cache, encoder_chunks, packed

CLOSE = 1e-4


def encoder() -> FlowEncoder:
    return t2w.recorded_decoder().flow.encoder


def test_three_chunks_as_recorded() -> None:
    t2w_modules.encoder(Recording(t2w_modules.STAGE))


def test_every_layer_as_recorded() -> None:
    arrays, net = golden.stage("debug_layers"), encoder()
    layers = [*net.encoders, *net.up_encoders]
    attention = {f"enc_b{i}_attn_out": layer.get_submodule("self_attn") for i, layer in enumerate(layers)}
    whole = {f"enc_b{i}_out": layer for i, layer in enumerate(layers)}
    with t2w.Watch(enc_embed_linear=net.embed.out[0], **attention, **whole) as watch:
        net(encoder_chunks()[0], encoder_cache(), last=False)
    expected = {name for name in arrays if name.startswith("enc_")}
    assert expected == set(watch.gave)
    for name in expected:
        t2w.close(watch[name][0], arrays[name], CLOSE, name)


def test_the_table_of_distances_as_recorded() -> None:
    t2w_modules.distances(Recording(t2w_modules.STAGE))


def test_gathering_by_distance_is_shifting_the_table() -> None:
    """Each query's row, padded and shifted as the paper describes, without and with cached keys."""
    attention = cast("RelativeAttention", encoder().encoders[0].get_submodule("self_attn"))
    width = t2w.recorded_decoder().flow.config.encoder.output_size
    for start, new in ((0, 5), (7, 4)):
        stop = start + new
        distance = torch.arange(start + new - 1, stop + new - 1)[:, None] - torch.arange(stop)
        whole = t2w.normal(1, 1, stop, width)
        shape = (attention.heads, stop, attention.head_dim)
        k, v = torch.zeros(shape), torch.zeros(shape)
        if start:
            before = torch.arange(start - 1, 2 * start - 1)[:, None] - torch.arange(start)
            attention(whole[:, :start], k, v, 0, before)
        given = attention(whole[:, start:], k, v, start, distance)

        q: Tensor = attention.linear_q(whole[0, start:]).view(-1, *shape[::2]).transpose(0, 1)
        table = attention.linear_pos(relative_sinusoids(stop, width))
        rows: Tensor = table.view(-1, *shape[::2]).transpose(0, 1)
        scores: list[Tensor] = []
        for i in range(new):
            content = (q[:, i] + attention.pos_bias_u)[:, None] @ k.transpose(1, 2)
            shifted = rows[:, start + i : start + i + stop].flip(1)
            scores.append(content + (q[:, i] + attention.pos_bias_v)[:, None] @ shifted.transpose(1, 2))
        mixed = (torch.cat(scores, dim=1) / attention.head_dim**0.5).softmax(-1) @ v
        t2w.close(given[0], attention.linear_out(mixed.transpose(0, 1).flatten(1)), 1e-5)


def filled(codes: int) -> EncoderCache:
    """A cache whose keys and values are the index of their frame."""
    cache = encoder_cache(2 * codes)
    for stage, length in ((cache.first, codes), (cache.second, 2 * codes)):
        stage.length = length
        for buffer in (stage.k, stage.v):
            buffer[:] = torch.arange(length, dtype=torch.float32)[:, None]
    return cache


def indices(cache: EncoderCache) -> tuple[list[int], list[int]]:
    first, second = (
        [int(value) for value in stage.k[0, 0, : stage.length, 0]] for stage in (cache.first, cache.second)
    )
    return first, second


@pytest.mark.parametrize("prompt", [60, 164, 400])
def test_trimming_as_published_is_cutting_the_packed_cache(prompt: int) -> None:
    cache = filled((prompt + TAIL_FRAMES + 50) // 2)
    whole = packed(cache)
    cut = torch.cat([whole[..., :prompt, :], whole[..., -TAIL_FRAMES:, :]], dim=3)
    cache.trim(prompt, own_rate=False)
    first, second = indices(cache)
    assert second == [int(value) for value in cut[-1, 0, 0, :, 0]]
    assert first == [int(value) for value in cut[0, 0, 0, : len(second) // 2, 0]]


def test_trimming_as_published_freezes_the_first_stage_and_at_its_own_rate_does_not() -> None:
    prompt = 164
    frozen, moving = filled(160), filled(160)
    frozen.trim(prompt, own_rate=False)
    moving.trim(prompt, own_rate=True)
    assert indices(frozen) == (list(range(132)), [*range(164), *range(220, 320)])
    assert indices(moving) == ([*range(82), *range(110, 160)], [*range(164), *range(220, 320)])


def test_a_cache_that_is_not_too_long_stays_as_it_is() -> None:
    cache = filled(132)
    cache.trim(164, own_rate=False)
    assert indices(cache) == (list(range(132)), list(range(264)))


def test_a_full_cache_is_an_error() -> None:
    with pytest.raises(Token2WavError, match="do not fit"):
        encoder()(encoder_chunks()[0], encoder_cache(20), last=False)


def test_a_snapshot_brings_everything_back() -> None:
    cache, (one, two, _) = encoder_cache(), encoder_chunks()
    encoder()(one, cache, last=False)
    kept = cache.snapshot()
    expected = encoder()(two, cache, last=False)
    other = encoder_cache()
    other.restore(kept)
    assert torch.equal(encoder()(two, other, last=False), expected)
    assert torch.equal(packed(other), packed(cache))
