"""Keys and values of a decoder in fixed buffers: one row of them (a slot) per session, lengths on the host.

Keys are stored rotated.  Whatever moves to another position is rotated by the difference, once and in float32; values
never change.  (Entries that stay have attended to what was dropped: eviction is not a fresh prefill of the rest.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ..base import EngineError
from .placement import Placement, place
from .rotary import rotate, shift_angles


class Full(EngineError):
    """A slot has no room for what was to be written; nothing was."""


@dataclass(frozen=True, slots=True)
class KVSpan:
    """Entries that were at ``start`` and after: ``k``, ``v`` ``[layers, kv_heads, n, head_dim]``, on the CPU."""

    k: Tensor
    v: Tensor
    start: int

    def __len__(self) -> int:
        return self.k.shape[2]

    @property
    def bytes(self) -> int:
        """What it occupies."""
        return self.k.nbytes + self.v.nbytes


class KVCache:
    """``k`` and ``v``, each ``[layers, slots, kv_heads, capacity, head_dim]``; positions count from 0 in every slot."""

    def __init__(
        self,
        layers: int,
        slots: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
        rope_theta: float,
    ) -> None:
        shape = (layers, slots, kv_heads, capacity, head_dim)
        # zeros, not whatever was there: rows that are masked away must still be finite
        self.k = torch.zeros(shape, dtype=dtype, device=device)
        self.v = torch.zeros(shape, dtype=dtype, device=device)
        self.rope_theta = rope_theta
        self._lengths = [0] * slots
        self._used = [0] * slots  # the most there ever was since the last reset

    @property
    def slots(self) -> int:
        """How many sessions share the buffers."""
        return self.k.shape[1]

    @property
    def capacity(self) -> int:
        """Positions of a slot."""
        return self.k.shape[3]

    @property
    def bytes(self) -> int:
        """What the buffers occupy."""
        return self.k.nbytes + self.v.nbytes

    def length(self, slot: int = 0) -> int:
        """Positions in use."""
        return self._lengths[slot]

    def room(self, slot: int = 0) -> int:
        """Positions left."""
        return self.capacity - self._lengths[slot]

    def require(self, slot: int, count: int) -> None:
        """Raises :class:`Full` where ``count`` more positions do not fit."""
        if count > self.room(slot):
            raise Full(
                f"{count} positions do not fit into slot {slot}: {self._lengths[slot]} of {self.capacity} are in use; "
                "evict some, or open the session with a larger context"
            )

    # -- writing ----------------------------------------------------------------------------------------------------

    def place(self, width: int, counts: Sequence[int] | None, slots: Sequence[int] | None, *, group: int) -> Placement:
        """Where a forward of ``width`` rows per slot goes (:func:`~.placement.place`); raises :class:`Full`."""
        slots = range(self.slots) if slots is None else slots
        counts = [width] * len(slots) if counts is None else counts
        if len(counts) != len(slots) or len(set(slots)) != len(slots):
            raise ValueError(f"{len(counts)} counts for the slots {list(slots)}: one for each, and each slot once")
        if any(not 0 <= count <= width for count in counts):
            raise ValueError(f"counts {list(counts)} of {width} rows")
        for slot, count in zip(slots, counts, strict=True):
            self.require(slot, count)
        lengths = [self._lengths[slot] for slot in slots]
        return place(lengths, slots, width, counts, group=group, dtype=self.k.dtype, device=self.k.device)

    def advance(self, count: int, slot: int = 0) -> None:
        """Takes ``count`` written positions into use."""
        self.require(slot, count)
        self._extend(slot, self._lengths[slot] + count)

    def truncate(self, slot: int, length: int) -> None:
        """Forgets everything from position ``length`` on."""
        if not 0 <= length <= self._lengths[slot]:
            raise ValueError(f"cannot truncate {self._lengths[slot]} positions to {length}")
        self._lengths[slot] = length

    def evict(self, slot: int, start: int, count: int) -> None:
        """Removes ``count`` positions from ``start`` on; what follows moves up to close the gap."""
        self._check_span(slot, start, start + count)
        self._move(slot, start + count, start)
        self._lengths[slot] -= count

    # -- spans ------------------------------------------------------------------------------------------------------

    def copy_out(self, slot: int, start: int, stop: int) -> KVSpan:
        """A copy of the positions ``start`` to ``stop`` (exclusive) on the CPU; the cache keeps them."""
        self._check_span(slot, start, stop)
        k, v = (buffer[:, slot, :, start:stop].to("cpu", copy=True) for buffer in (self.k, self.v))
        return KVSpan(k, v, start)

    def copy_in(self, slot: int, at: int, span: KVSpan) -> None:
        """Inserts ``span`` before position ``at``; what follows moves down, and all of it is rotated to its place."""
        count = len(span)
        self._check_span(slot, at, at)
        self.require(slot, count)
        self.check(span)
        self._move(slot, at, at + count)
        k, v = (part.to(self.k.device) for part in (span.k, span.v))
        turn = self._turn(at - span.start)
        for layer in range(self.k.shape[0]):
            self.k[layer, slot, :, at : at + count] = turn(k[layer])
        self.v[:, slot, :, at : at + count] = v
        self._extend(slot, self._lengths[slot] + count)

    def check(self, span: KVSpan) -> None:
        """Raises :class:`~..base.EngineError` for entries of another network or type."""
        self._check_fits(span.k, span.v)

    # -- state ------------------------------------------------------------------------------------------------------

    def reset(self, slot: int = 0) -> None:
        """Empties a slot, for another session: nothing of this one stays in the buffers."""
        for buffer in (self.k, self.v):
            buffer[:, slot, :, : self._used[slot]].zero_()
        self._lengths[slot] = self._used[slot] = 0

    def snapshot(self, slot: int = 0) -> dict[str, Any]:
        """The slot's entries on the CPU, for :meth:`restore` into any slot of buffers of the same layout."""
        span = self.copy_out(slot, 0, self._lengths[slot])
        return {"k": span.k, "v": span.v}

    def restore(self, snapshot: dict[str, Any], slot: int = 0) -> None:
        """Puts the slot back to what it was; raises :class:`Full` where the snapshot is longer than the buffers."""
        k, v = cast(Tensor, snapshot["k"]), cast(Tensor, snapshot["v"])
        self._check_fits(k, v)
        length = k.shape[2]
        if length > self.capacity:
            raise Full(f"a snapshot of {length} positions does not fit into {self.capacity}: open a larger cache")
        self.k[:, slot, :, :length] = k.to(self.k.device)
        self.v[:, slot, :, :length] = v.to(self.v.device)
        self._extend(slot, length)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _extend(self, slot: int, length: int) -> None:
        self._lengths[slot] = length
        self._used[slot] = max(self._used[slot], length)

    def _move(self, slot: int, start: int, to: int) -> None:
        """Moves everything from ``start`` on so that it begins at ``to``."""
        stop = self._lengths[slot]
        if start in (to, stop):
            return
        end = to + stop - start
        turn = self._turn(to - start)
        # layer by layer: the float32 copy of one layer is small, that of all of them is not
        for k, v in zip(self.k[:, slot], self.v[:, slot], strict=True):
            k[:, to:end] = turn(k[:, start:stop])
            v[:, to:end] = v[:, start:stop].clone()

    def _turn(self, delta: int) -> Callable[[Tensor], Tensor]:
        if delta == 0:
            return lambda keys: keys
        cosines, sines = shift_angles(delta, self.k.shape[4], self.rope_theta, self.k.device)
        return lambda keys: rotate(keys, cosines, sines)

    def _check_span(self, slot: int, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self._lengths[slot]:
            raise ValueError(f"positions {start} to {stop} of the {self._lengths[slot]} in use")

    def _check_fits(self, k: Tensor, v: Tensor) -> None:
        layers, _, kv_heads, _, head_dim = self.k.shape
        for part in (k, v):
            if part.ndim != 4 or (*part.shape[:2], part.shape[3]) != (layers, kv_heads, head_dim):
                raise EngineError(
                    f"keys and values of shape {tuple(part.shape)} are from another network: this one has {layers} "
                    f"layers of {kv_heads} key heads with {head_dim} channels"
                )
            if part.dtype != self.k.dtype:
                raise EngineError(f"keys and values in {part.dtype} cannot enter a cache in {self.k.dtype}")
