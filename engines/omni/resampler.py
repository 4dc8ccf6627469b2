"""The resampler: a fixed number of learned queries read a picture of any size (the perceiver of MiniCPM-V).

Keys carry a two-dimensional sine-cosine position of the picture's own grid; values do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import RESAMPLER_HEAD, OmniConfig
from .vision import additive

_EPS = 1e-6
_BASE = 10_000.0
_START = 70
"""Grid side that the first position table covers; it grows with longer pictures."""


def axis_table(length: int, width: int) -> Tensor:
    """Sines then cosines of the positions along one side: ``float32[length, width]``."""
    exponents = torch.arange(width // 2, dtype=torch.float32) / (width / 2)
    angles = torch.arange(length, dtype=torch.float32)[:, None] / _BASE**exponents
    return torch.cat((angles.sin(), angles.cos()), dim=1)


class CrossAttention(nn.Module):
    """Attention in which the projections of query, key and value lie in one matrix, as torch packs them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // RESAMPLER_HEAD
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def project(self, x: Tensor, part: int) -> Tensor:
        """``x [..., width]`` as query (0), key (1) or value (2)."""
        weight, bias = self.in_proj_weight.chunk(3)[part], self.in_proj_bias.chunk(3)[part]
        return functional.linear(x, weight, bias)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """``query [Q, width]`` already projected, ``keys`` and ``values [B, L, width]``, ``mask`` additive
        ``[B, 1, 1, L]`` -> ``[B, Q, width]``."""
        parts = (query[None], self.project(keys, 1), self.project(values, 2))
        query, keys, values = (
            each.view(each.shape[0], each.shape[1], self.heads, RESAMPLER_HEAD).transpose(1, 2) for each in parts
        )
        query = query.expand(keys.shape[0], -1, -1, -1)
        mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return cast("Tensor", self.out_proj(mixed.transpose(1, 2).flatten(2)))


class Resampler(nn.Module):
    """Features of the vision tower to embeddings of the thinker, the same number for every slice."""

    def __init__(self, config: OmniConfig) -> None:
        super().__init__()
        if config.vision is None:
            raise ValueError("a network without vision has no resampler")
        width, features = config.hidden_size, config.vision.hidden_size
        self.most = config.vision_batch_size
        self.query = nn.Parameter(torch.empty(config.query_num, width))
        self.kv_proj = nn.Linear(features, width, bias=False) if features != width else nn.Identity()
        self.attn = CrossAttention(width)
        self.ln_q = nn.LayerNorm(width, _EPS)
        self.ln_kv = nn.LayerNorm(width, _EPS)
        self.ln_post = nn.LayerNorm(width, _EPS)
        self.proj = nn.Parameter(torch.empty(width, width))
        self._folded: Tensor | None = None
        self._axis: Tensor | None = None

    def folded_query(self) -> Tensor:
        """The projected queries, ``[query_num, width]``: the same for every picture, so computed once."""
        if self._folded is None or not _alike(self._folded, self.proj):
            self._folded = self.attn.project(cast("Tensor", self.ln_q(self.query)), 0)
        return self._folded

    def positions(self, size: tuple[int, int]) -> Tensor:
        """What is added to the keys of a picture of ``size`` (h, w): ``[h * w, width]``, the column's half first."""
        height, width = size
        table = self._axis
        if table is None or len(table) < max(size) or not _alike(table, self.proj):
            half = self.query.shape[1] // 2
            table = axis_table(max(*size, _START), half).to(self.proj.device, self.proj.dtype)
            self._axis = table
        columns = table[:width].expand(height, width, -1)
        rows = table[:height, None].expand(height, width, -1)
        return torch.cat((columns, rows), dim=2).flatten(0, 1)

    def forward(self, feats: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
        """``feats [B, L, features]`` -> ``[B, query_num, width]``.

        Rows are padded to the largest of ``sizes``, (h, w) in patches; what is padded is never read.
        """
        batch, longest = feats.shape[:2]
        added = feats.new_zeros(batch, longest, self.proj.shape[0])
        mask = torch.zeros(batch, longest, dtype=torch.bool)
        for row, size in enumerate(sizes):
            count = size[0] * size[1]
            added[row, :count] = self.positions(size)
            mask[row, :count] = True
        padded = any(size[0] * size[1] < longest for size in sizes)
        return self.read(feats, added, additive(mask.to(feats.device), feats.dtype) if padded else None)

    def read(self, feats: Tensor, added: Tensor, mask: Tensor | None) -> Tensor:
        """The same with the positions ``[B, L, width]`` and the additive mask ``[B, 1, 1, L]`` given: static shapes."""
        values = cast("Tensor", self.ln_kv(self.kv_proj(feats)))
        mixed = cast("Tensor", self.attn(self.folded_query(), values + added, values, mask))
        return cast("Tensor", self.ln_post(mixed)) @ self.proj


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.device == other.device and one.dtype == other.dtype
