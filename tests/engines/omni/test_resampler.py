"""The resampler against its recording, and its tables."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.resampler import Resampler, axis_table
from realtime_venus.engines.omni.see import batched
from torch import Tensor, nn

from ...kit import golden, omni_eyes

TOLERANCE = 1e-4
golden.needs_eyes()

RECORD = golden.stage("vision_tower")


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


def keep(seen: dict[str, Tensor], name: str, _module: nn.Module, _given: object, out: Tensor) -> None:
    """A hook that keeps what a module gave for the first of a batch."""
    seen[name] = out[0]


def close(got: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=TOLERANCE)


def test_the_position_table() -> None:
    keys = [key for key in RECORD if key.startswith("resampler_pos_table_")]
    assert keys
    for key in keys:
        row, column = (int(part) for part in key.split("_")[-2:])
        table = omni_eyes.resampler().positions((row + 2, column + 3))
        close(table[row * (column + 3) + column], RECORD[key])


def test_the_query_is_folded() -> None:
    resampler, expected = omni_eyes.resampler(), RECORD["folded_query"]
    normalised = cast("Tensor", resampler.ln_q(resampler.query))
    close(normalised[: len(expected)], expected)
    assert torch.equal(resampler.folded_query(), resampler.attn.project(normalised, 0))


def test_every_step() -> None:
    case, seen, resampler = golden.layered_picture(), dict[str, Tensor](), omni_eyes.resampler()
    steps = {"kv_proj": resampler.kv_proj, "attn_out": resampler.attn, "ln_post": resampler.ln_post}
    hooks = [module.register_forward_hook(partial(keep, seen, name)) for name, module in steps.items()]
    tower, patches = omni_eyes.tower(), omni_eyes.slices(case).patches
    resampler(tower(*batched(tower, patches)), [each.size for each in patches])
    for hook in hooks:
        hook.remove()
    recorded = {key: each for key, each in golden.stage("debug_layers").items() if key.startswith("res_")}
    assert recorded
    for key, expected in recorded.items():
        name = key.removeprefix("res_")
        rows = torch.tensor(RECORD[f"{case}_rows"]).long() if name == "kv_proj" else slice(None)
        close(seen[name][rows], expected)


def test_attention_is_that_of_the_packed_layout() -> None:
    own = omni_eyes.resampler().attn
    width = own.out_proj.in_features
    other = torch.nn.MultiheadAttention(width, own.heads, batch_first=True)
    other.load_state_dict(own.state_dict())
    draw = torch.Generator().manual_seed(2)
    query, keys, values = (torch.randn(2, length, width, generator=draw) for length in (5, 9, 9))
    query[1] = query[0]
    hidden = torch.zeros(2, 9, dtype=torch.bool)
    hidden[1, 4:] = True
    expected, _ = other(query, keys, values, key_padding_mask=hidden)
    mask = torch.zeros(2, 1, 1, 9).masked_fill(hidden[:, None, None], float("-inf"))
    got = own(own.project(query[0], 0), keys, values, mask)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_padding_is_never_read() -> None:
    resampler, draw = omni_eyes.resampler(), torch.Generator().manual_seed(3)
    sizes = [(3, 4), (5, 4)]
    feats = torch.randn(2, 20, omni_eyes.vision_config().hidden_size, generator=draw)
    together = cast("Tensor", resampler(feats, sizes))
    feats[0, 12:] = 1e4
    assert torch.equal(resampler(feats, sizes), together)
    torch.testing.assert_close(resampler(feats[:1, :12], sizes[:1])[0], together[0], atol=1e-5, rtol=0)


def test_the_table_grows_with_longer_pictures() -> None:
    with torch.device("cpu"):
        resampler = Resampler(omni_eyes.config())
    small = resampler.positions((2, 3)).clone()
    long = resampler.positions((2, 150))
    half = omni_eyes.config().hidden_size // 2
    assert torch.equal(long[:150, :half], axis_table(150, half))
    assert torch.equal(resampler.positions((2, 3)), small)


def test_a_picture_depends_on_its_own_proportions() -> None:
    draw, resampler = torch.Generator().manual_seed(4), omni_eyes.resampler()
    feats = torch.randn(1, 12, omni_eyes.vision_config().hidden_size, generator=draw)
    assert not torch.allclose(resampler(feats, [(3, 4)]), resampler(feats, [(4, 3)]), atol=1e-4)
