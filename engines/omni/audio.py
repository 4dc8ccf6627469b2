"""The audio encoder: Whisper's, with a memory of the keys and values of what was heard before.

Live, a unit of a second sees itself and everything since the memory was last wiped, so it is causal from one second
to the next and not inside of one.  The memory ends where the table of positions does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..base import EngineError
from .config import AudioConfig
from .upload import upload

UNIT_STATES = 50
"""States that one second of audio gives."""


@dataclass(frozen=True)
class Place:
    """Where the states of one batch of units go in an :class:`AudioCache`: all a forward pass needs to know of it.

    With ``seen`` fixed at the cache's capacity every shape is static, and only the tensors change from unit to unit.
    """

    rows: slice | Tensor
    """The slots of the batch: a view where they are neighbours, else ``int64[B]``."""
    row_index: Tensor
    """``int64[B, 1]``."""
    positions: Tensor
    """``int64[B, S]``: position of each new state, which is also its column."""
    seen: int
    """Columns that are attended to, at least those that are filled."""
    mask: Tensor | None
    """``bool[B, 1, 1, seen]``: the filled ones; ``None`` if all are."""


class AudioCache:
    """Keys and values of what was heard, ``[layers, slots, heads, capacity, head_dim]``, one slot per session."""

    def __init__(self, config: AudioConfig, slots: int, *, device: torch.device, dtype: torch.dtype) -> None:
        heads = config.encoder_attention_heads
        shape = (config.encoder_layers, slots, heads, config.max_source_positions, config.d_model // heads)
        self.k = torch.zeros(shape, device=device, dtype=dtype)
        self.v = torch.zeros(shape, device=device, dtype=dtype)
        self._lengths = [0] * slots
        self._used = [0] * slots  # the most there ever was since the last wipe

    @property
    def capacity(self) -> int:
        """States that a slot has room for."""
        return self.k.shape[3]

    def length(self, slot: int) -> int:
        """States in the slot."""
        return self._lengths[slot]

    def full(self, slot: int, incoming: int) -> bool:
        """Whether so many more would fill the slot, which is when the published code wipes it."""
        return self._lengths[slot] + incoming >= self.capacity

    def wipe(self, slot: int) -> None:
        """Forget all of a slot: as in the thinker's cache, nothing of what was heard stays in the buffers.

        (A slot goes from one person's session to another's; that no state is attended to would hide it, not end it.)
        """
        for buffer in (self.k, self.v):
            buffer[:, slot, :, : self._used[slot]].zero_()
        self._lengths[slot] = self._used[slot] = 0

    def claim(self, slots: Sequence[int], incoming: int) -> Place:
        """Room for ``incoming`` states behind those of each slot.

        Raises :class:`EngineError` where there is none: see :meth:`full`.
        """
        starts = [self._lengths[slot] for slot in slots]
        seen = max(starts) + incoming
        if seen > self.capacity:
            raise EngineError(f"The audio cache holds {self.capacity} states: wipe it before {seen} are needed")
        device = self.k.device
        first = upload(starts, device)[:, None]
        positions = first + torch.arange(incoming, device=device)
        # One session, or several in step, need no mask.
        ragged = min(starts) != max(starts)
        filled = torch.arange(seen, device=device) < first + incoming
        index = upload(slots, device)
        neighbours = list(slots) == list(range(slots[0], slots[0] + len(slots)))
        rows = slice(slots[0], slots[0] + len(slots)) if neighbours else index
        for slot in slots:
            self._extend(slot, self._lengths[slot] + incoming)
        return Place(rows, index[:, None], positions, seen, filled[:, None, None] if ragged else None)

    def write(self, layer: int, place: Place, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store ``[B, heads, S, head_dim]``; returns all that is seen, ``[B, heads, seen, head_dim]``."""
        keys, values = self.k[layer], self.v[layer]
        keys[place.row_index, :, place.positions] = k.transpose(1, 2)
        values[place.row_index, :, place.positions] = v.transpose(1, 2)
        return keys[place.rows][:, :, : place.seen], values[place.rows][:, :, : place.seen]

    def snapshot(self, slot: int) -> dict[str, Any]:
        """What the slot holds, on the CPU."""
        length = self._lengths[slot]
        # Cloned: on the CPU ``cpu()`` would be a view.
        return {"k": self.k[:, slot, :, :length].cpu().clone(), "v": self.v[:, slot, :, :length].cpu().clone()}

    def restore(self, slot: int, snapshot: Mapping[str, Any]) -> None:
        """Fill the slot with what a snapshot holds."""
        keys: Tensor = snapshot["k"]
        values: Tensor = snapshot["v"]
        self._extend(slot, keys.shape[2])
        self.k[:, slot, :, : keys.shape[2]] = keys.to(self.k)
        self.v[:, slot, :, : keys.shape[2]] = values.to(self.v)

    def _extend(self, slot: int, length: int) -> None:
        self._lengths[slot] = length
        self._used[slot] = max(self._used[slot], length)


