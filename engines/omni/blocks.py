"""The decoder that thinker (Qwen3) and talker (Llama) share: pre-norm layers of grouped-query attention and SwiGLU.

Keys and values live in the caller's preallocated buffers; modules carry the released parameter names.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .placement import Placement
from .rotary import angles, rotate

LayerBuffers = tuple[Tensor, Tensor]
"""Keys and values of one layer, each ``[slots, kv_heads, capacity, head_dim]``."""


def lookup(rows: int, width: int) -> nn.Embedding:
    """An embedding table that is not initialised: on the meta device the usual random numbers cost seconds."""
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last dimension; the mean square is float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size), requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class GatedMLP(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)), without biases."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = functional.silu(cast(Tensor, self.gate_proj(x)))
        return self.down_proj(gate * self.up_proj(x))


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; Qwen3 normalises queries and keys per head before them."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int, *, head_norm: bool, eps: float) -> None:
        super().__init__()
        self.kv_heads, self.head_dim, self.group = kv_heads, head_dim, heads // kv_heads
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)
        self.q_norm = RMSNorm(head_dim, eps) if head_norm else nn.Identity()
        self.k_norm = RMSNorm(head_dim, eps) if head_norm else nn.Identity()

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], buffers: LayerBuffers, at: Placement) -> Tensor:
        """``x [B, S, hidden]``; ``turns``: cosines and sines ``[B, S, 1, head_dim]``.  Returns ``[B, S, hidden]``."""
        batch, width, _ = x.shape
        shape = (batch, width, -1, self.head_dim)
        queries = rotate(self.q_norm(self.q_proj(x).view(shape)), *turns)
        at.write(buffers[0], rotate(self.k_norm(self.k_proj(x).view(shape)), *turns))
        at.write(buffers[1], self.v_proj(x).view(shape))
        # the query heads of a group stand in line as further queries of their one key head: nothing is repeated
        queries = queries.view(batch, width, self.kv_heads, self.group, self.head_dim).permute(0, 2, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            queries.reshape(batch, self.kv_heads, self.group * width, self.head_dim),
            at.read(buffers[0]),
            at.read(buffers[1]),
            attn_mask=at.mask,
        )
        mixed = mixed.view(batch, self.kv_heads, self.group, width, self.head_dim).permute(0, 3, 1, 2, 4)
        return self.o_proj(mixed.reshape(batch, width, -1))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, attention: Attention, mlp: GatedMLP, hidden: int, eps: float) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = mlp
        self.input_layernorm = RMSNorm(hidden, eps)
        self.post_attention_layernorm = RMSNorm(hidden, eps)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], buffers: LayerBuffers, at: Placement) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turns, buffers, at)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """The layers and the final norm; with ``vocabulary`` also the input embedding."""

    def __init__(
        self,
        *,
        layers: int,
        hidden: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        intermediate: int,
        eps: float,
        rope_theta: float,
        head_norm: bool,
        vocabulary: int | None = None,
    ) -> None:
        super().__init__()
        self.head_dim, self.rope_theta = head_dim, rope_theta
        if vocabulary is not None:
            self.embed_tokens = lookup(vocabulary, hidden)
        self.layers = nn.ModuleList(
            Layer(
                Attention(hidden, heads, kv_heads, head_dim, head_norm=head_norm, eps=eps),
                GatedMLP(hidden, intermediate),
                hidden,
                eps,
            )
            for _ in range(layers)
        )
        self.norm = RMSNorm(hidden, eps)

    def forward(self, embeds: Tensor, keys: Tensor, values: Tensor, at: Placement) -> Tensor:
        """Runs ``embeds [B, S, hidden]`` through the layers; the final norm is the caller's, who knows which rows.

        ``keys`` and ``values``: ``[layers, slots, kv_heads, capacity, head_dim]``, written and read as ``at`` says.
        """
        cosines, sines = angles(at.positions, self.head_dim, self.rope_theta)
        turns = (cosines[:, :, None], sines[:, :, None])
        x = embeds
        for index, layer in enumerate(self.layers):
            x = cast(Tensor, layer(x, turns, (keys[index], values[index]), at))
        return x
