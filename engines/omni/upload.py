"""Integers from the host to the device, and back.  Only the way back makes the host wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor


def upload(values: Iterable[int], device: torch.device) -> Tensor:
    """``int64[n]`` on ``device``; a copy from pinned memory is only queued, one from pageable memory would wait."""
    host = torch.tensor(list(values), dtype=torch.int64)
    if device.type != "cuda":
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)


def download(values: Tensor) -> list[int]:
    """What ``int64[n]`` holds, once the device has computed it: one copy, and the only kind in the per-token path."""
    return cast("list[int]", values.tolist())  # pyright: ignore[reportUnknownMemberType]