@dataclass(frozen=True)
class _Past:
    """The memory of one layer in one forward pass."""

    cache: AudioCache
    layer: int
    place: Place


class AudioAttention(nn.Module):
    """Multi-head attention over the new states and, where there is one, the memory."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.heads = config.encoder_attention_heads
        width = config.d_model
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def _split(self, states: Tensor) -> Tensor:
        return states.view(states.shape[0], states.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, states: Tensor, mask: Tensor | None, past: _Past | None = None) -> Tensor:
        """``[B, S, d_model]`` to the same; ``mask`` is boolean over what is attended to, true where it is seen."""
        q, k, v = (self._split(layer(states)) for layer in (self.q_proj, self.k_proj, self.v_proj))
        if past is not None:
            k, v = past.cache.write(past.layer, past.place, k, v)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


class AudioLayer(nn.Module):
    """One block: attention, then two linear layers, each behind its norm."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.self_attn = AudioAttention(config)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, config.encoder_ffn_dim)
        self.fc2 = nn.Linear(config.encoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def forward(self, states: Tensor, mask: Tensor | None, past: _Past | None = None) -> Tensor:
        """``[B, S, d_model]`` to the same."""
        states = states + self.self_attn(self.self_attn_layer_norm(states), mask, past)
        widened: Tensor = functional.gelu(self.fc1(self.final_layer_norm(states)))
        return states + self.fc2(widened)


class AudioEncoder(nn.Module):
    """Mel features to one state per 20 ms; sizes and parameter names are the checkpoint's (``apm.``)."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.conv1 = nn.Conv1d(config.num_mel_bins, width, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(width, width, kernel_size=3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config.max_source_positions, width)
        self.layers = nn.ModuleList(AudioLayer(config) for _ in range(config.encoder_layers))
        self.layer_norm = nn.LayerNorm(width)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.conv1.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """What the weights are stored as."""
        return self.conv1.weight.dtype

    def cache(self, slots: int = 1) -> AudioCache:
        """An empty memory for that many sessions."""
        return AudioCache(self.config, slots, device=self.device, dtype=self.dtype)

    def _convolve(self, mel: Tensor, present: Tensor | None) -> Tensor:
        """``[B, mels, T]`` to ``[B, ceil(T / 2), d_model]``."""
        states: Tensor = functional.gelu(self.conv1(mel.to(self.dtype)))
        if present is not None:
            # An absent frame is what padding is to the second convolution: zero, not a bias.
            states = states * present.to(self.dtype)
        states = functional.gelu(self.conv2(states))
        return states.transpose(1, 2)

    def forward(self, mel: Tensor, present: Tensor, cache: AudioCache, place: Place) -> Tensor:
        """One unit of each of ``B`` streams.

        ``mel`` is ``[B, mels, 104]``, ``present`` ``[B, 1, 104]`` is 0 at frames that do not exist (before a stream
        begins) and 1 elsewhere, ``place`` comes from :meth:`AudioCache.claim`.  Returns ``[B, 50, d_model]``: the
        states of the unit itself, those of its edges are dropped.
        """
        states = self._convolve(mel, present)[:, 1:-1]
        states = states + self.embed_positions(place.positions)
        for index, layer in enumerate(self.layers):
            states = layer(states, place.mask, _Past(cache, index, place))
        normed: Tensor = self.layer_norm(states)
        return normed

    def offline(self, mel: Tensor, block: int = UNIT_STATES, visible: Sequence[int] | None = None) -> Tensor:
        """Whole recordings at once: a state sees its own block of ``block`` states and all before.

        ``mel`` is ``[B, mels, T]`` with ``T`` at most twice ``max_source_positions``; returns ``[B, ceil(T / 2),
        d_model]``.  Of a batch with padding, ``visible`` says how many states of each row may be attended to.
        """
        count = (mel.shape[2] + 1) // 2
        if count > self.config.max_source_positions:
            longest = 2 * self.config.max_source_positions
            raise EngineError(
                f"The audio encoder takes {longest} frames at once, not {mel.shape[2]}: cut it into pieces"
            )
        states = self._convolve(mel, None)
        index = torch.arange(count, device=mel.device)
        mask = (index[None, :] // block <= index[:, None] // block)[None, None]
        if visible is not None:
            mask = mask & (index < upload(visible, mel.device)[:, None])[:, None, None]
        states = states + self.embed_positions(index)
        for layer in self.layers:
            states = layer(states, mask)
        normed: Tensor = self.layer_norm(states)
        return normed
