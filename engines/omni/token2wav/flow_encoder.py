"""The flow's encoder: speech codes at 25 Hz become features at 50 Hz (upsampling conformer, as in CosyVoice 2).

A look-ahead convolution, conformer layers at code rate, upsampling by two, more layers at mel rate.  A conformer layer
here is self-attention with relative positions and a feed-forward network.  Streams keep the tails of the two causal
convolutions and the keys and values of every layer in buffers of fixed capacity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .config import FRAMES_PER_CODE, LOOKAHEAD, TAIL_FRAMES, EncoderConfig, Token2WavError

_TAIL_1 = 2
_TAIL_2 = 2 * FRAMES_PER_CODE
_FFN_EPS = 1e-5


class StageCache:
    """Keys and values of one stage's layers, oldest first: ``[layers, heads, capacity, head_dim]``."""

    def __init__(self, layers: int, heads: int, head_dim: int, capacity: int, device: torch.device) -> None:
        self.k = torch.zeros(layers, heads, capacity, head_dim, device=device)
        self.v = torch.zeros_like(self.k)
        self.length = 0

    @property
    def capacity(self) -> int:
        """Positions that fit."""
        return self.k.shape[2]

    def keep(self, indices: Sequence[int]) -> None:
        """Reduce the contents to those positions, in that order; one may be named twice."""
        chosen = torch.tensor(indices, device=self.k.device)
        for buffer in (self.k, self.v):
            buffer[:, :, : len(indices)] = buffer.index_select(2, chosen)
        self.length = len(indices)

    def copy_from(self, other: StageCache) -> None:
        """Take over the contents of a cache of the same layers, whose capacity may differ."""
        self.length = other.length
        self.k[:, :, : self.length] = other.k[:, :, : self.length]
        self.v[:, :, : self.length] = other.v[:, :, : self.length]

    def snapshot(self) -> dict[str, Any]:
        """The filled part, on the CPU."""
        k, v = (buffer[:, :, : self.length].to("cpu", copy=True) for buffer in (self.k, self.v))
        return {"k": k, "v": v}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        k, v = cast("Tensor", snapshot["k"]), cast("Tensor", snapshot["v"])
        self.length = k.shape[2]
        self.k[:, :, : self.length] = k
        self.v[:, :, : self.length] = v


