from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from realtime_venus.engines.omni.blocks import Attention, Decoder, GatedMLP, RMSNorm
from realtime_venus.engines.omni.kv import KVCache
from realtime_venus.engines.omni.rotary import angles, rotate
from torch import Tensor, nn

from tests.kit import golden

HIDDEN, HEADS, KV_HEADS, DIM, THETA = 24, 6, 2, 8, 1000.0


def randomised(module: nn.Module) -> None:
    for seed, parameter in enumerate(module.parameters()):
        parameter.data = torch.as_tensor(golden.normal(seed, *parameter.shape)) * 0.3


def cache(slots: int = 1, capacity: int = 32) -> KVCache:
    return KVCache(1, slots, KV_HEADS, capacity, DIM, dtype=torch.float32, device="cpu", rope_theta=THETA)


def decoder(*, head_norm: bool = True) -> Decoder:
    made = Decoder(
        layers=1,
        hidden=HIDDEN,
        heads=HEADS,
        kv_heads=KV_HEADS,
        head_dim=DIM,
        intermediate=40,
        eps=1e-6,
        rope_theta=THETA,
        head_norm=head_norm,
    )
    randomised(made)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_norm_is_computed_in_float32(dtype: torch.dtype) -> None:
    norm = RMSNorm(64, 1e-6).to(dtype)
    x = torch.as_tensor(golden.normal(1, 3, 64)).to(dtype) * 100  # whose squares leave float16
    wide = x.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(norm(x).double(), expected, atol=2 * torch.finfo(dtype).eps, rtol=torch.finfo(dtype).eps)


def test_mlp_is_swiglu() -> None:
    mlp = GatedMLP(5, 7)
    randomised(mlp)
    x = torch.as_tensor(golden.normal(2, 3, 5))
    gate = x @ mlp.gate_proj.weight.T
    expected = (gate / (1 + (-gate).exp()) * (x @ mlp.up_proj.weight.T)) @ mlp.down_proj.weight.T
    torch.testing.assert_close(mlp(x), expected)


def naive(attention: Attention, x: Tensor) -> Tensor:
    """Head by head and row by row, from the definition: ``x [n, hidden]``."""
    turns = angles(torch.arange(len(x)), DIM, THETA)
    queries = (x @ attention.q_proj.weight.T).view(len(x), HEADS, DIM)
    keys = (x @ attention.k_proj.weight.T).view(len(x), KV_HEADS, DIM)
    values = (x @ attention.v_proj.weight.T).view(len(x), KV_HEADS, DIM)
    heads: list[Tensor] = []
    for head in range(HEADS):
        shared = head // (HEADS // KV_HEADS)
        query = rotate(attention.q_norm(queries[:, head]), *turns)
        key = rotate(attention.k_norm(keys[:, shared]), *turns)
        rows: list[Tensor] = []
        for row in range(len(x)):
            weights = torch.softmax(key[: row + 1] @ query[row] / DIM**0.5, dim=0)
            rows.append(weights @ values[: row + 1, shared])
        heads.append(torch.stack(rows))
    return torch.cat(heads, dim=1) @ attention.o_proj.weight.T


@pytest.mark.parametrize("head_norm", [True, False])
def test_attention_is_causal_grouped_and_positional(head_norm: bool) -> None:
    attention = Attention(HIDDEN, HEADS, KV_HEADS, DIM, head_norm=head_norm, eps=1e-6)
    randomised(attention)
    x = torch.as_tensor(golden.normal(3, 9, HIDDEN))
    buffers = cache()
    got: list[Tensor] = []
    for part in (x[:4], x[4:5], x[5:]):
        at = buffers.place(len(part), None, None, group=HEADS // KV_HEADS)
        cosines, sines = angles(at.positions, DIM, THETA)
        turns = (cosines[:, :, None], sines[:, :, None])
        got.append(attention(part[None], turns, (buffers.k[0], buffers.v[0]), at)[0])
        buffers.advance(len(part))
    torch.testing.assert_close(torch.cat(got), naive(attention, x), atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_padding_is_never_stored_and_never_seen(data: st.DataObject) -> None:
    """A ragged batch over any of the slots gives each row what it gets alone, and writes nothing else."""
    slots = data.draw(st.permutations(range(4)).flatmap(lambda order: st.integers(1, 4).map(lambda n: order[:n])))
    width = data.draw(st.integers(1, 5))
    counts = [data.draw(st.integers(0, width)) for _ in slots]
    before = [data.draw(st.integers(0, 6)) for _ in slots]
    model = decoder()
    together = cache(4, capacity=12)
    for slot, length in zip(slots, before, strict=True):
        history = torch.as_tensor(golden.normal(100 + slot, 2, KV_HEADS, length, DIM))
        together.k[0, slot, :, :length], together.v[0, slot, :, :length] = history[0], history[1]
        together.advance(length, slot)
    alone = [together.snapshot(slot) for slot in slots]
    untouched = together.k.clone(), together.v.clone()
    x = torch.as_tensor(golden.normal(7, len(slots), width, HIDDEN))
    at = together.place(width, counts, slots, group=HEADS // KV_HEADS)
    got = model(x, together.k, together.v, at)
    assert torch.isfinite(got).all()
    last = at.last_rows(got)
    for row, (slot, count, length) in enumerate(zip(slots, counts, before, strict=True)):
        single = cache(1, capacity=12)
        single.restore(alone[row])
        if count:
            expected = model(x[row : row + 1, :count], single.k, single.v, single.place(count, None, None, group=3))
            torch.testing.assert_close(got[row, :count], expected[0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(last[row], expected[0, -1], atol=1e-5, rtol=1e-5)
        stop = length + count
        torch.testing.assert_close(together.k[0, slot, :, :stop], single.k[0, 0, :, :stop], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(together.v[0, slot, :, :stop], single.v[0, 0, :, :stop], atol=1e-5, rtol=1e-5)
        assert torch.equal(together.k[0, slot, :, stop:], untouched[0][0, slot, :, stop:])
        assert torch.equal(together.v[0, slot, :, stop:], untouched[1][0, slot, :, stop:])
    for slot in set(range(4)) - set(slots):
        assert torch.equal(together.k[:, slot], untouched[0][:, slot])
