"""The flow's velocity field: a diffusion transformer with adaptive norms (adaLN-zero) and caches for streaming.

A block is attention, a causal convolution block and a feed-forward network, each shifted, scaled and gated by what the
time of the step gives.  Attention has no positions: the frames of a chunk see one another and everything cached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .config import DitConfig

_NORM_EPS = 1e-6
_FREQUENCIES = 256
_LONGEST_PERIOD = 10_000.0
_TIME_SCALE = 1000.0
_CHUNKS = 9
_KERNEL = 3


@dataclass(frozen=True, slots=True)
class StepCache:
    """Views of one Euler step's caches, and where its new keys go.

    ``conv [depth, B, 2 * hidden, 2]``: tails of both convolutions; ``k, v [depth, B, heads, capacity, head_dim]``;
    ``slots int64[T]`` takes the new keys; ``valid bool[capacity]`` marks what is attended, the new slots included.
    """

    conv: Tensor
    k: Tensor
    v: Tensor
    slots: Tensor
    valid: Tensor


@dataclass(frozen=True, slots=True)
class Modulation:
    """Shifts, scales and gates of one time: ``blocks [depth, 9 * hidden]`` and ``final [2 * hidden]``."""

    blocks: Tensor
    final: Tensor


class TimestepEmbedder(nn.Module):
    """Flow time to a vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(_FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, time: Tensor) -> Tensor:
        """``[n]`` in [0, 1] to ``[n, hidden]``."""
        half = _FREQUENCIES // 2
        exponents = torch.arange(half, dtype=torch.float32, device=time.device) / half
        angle = (time * _TIME_SCALE)[:, None] * torch.exp(-math.log(_LONGEST_PERIOD) * exponents)
        return self.mlp(torch.cat([torch.cos(angle), torch.sin(angle)], dim=1))


class Attention(nn.Module):
    """Multi-head attention with normalised queries and keys."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        inner = config.num_heads * config.head_dim
        self._split = (config.num_heads, config.head_dim)
        self.to_q = nn.Linear(config.hidden_size, inner)
        self.to_k = nn.Linear(config.hidden_size, inner)
        self.to_v = nn.Linear(config.hidden_size, inner)
        self.q_norm = nn.LayerNorm(config.head_dim)
        self.k_norm = nn.LayerNorm(config.head_dim)
        self.proj = nn.Linear(inner, config.hidden_size)

    def forward(self, x: Tensor, k: Tensor, v: Tensor, slots: Tensor, valid: Tensor) -> Tensor:
        """``[B, T, hidden]``, both ways; ``k, v [B, heads, capacity, head_dim]`` get the new keys at ``slots``."""
        q: Tensor = self.q_norm(self._heads(self.to_q(x)))
        new: Tensor = self.k_norm(self._heads(self.to_k(x)))
        k.index_copy_(2, slots, new)
        v.index_copy_(2, slots, self._heads(self.to_v(x)))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=valid[None, None, None])
        out: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        batch, frames, _ = x.shape
        return x.view(batch, frames, *self._split).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear layers with GELU (tanh) between them."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        inner = int(config.hidden_size * config.mlp_ratio)
        self.fc1 = nn.Linear(config.hidden_size, inner)
        self.fc2 = nn.Linear(inner, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """``[B, T, hidden]``, both ways."""
        out: Tensor = self.fc2(F.gelu(self.fc1(x), approximate="tanh"))
        return out


class CausalConvBlock(nn.Module):
    """Causal convolution, norm, Mish, causal convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # keys are the places of these layers in the released sequence
        self.block = nn.ModuleDict(
            {"1": nn.Conv1d(width, width, _KERNEL), "3": nn.LayerNorm(width), "6": nn.Conv1d(width, width, _KERNEL)}
        )

    def forward(self, x: Tensor, tails: Tensor) -> Tensor:
        """``[B, T, hidden]``, both ways; ``tails [B, 2 * hidden, 2]`` are used and replaced."""
        first, second = tails.chunk(2, dim=1)
        x = F.mish(self.block["3"](_causal(self.block["1"], x, first)))
        return _causal(self.block["6"], x, second)


def _causal(conv: nn.Module, x: Tensor, tail: Tensor) -> Tensor:
    """The convolution over ``[B, T, hidden]`` behind ``tail [B, hidden, 2]``, which is replaced."""
    padded = torch.cat([tail, x.transpose(1, 2)], dim=2)
    tail.copy_(padded[..., 1 - _KERNEL :])
    out: Tensor = conv(padded)
    return out.transpose(1, 2)


class Block(nn.Module):
    """One layer of the transformer."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.attn = Attention(config)
        self.conv = CausalConvBlock(width)
        self.mlp = FeedForward(config)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, _CHUNKS * width))
        self._width = (width,)

    def forward(self, x: Tensor, modulation: Tensor, cache: StepCache, layer: int) -> Tensor:
        """``[B, T, hidden]``, both ways; ``modulation [9 * hidden]``."""
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m, shift_c, scale_c, gate_c = modulation.chunk(_CHUNKS)
        inner = self._norm(x) * (1 + scale_a) + shift_a
        x = x + gate_a * self.attn(inner, cache.k[layer], cache.v[layer], cache.slots, cache.valid)
        inner = self._norm(x) * (1 + scale_c) + shift_c
        x = x + gate_c * self.conv(inner, cache.conv[layer])
        inner = self._norm(x) * (1 + scale_m) + shift_m
        return x + gate_m * self.mlp(inner)

    def _norm(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self._width, eps=_NORM_EPS)


class FinalLayer(nn.Module):
    """Adaptive norm and projection to mel bins."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.linear = nn.Linear(width, config.out_channels)
        self._width = (width,)

    def forward(self, x: Tensor, modulation: Tensor) -> Tensor:
        """``[B, T, hidden]`` and ``[2 * hidden]`` to ``[B, T, mel]``."""
        shift, scale = modulation.chunk(2)
        out: Tensor = self.linear(F.layer_norm(x, self._width, eps=_NORM_EPS) * (1 + scale) + shift)
        return out


class DiT(nn.Module):
    """Velocity of the flow at one time."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.config = config
        self.t_embedder = TimestepEmbedder(config.hidden_size)
        self.in_proj = nn.Linear(config.in_channels, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.final_layer = FinalLayer(config)

    def modulations(self, times: Tensor) -> list[Modulation]:
        """What each of the ``times [n]`` does to every block.  A third of all parameters serve only this."""
        embedded: Tensor = self.t_embedder(times)
        per_block: list[Tensor] = [cast("Block", block).adaLN_modulation(embedded) for block in self.blocks]
        blocks = torch.stack(per_block, dim=1)
        final: Tensor = self.final_layer.adaLN_modulation(embedded)
        return [Modulation(b, f) for b, f in zip(blocks, final, strict=True)]

    def forward(self, x: Tensor, conditions: Tensor, modulation: Modulation, cache: StepCache) -> Tensor:
        """State ``[B, 80, T]`` to velocity ``[B, 80, T]``.

        ``conditions [B, 240, T]``: mu, the speaker in every frame, the prompt's mel.
        """
        h: Tensor = self.in_proj(torch.cat([x, conditions], dim=1).transpose(1, 2))
        for layer, block in enumerate(self.blocks):
            h = block(h, modulation.blocks[layer], cache, layer)
        out: Tensor = self.final_layer(h, modulation.final)
        return out.transpose(1, 2)
