"""The transformer is the recorded one, without and with cached frames."""

from __future__ import annotations

import torch
from realtime_venus.engines.omni.token2wav.dit import DiT

from ....kit import golden, t2w, t2w_modules
from ....kit.recording import Recording
from ....kit.t2w_modules import STEP_TIMES, dit_cache, dit_inputs, dit_step

CLOSE = 1e-4


def dit() -> DiT:
    return t2w.recorded_decoder().flow.decoder.estimator


def test_the_time_embedding_as_recorded() -> None:
    t2w_modules.dit_times(Recording(t2w_modules.STAGE))


def test_two_steps_as_recorded() -> None:
    t2w_modules.dit_steps(Recording(t2w_modules.STAGE))


def test_every_block_as_recorded() -> None:
    arrays, net = golden.stage("debug_layers"), dit()
    blocks = {
        f"dit_b{i}_{part}_out": block.get_submodule(name)
        for i, block in enumerate(net.blocks)
        for part, name in (("attn", "attn"), ("mlp", "mlp"))
    }
    times = {f"dit_b{i}_adaln": block.get_submodule("adaLN_modulation") for i, block in enumerate(net.blocks)}
    with t2w.Watch(dit_in_proj=net.in_proj, dit_final=net.final_layer, **blocks, **times) as watch:
        dit_step(*dit_inputs()[0], dit_cache())
    expected = {name for name in arrays if name.startswith("dit_")}
    assert expected == set(watch.gave)
    for name in expected:
        # what the time does is recorded for both branches of guidance, and is the same
        given = watch[name].expand(arrays[name].shape[0], 1, -1) if name.endswith("adaln") else watch[name]
        t2w.close(given, arrays[name], CLOSE, name)


def test_where_a_frame_lies_and_what_lies_in_free_slots_makes_no_difference() -> None:
    first, second = dit_inputs()
    frames = first[0].shape[2]
    tidy, scattered = dit_cache(2 * frames), dit_cache(3 * frames)
    scattered.k.fill_(50.0)
    scattered.v.fill_(50.0)
    places = torch.randperm(3 * frames, generator=torch.Generator().manual_seed(0))
    valid = torch.zeros(3 * frames, dtype=torch.bool)
    for (x, conditions), slots in zip((first, second), places[: 2 * frames].chunk(2), strict=True):
        valid[slots] = True
        given = dit()(
            x, conditions, dit().modulations(torch.tensor(STEP_TIMES[:1]))[0], scattered.step(0, slots, valid.clone())
        )
        torch.testing.assert_close(given, dit_step(x, conditions, tidy), rtol=0, atol=1e-5)
