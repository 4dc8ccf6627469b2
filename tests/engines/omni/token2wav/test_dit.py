"""The transformer is the recorded one, without and with cached frames."""

from __future__ import annotations

import torch
from realtime_venus.engines.omni.token2wav.dit import DiT
from realtime_venus.engines.omni.token2wav.euler import DitCache
from torch import Tensor

from ....kit import golden, t2w

CLOSE = 1e-4
TIMES = (0.0, 0.3, 1.0)
STEP_TIMES = (0.3, 0.7)
"""Of the two recorded steps."""


def dit() -> DiT:
    return t2w.recorded_decoder().flow.decoder.estimator


def cache(capacity: int = 120) -> DitCache:
    return DitCache(1, dit().config, capacity, torch.device("cpu"))


def inputs() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """State and conditions of the two recorded steps."""
    shape = golden.stage("t2w_modules")["dit_first"].shape
    seeds = golden.seeds()["dit_inputs"]
    x, mu, prompt, x2, mu2 = (t2w.normal(seeds[i], *shape) for i in (0, 1, 3, 4, 5))
    speaker = t2w.normal(seeds[2], *shape[:2])[:, :, None].expand(shape)
    return (x, torch.cat([mu, speaker, prompt], 1)), (x2, torch.cat([mu2, speaker, torch.zeros_like(prompt)], 1))


def step(x: Tensor, conditions: Tensor, at: DitCache, time: float = STEP_TIMES[0]) -> Tensor:
    slots, valid = at.admit(x.shape[2])
    return dit()(x, conditions, dit().modulations(torch.tensor([time]))[0], at.step(0, slots, valid))


def ordered(at: DitCache) -> Tensor:
    """The cached keys and values, ``[depth, 2, heads, T, 2 * head_dim]``, in the published order."""
    return torch.cat([at.k[0][:, :, :, at.order], at.v[0][:, :, :, at.order]], dim=4)


def test_the_time_embedding_as_recorded() -> None:
    t2w.close(dit().t_embedder(torch.tensor(TIMES)), golden.stage("t2w_modules")["dit_t_embed"], CLOSE)


def test_two_steps_as_recorded() -> None:
    arrays, at = golden.stage("t2w_modules"), cache()
    first, second = inputs()
    t2w.close(step(*first, at), arrays["dit_first"], CLOSE)
    assert list(ordered(at).shape) == arrays["dit_first_att_shape"].tolist()
    t2w.close(ordered(at), arrays["dit_first_att"], CLOSE)
    t2w.close(at.conv[0], arrays["dit_first_cnn"], CLOSE)

    t2w.close(step(*second, at, STEP_TIMES[1]), arrays["dit_second"], CLOSE)
    head, tail = arrays["dit_second_att_head"], arrays["dit_second_att_tail"]
    t2w.close(ordered(at)[..., : head.shape[3], :], head, CLOSE)
    t2w.close(ordered(at)[..., -tail.shape[3] :, :], tail, CLOSE)
    t2w.close(at.conv[0], arrays["dit_second_cnn"], CLOSE)


def test_every_block_as_recorded() -> None:
    arrays, net = golden.stage("debug_layers"), dit()
    blocks = {
        f"dit_b{i}_{part}_out": block.get_submodule(name)
        for i, block in enumerate(net.blocks)
        for part, name in (("attn", "attn"), ("mlp", "mlp"))
    }
    times = {f"dit_b{i}_adaln": block.get_submodule("adaLN_modulation") for i, block in enumerate(net.blocks)}
    with t2w.Watch(dit_in_proj=net.in_proj, dit_final=net.final_layer, **blocks, **times) as watch:
        step(*inputs()[0], cache())
    expected = {name for name in arrays if name.startswith("dit_")}
    assert expected == set(watch.gave)
    for name in expected:
        # what the time does is recorded for both branches of guidance, and is the same
        given = watch[name].expand(arrays[name].shape[0], 1, -1) if name.endswith("adaln") else watch[name]
        t2w.close(given, arrays[name], CLOSE, name)


def test_where_a_frame_lies_and_what_lies_in_free_slots_makes_no_difference() -> None:
    first, second = inputs()
    frames = first[0].shape[2]
    tidy, scattered = cache(2 * frames), cache(3 * frames)
    scattered.k.fill_(50.0)
    scattered.v.fill_(50.0)
    places = torch.randperm(3 * frames, generator=torch.Generator().manual_seed(0))
    valid = torch.zeros(3 * frames, dtype=torch.bool)
    for (x, conditions), slots in zip((first, second), places[: 2 * frames].chunk(2), strict=True):
        valid[slots] = True
        given = dit()(
            x, conditions, dit().modulations(torch.tensor(STEP_TIMES[:1]))[0], scattered.step(0, slots, valid.clone())
        )
        torch.testing.assert_close(given, step(x, conditions, tidy), rtol=0, atol=1e-5)
