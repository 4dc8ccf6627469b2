"""The vision tower: SigLIP2 so400m on pictures of any proportions (NaViT packing), parameters in the released names.

A picture of h x w patches is a row of h * w tokens.  Its positions are looked up in the square table that the tower
was trained with, by the place of a patch relative to the picture's sides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import CheckpointError, VisionConfig

_LANES = 8


@lru_cache(maxsize=64)
def position_ids(size: tuple[int, int], side: int = 70) -> Tensor:
    """Rows of the position table for a picture of ``size`` (h, w) patches, row after row: ``int64[h * w]``."""
    rows, columns = (_buckets(count, side) for count in size)
    return torch.tensor((rows[:, None] * side + columns[None, :]).reshape(-1))


def _buckets(count: int, side: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which of ``side`` equal parts of a length each of ``count`` equal steps begins in.

    Steps that begin on a border of two parts fall to the side where rounding put them when the tower was trained:
    fractions are the float32 values of a vectorised ``arange``, whose first of every eight is rounded before the
    others are added to it.  Written out here so that they are the same on every processor.
    """
    step = float(np.float32(1) / np.float32(count))
    index = np.arange(count)
    lane = np.where(index < count - count % _LANES, index % _LANES, 0)
    first = ((index - lane) * step).astype(np.float32)
    fractions = (first.astype(np.float64) + lane * step).astype(np.float32)
    borders = (np.arange(1, side) / side).astype(np.float32)
    return np.searchsorted(borders, fractions, side="right").astype(np.int64)


class PatchEmbeddings(nn.Module):
    """A linear map of each patch's pixels, plus its position."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        patch = config.patch_size
        self.patch_embedding = nn.Conv2d(config.num_channels, config.hidden_size, patch, stride=patch)
        self.position_embedding = nn.Embedding(config.side**2, config.hidden_size)

    def forward(self, pixels: Tensor, position_ids: Tensor) -> Tensor:
        """``pixels [B, 3, patch, patch * L]``, ``position_ids [B, L]`` -> ``[B, L, hidden]``."""
        patches = cast("Tensor", self.patch_embedding(pixels)).flatten(2).transpose(1, 2)
        return patches + cast("Tensor", self.position_embedding(position_ids))


class VisionAttention(nn.Module):
    """Every patch of a picture attends to all of its patches."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """``x [B, L, hidden]``, ``mask`` additive ``[B, 1, 1, L]`` -> ``[B, L, hidden]``."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (
            cast("Tensor", project(x)).view(shape).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return cast("Tensor", self.out_proj(mixed.transpose(1, 2).flatten(2)))


class VisionMLP(nn.Module):
    """Two linear maps around the tanh form of GELU."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", self.fc2(functional.gelu(cast("Tensor", self.fc1(x)), approximate="tanh")))


class VisionLayer(nn.Module):
    """Pre-norm attention and MLP, each added to what came in."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.self_attn = VisionAttention(config)
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = VisionMLP(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + cast("Tensor", self.self_attn(self.layer_norm1(x), mask))
        return x + cast("Tensor", self.mlp(self.layer_norm2(x)))


class VisionEncoder(nn.Module):
    """The stack of layers."""

    def __init__(self, config: VisionConfig, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(VisionLayer(config) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = cast("Tensor", layer(x, mask))
        return x


class VisionTower(nn.Module):
    """Patches to features.  ``layers`` is how many blocks are used, see :func:`used_layers`."""

    def __init__(self, config: VisionConfig, layers: int) -> None:
        super().__init__()
        self.side = config.side
        self.embeddings = PatchEmbeddings(config)
        self.encoder = VisionEncoder(config, layers)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixels: Tensor, position_ids: Tensor, mask: Tensor | None) -> Tensor:
        """Encode a padded batch.

        ``pixels [B, 3, patch, patch * L]``, zero where a picture has no more patches; ``position_ids [B, L]``;
        ``mask [B, L]``, true for patches (``None``: all are) -> ``[B, L, hidden]``, of which padded rows mean nothing.
        """
        x = cast("Tensor", self.embeddings(pixels, position_ids))
        x = cast("Tensor", self.encoder(x, None if mask is None else additive(mask, x.dtype)))
        return cast("Tensor", self.post_layernorm(x))


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """``mask [B, L]``, true for what may be seen -> ``[B, 1, 1, L]``, added to the scores of attention."""
    hidden = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, float("-inf"))
    return hidden[:, None, None]


def used_layers(stored: int, configured: int, drop_last: bool) -> int:
    """How many of the ``stored`` blocks are used.

    Checkpoints come with the last block, which is never used, or already without it: it is dropped only where all
    ``configured`` ones are there.  Raises :class:`CheckpointError` if more than that one are missing, or too many are
    there.
    """
    if stored > configured + 1:
        raise CheckpointError(
            f"the checkpoint names a vision block {stored - 1} (vpm.encoder.layers), and config.json has {configured}: "
            "they do not belong together"
        )
    if stored < max(configured - 1, 1):
        raise CheckpointError(
            f"the checkpoint holds {stored} vision blocks (vpm.encoder.layers), and config.json asks for {configured}: "
            "it is incomplete"
        )
    return stored - 1 if drop_last and stored == configured else stored
