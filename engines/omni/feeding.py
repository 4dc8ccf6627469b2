"""What a unit is made of, as rows for the thinker: ids and embeddings side by side in one tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..base import EngineError, RgbImage
from .images import PatchedImage, slice_image
from .model import OmniModel
from .see import encode_images

Part = Sequence[int] | Tensor
"""Ids, or embeddings ``[n, hidden]``."""


def mix(model: OmniModel, parts: Iterable[Part]) -> Tensor:
    """The parts one behind the other, ``[1, S, hidden]``; all ids are embedded at once."""
    kept = list(parts)
    ids = [token for part in kept if not isinstance(part, Tensor) for token in part]
    embedded = model.thinker.embed(ids)
    rows: list[Tensor] = []
    taken = 0
    for part in kept:
        if isinstance(part, Tensor):
            rows.append(part.to(embedded.dtype))
        else:
            rows.append(embedded[taken : taken + len(part)])
            taken += len(part)
    return torch.cat(rows)[None]


def pictures(
    model: OmniModel, frames: Sequence[RgbImage], max_slices: int | Sequence[int]
) -> tuple[list[Part], Tensor | None]:
    """The parts of a unit's frames, and their embeddings ``[slices, 64, hidden]``.

    Each frame is ``<image>`` and the whole picture, then its slices in ``<slice>``; all are encoded in one batch.
    ``max_slices`` is one limit, or one for each frame.
    """
    if not frames:
        return [], None
    if model.vision is None or model.resampler is None:
        raise EngineError("this checkpoint has no vision tower: send no frames, or load the omni checkpoint")
    limits = [max_slices] * len(frames) if isinstance(max_slices, int) else list(max_slices)
    if len(limits) != len(frames):
        raise ValueError(f"{len(limits)} slice limits for {len(frames)} frames: give one, or one for each")
    cut = [slice_image(frame, model.config.slices, limit).patches for frame, limit in zip(frames, limits, strict=True)]
    every: list[PatchedImage] = [patch for patches in cut for patch in patches]
    vision = encode_images(model.vision, model.resampler, every)
    ids = model.tokens.ids
    rows = iter(vision)
    parts: list[Part] = []
    for patches in cut:
        parts += [[ids.image], next(rows), [ids.image_end]]
        for _ in patches[1:]:
            parts += [[ids.slice], next(rows), [ids.slice_end]]
    return parts, vision
