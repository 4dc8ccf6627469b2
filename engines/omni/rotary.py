"""Rotary position embedding, in the rotate-half layout (RoFormer; Qwen3 and Llama pair channel i with i + dim / 2).

Angles and rotations are float32 whatever the type of the vectors, which is also what they come back in.
"""

from __future__ import annotations

import torch
from torch import Tensor


def frequencies(dim: int, theta: float, device: torch.device | None = None) -> Tensor:
    """Radians per position of each channel pair, ``float32[dim / 2]``."""
    exponents = torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim
    return 1.0 / (theta**exponents)


def angles(positions: Tensor, dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines at ``positions [...]``: two ``float32[..., dim]``, the second half repeating the first."""
    turned = positions.to(torch.float32)[..., None] * frequencies(dim, theta, positions.device)
    turned = torch.cat((turned, turned), dim=-1)
    return turned.cos(), turned.sin()


def shift_angles(delta: int, dim: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines that move a rotated vector by ``delta`` positions, either way: two ``float32[dim]``.

    The product is float64: a float32 one is off by delta / 2**24 radians.
    """
    turned = frequencies(dim, theta).to(torch.float64) * delta
    turned = torch.cat((turned, turned))
    return turned.cos().to(device, torch.float32), turned.sin().to(device, torch.float32)


def rotate(vectors: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotates ``vectors [..., dim]`` by angles that broadcast to them; one rounding to their type, at the end."""
    first, second = vectors.chunk(2, dim=-1)
    turned = vectors * cosines + torch.cat((-second, first), dim=-1) * sines
    return turned.to(vectors.dtype)