class EncoderCache:
    """What a stream of the encoder carries: convolution tails ``[1, width, 2]`` and ``[1, width, 4]``, two stages."""

    def __init__(self, config: EncoderConfig, capacity: int, device: torch.device) -> None:
        """``capacity`` is in mel frames."""
        heads, width = config.attention_heads, config.output_size
        self.lookahead = torch.zeros(1, width, _TAIL_1, device=device)
        self.upsample = torch.zeros(1, width, _TAIL_2, device=device)
        codes = capacity // FRAMES_PER_CODE
        self.first = StageCache(config.num_blocks, heads, width // heads, codes, device)
        self.second = StageCache(config.num_up_blocks, heads, width // heads, capacity, device)

    def trim(self, prompt_frames: int, *, own_rate: bool) -> None:
        """Once a stream has outgrown it, keep the prompt and the newest 100 frames.

        The published code packs both stages into one tensor at mel rate, the first stage written twice in a row, cuts
        that tensor, and reads the first stage back from its first half.  That freezes the first stage at the prompt
        and the 50 codes after it for the rest of the turn.  ``own_rate`` keeps the newest codes instead.
        """
        frames, codes = self.second.length, self.first.length
        if frames <= prompt_frames + TAIL_FRAMES:
            return
        kept = [*range(prompt_frames), *range(frames - TAIL_FRAMES, frames)]
        self.second.keep(kept)
        if own_rate:
            prompt, tail = prompt_frames // FRAMES_PER_CODE, TAIL_FRAMES // FRAMES_PER_CODE
            self.first.keep([*range(prompt), *range(codes - tail, codes)])
        else:
            self.first.keep([packed % codes for packed in kept[: len(kept) // FRAMES_PER_CODE]])

    def copy_from(self, other: EncoderCache) -> None:
        """Take over the contents of another cache."""
        self.lookahead.copy_(other.lookahead)
        self.upsample.copy_(other.upsample)
        self.first.copy_from(other.first)
        self.second.copy_from(other.second)

    def snapshot(self) -> dict[str, Any]:
        """The contents, tensors on the CPU."""
        return {
            "lookahead": self.lookahead.to("cpu", copy=True),
            "upsample": self.upsample.to("cpu", copy=True),
            "first": self.first.snapshot(),
            "second": self.second.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.lookahead.copy_(cast("Tensor", snapshot["lookahead"]))
        self.upsample.copy_(cast("Tensor", snapshot["upsample"]))
        self.first.restore(cast("dict[str, Any]", snapshot["first"]))
        self.second.restore(cast("dict[str, Any]", snapshot["second"]))


def relative_sinusoids(reach: int, width: int) -> Tensor:
    """``[2 * reach - 1, width]``: row ``reach - 1 + r`` describes a key that lies ``r`` positions before the query."""
    distance = torch.arange(1 - reach, reach, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * -(math.log(10_000.0) / width))
    return torch.stack([torch.sin(distance * rate), torch.cos(distance * rate)], dim=2).flatten(1)


class RelativeAttention(nn.Module):
    """Self-attention whose scores add, to content, a term of the distance between query and key (Transformer-XL)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = width // heads
        self.linear_q = nn.Linear(width, width)
        self.linear_k = nn.Linear(width, width)
        self.linear_v = nn.Linear(width, width)
        self.linear_out = nn.Linear(width, width)
        self.linear_pos = nn.Linear(width, width, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(heads, self.head_dim))
        self.pos_bias_v = nn.Parameter(torch.zeros(heads, self.head_dim))
        self._distances: Tensor | None = None

    def distances(self, reach: int) -> Tensor:
        """The projected table ``[heads, 2 * R - 1, head_dim]`` of distances up to ``R - 1``, with ``R >= reach``."""
        table = self._distances
        if table is None or table.shape[1] < 2 * reach - 1 or table.device != self.linear_pos.weight.device:
            weight = self.linear_pos.weight
            rows: Tensor = self.linear_pos(relative_sinusoids(reach, weight.shape[1]).to(weight))
            table = rows.view(-1, self.heads, self.head_dim).transpose(0, 1).contiguous()
            self._distances = table
        return table

    def forward(self, x: Tensor, k: Tensor, v: Tensor, start: int, distance: Tensor) -> Tensor:
        """``[1, T, width]``, both ways.

        ``k`` and ``v`` are ``[heads, capacity, head_dim]``: the new keys are written from ``start`` on, and attention
        covers everything up to their end.  ``distance`` is ``[T, start + T]``: how far key j lies before query i,
        counted from ``1 - T``.
        """
        new = x.shape[1]
        stop = start + new
        k[:, start:stop] = self._split(self.linear_k(x))
        v[:, start:stop] = self._split(self.linear_v(x))
        q = self._split(self.linear_q(x))
        table = self.distances(stop)
        first = (table.shape[1] + 1) // 2 - new
        rows = table[:, first : first + stop + new - 1]
        content = (q + self.pos_bias_u[:, None]) @ k[:, :stop].transpose(1, 2)
        by_distance = (q + self.pos_bias_v[:, None]) @ rows.transpose(1, 2)
        relative = by_distance.gather(2, distance.expand(self.heads, -1, -1))
        weights = torch.softmax((content + relative) / math.sqrt(self.head_dim), dim=-1)
        mixed = (weights @ v[:, :stop]).transpose(0, 1).flatten(1)
        out: Tensor = self.linear_out(mixed[None])
        return out

    def _split(self, x: Tensor) -> Tensor:
        """``[1, T, width]`` to ``[heads, T, head_dim]``."""
        return x[0].view(-1, self.heads, self.head_dim).transpose(0, 1)


class FeedForward(nn.Module):
    """Two linear layers with Swish between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(width, inner)
        self.w_2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., width]``, both ways."""
        out: Tensor = self.w_2(F.silu(self.w_1(x)))
        return out


class ConformerLayer(nn.Module):
    """Attention, then feed-forward, each behind its own norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.output_size
        self.self_attn = RelativeAttention(width, config.attention_heads)
        self.feed_forward = FeedForward(width, config.linear_units)
        self.norm_ff = nn.LayerNorm(width, eps=_FFN_EPS)
        self.norm_mha = nn.LayerNorm(width, eps=_FFN_EPS)

    def forward(self, x: Tensor, k: Tensor, v: Tensor, start: int, distance: Tensor) -> Tensor:
        """As :meth:`RelativeAttention.forward`."""
        x = x + self.self_attn(self.norm_mha(x), k, v, start, distance)
        return x + self.feed_forward(self.norm_ff(x))


class InputLayer(nn.Module):
    """Linear, norm, and the scale that goes with sinusoidal positions."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.out = nn.Sequential(nn.Linear(width_in, width), nn.LayerNorm(width, eps=1e-5))
        self._scale = math.sqrt(width)

    def forward(self, x: Tensor) -> Tensor:
        """``[1, T, in]`` to ``[1, T, width]``."""
        return self.out(x) * self._scale


class LookaheadLayer(nn.Module):
    """Mixes three future positions into each, by two convolutions beside a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(width, width, LOOKAHEAD + 1)
        self.conv2 = nn.Conv1d(width, width, _TAIL_1 + 1)

    def forward(self, x: Tensor, tail: Tensor) -> Tensor:
        """``[1, T + 3, width]`` to ``[1, T, width]``; ``tail [1, width, 2]`` is used and replaced."""
        ahead = F.leaky_relu(self.conv1(x.transpose(1, 2)))
        ahead = torch.cat([tail, ahead], dim=2)
        tail.copy_(ahead[..., -_TAIL_1:])
        out: Tensor = self.conv2(ahead)
        return out.transpose(1, 2) + x[:, :-LOOKAHEAD]


class Upsample(nn.Module):
    """Each position twice, then a causal convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, _TAIL_2 + 1)

    def forward(self, x: Tensor, tail: Tensor) -> Tensor:
        """``[1, T, width]`` to ``[1, 2 T, width]``; ``tail [1, width, 4]`` is used and replaced."""
        doubled = torch.cat([tail, x.transpose(1, 2).repeat_interleave(FRAMES_PER_CODE, dim=2)], dim=2)
        tail.copy_(doubled[..., -_TAIL_2:])
        out: Tensor = self.conv(doubled)
        return out.transpose(1, 2)


class FlowEncoder(nn.Module):
    """Embedded codes to features at mel rate."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.output_size
        self.embed = InputLayer(config.input_size, width)
        self.pre_lookahead_layer = LookaheadLayer(width)
        self.encoders = nn.ModuleList(ConformerLayer(config) for _ in range(config.num_blocks))
        self.up_layer = Upsample(width)
        self.up_embed = InputLayer(width, width)
        self.up_encoders = nn.ModuleList(ConformerLayer(config) for _ in range(config.num_up_blocks))
        self.after_norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, x: Tensor, cache: EncoderCache, *, last: bool) -> Tensor:
        """``[1, N, in]`` to ``[1, 2 (N - 3), width]``, or to ``[1, 2 N, width]`` in the ``last`` call of a stream.

        The last three positions are look-ahead and come again in the next call; behind a stream's end there is
        silence instead.  Raises :class:`Token2WavError` when the cache is too small.
        """
        x = self.embed(x)
        if last:
            x = F.pad(x, (0, 0, 0, LOOKAHEAD))
        x = self.pre_lookahead_layer(x, cache.lookahead)
        x = _run(self.encoders, x, cache.first)
        x = self.up_embed(self.up_layer(x, cache.upsample))
        return self.after_norm(_run(self.up_encoders, x, cache.second))


def _run(layers: nn.ModuleList, x: Tensor, cache: StageCache) -> Tensor:
    """One stage: every layer over the new positions and what is cached."""
    new, start = x.shape[1], cache.length
    stop = start + new
    if stop > cache.capacity:
        raise Token2WavError(f"{stop} positions do not fit into the encoder's cache of {cache.capacity}")
    query = torch.arange(start + new - 1, stop + new - 1, device=x.device)
    distance = query[:, None] - torch.arange(stop, device=x.device)
    for index, layer in enumerate(layers):
        x = layer(x, cache.k[index], cache.v[index], start, distance)
    cache.length = stop
    return x
