"""From slices of pictures to embeddings: the vision tower and the resampler on one padded batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import cast

import torch
from torch import Tensor

from .images import PatchedImage
from .resampler import Resampler
from .vision import VisionTower, position_ids


def encode_images(vision: VisionTower, resampler: Resampler, patches: Iterable[PatchedImage]) -> Tensor:
    """Embeddings of ``patches``, ``[B, query_num, hidden]``, on the device and in the type of the modules.

    They are one batch, padded to the largest; only more than the configured number are taken in several, of which one
    is held at a time.
    """
    waiting, seen = iter(patches), list[Tensor]()
    while part := list(islice(waiting, resampler.most)):
        seen.append(cast("Tensor", resampler(vision(*batched(vision, part)), [each.size for each in part])))
    return torch.cat(seen) if seen else resampler.query.new_empty(0, *resampler.query.shape)


def batched(vision: VisionTower, patches: Sequence[PatchedImage]) -> tuple[Tensor, Tensor, Tensor | None]:
    """What :class:`VisionTower` takes for ``patches``: pixels, position ids, and the mask (``None``: no padding)."""
    place = vision.post_layernorm.weight
    longest = max(each.count for each in patches)
    channels, patch, _ = patches[0].pixels.shape
    pixels = torch.zeros(len(patches), channels, patch, patch * longest)
    ids = torch.zeros(len(patches), longest, dtype=torch.int64)
    mask = torch.zeros(len(patches), longest, dtype=torch.bool)
    for row, each in enumerate(patches):
        pixels[row, :, :, : patch * each.count] = torch.tensor(each.pixels)
        ids[row, : each.count] = position_ids(each.size, vision.side)
        mask[row, : each.count] = True
    whole = all(each.count == longest for each in patches)
    return (
        pixels.to(place.device, place.dtype),
        ids.to(place.device),
        None if whole else mask.to(place.device),
    )
