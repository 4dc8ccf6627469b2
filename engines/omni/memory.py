"""Devices, what is free on them, and whether a network fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch

from ..base import EngineError, NotEnoughMemory
from ..machine import available_memory
from ..store.errors import mega

_WORK_BYTES: Final = 256_000_000
_WORK_SHARE: Final = 0.05
"""Working memory: a fixed part, and a share of the weights."""


def find_device(name: torch.device | str) -> torch.device:
    """The device of that name.  Raises :class:`~..base.EngineError` for CUDA where there is none."""
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EngineError(
            "there is no CUDA device that torch can use: install the driver and a torch built for it, or say --device "
            "cpu (VENUS_OMNI__DEVICE)"
        )
    return device


def free_memory(device: torch.device) -> int:
    """Bytes that can still be used on a device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free
    return available_memory()


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes: ``weights`` of the network, ``assets`` (the speech decoder, and the voices that sessions share),
    ``caches`` of one session by stage."""

    weights: int
    assets: int
    caches: Mapping[str, int] = field(default_factory=dict[str, int])
    sees: bool = False
    hears: bool = False
    speaks: bool = False
    """Which towers the checkpoint has."""

    @property
    def session(self) -> int:
        """All caches of one session."""
        return sum(self.caches.values())

    @property
    def working(self) -> int:
        """What is held while a unit is computed, and no longer (an estimate)."""
        return _WORK_BYTES + int(_WORK_SHARE * self.weights)

    def total(self, sessions: int) -> int:
        """All of it, with that many sessions."""
        return self.weights + self.assets + self.working + sessions * self.session

    def sessions(self, available: int) -> int:
        """How many sessions fit into ``available`` bytes; -1 when not even the network does."""
        left = available - self.total(0)
        return -1 if left < 0 else left // self.session

    def check(self, available: int, sessions: int, where: str) -> None:
        """Raise :class:`~..base.NotEnoughMemory` unless everything fits into ``available`` bytes of ``where``."""
        if self.total(sessions) <= available:
            return
        fits = self.sessions(available) if sessions > 1 else 0
        remedy = (
            f"VENUS_OMNI__MAX_SESSIONS={fits} fits"
            if fits > 0
            else "VENUS_OMNI__DTYPE=bfloat16 halves what float32 takes"
            + (", fewer VENUS_OMNI__POSITIONS shrink the cache" if sessions else "")
        )
        whose = "its cache" if sessions == 1 else f"each of {sessions} sessions"
        each = f", {mega(self.session)} for {whose}" if sessions else ""
        raise NotEnoughMemory(
            f"the network needs {mega(self.weights + self.assets)} for its weights{each} and about "
            f"{mega(self.working)} to work with; {mega(available)} are free on {where}: close other programs; {remedy}"
        )
