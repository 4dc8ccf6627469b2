"""Where the rows of one forward go in a key-value cache, and what each of them may attend to.

Everything a layer needs is a tensor here, so the layers hold no lengths and no branches, and a captured graph can be
replayed after the tensors' contents were replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .upload import upload


@dataclass(frozen=True, slots=True)
class Placement:
    """The rows ``[B, S]`` of a forward within buffers ``[slots, kv_heads, capacity, head_dim]``.

    ``positions``: ``int64[B, S]``.  ``taken``: ``int64[N]``, which of the ``B * S`` flattened rows are real (``None``:
    all).  ``write_slots``, ``write_at``: ``int64[N]``, where those are written.  ``read_slots``: the buffer rows that
    the batch attends to, a slice where they are neighbours (no copy).  ``keys``: how many positions are read.
    ``mask``: additive ``[B, 1, group * S, keys]``, the rows repeated for each
    query head of a group, or ``None`` where every row sees all of them.  ``last``: ``int64[B]``, the
    last real row of each (``None``: the last of all).
    """

    positions: Tensor
    taken: Tensor | None
    write_slots: Tensor
    write_at: Tensor
    read_slots: slice | Tensor
    keys: int
    mask: Tensor | None
    last: Tensor | None

    def write(self, buffer: Tensor, rows: Tensor) -> None:
        """Stores ``rows [B, S, kv_heads, head_dim]`` in one layer's buffer."""
        flat = rows.flatten(0, 1)
        if self.taken is not None:
            flat = flat.index_select(0, self.taken)
        buffer[self.write_slots, :, self.write_at] = flat

    def read(self, buffer: Tensor) -> Tensor:
        """What the batch attends to of one layer's buffer: ``[B, kv_heads, keys, head_dim]``."""
        return buffer[self.read_slots, :, : self.keys]

    def last_rows(self, hidden: Tensor) -> Tensor:
        """The last real row of each of ``hidden [B, S, width]``: ``[B, width]``."""
        if self.last is None:
            return hidden[:, -1]
        return hidden[torch.arange(hidden.shape[0], device=hidden.device), self.last]


def place(
    lengths: Sequence[int],
    slots: Sequence[int],
    width: int,
    counts: Sequence[int],
    *,
    group: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Placement:
    """Places ``counts[b]`` of the ``width`` rows of batch row ``b`` behind the ``lengths[b]`` positions of its slot.

    Rows beyond a count are padding: they are computed, never stored, and see at least the first position (so that they
    stay finite).
    """
    batch = len(slots)
    keys = max(1, *(length + count for length, count in zip(lengths, counts, strict=True)))
    whole = all(count == width for count in counts)
    steps = torch.arange(width, device=device)
    if batch == 1:
        positions = (steps + lengths[0])[None]
        write_slots = torch.full((width,), slots[0], device=device)
    else:
        positions = upload(lengths, device)[:, None] + steps
        write_slots = upload(slots, device).repeat_interleave(width)
    write_at = positions.reshape(-1)
    taken = last = None
    if not whole:
        taken = upload((row * width + step for row, count in enumerate(counts) for step in range(count)), device)
        last = upload((max(count - 1, 0) for count in counts), device)
        write_slots, write_at = write_slots[taken], write_at[taken]
    mask = None
    if width > 1 or batch > 1:
        hidden = torch.arange(keys, device=device) > positions[..., None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
        mask = mask.repeat(1, group, 1)[:, None]
    first = slots[0]
    neighbours = list(slots) == list(range(first, first + batch))
    read_slots = slice(first, first + batch) if neighbours else upload(slots, device)
    return Placement(positions, taken, write_slots, write_at, read_slots, keys, mask, last)
