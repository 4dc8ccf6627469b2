"""The thinker: Qwen3, dense, over text ids and the embeddings that the towers put between them.

A whole unit is prefilled in one forward, the vocabulary head runs over the last row only, and several sessions advance
in lock-step through shared weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from .blocks import Decoder
from .config import OmniConfig
from .kv import KVCache
from .placement import Placement
from .upload import upload


class Step(NamedTuple):
    """What a forward is run for.

    ``logits``: ``float32[B, vocab]`` of each sequence's last row.  ``hidden``: ``[B, hidden]`` of the same rows after
    the final norm, which is what the talker is conditioned on (``[B, S, hidden]`` where all rows were asked for).
    """

    logits: Tensor
    hidden: Tensor


class Thinker(nn.Module):
    """Parameters as released below ``llm.``."""

    def __init__(self, config: OmniConfig) -> None:
        super().__init__()
        self.group = config.num_attention_heads // config.num_key_value_heads
        self.kv_heads = config.num_key_value_heads
        self.model = Decoder(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            intermediate=config.intermediate_size,
            eps=config.rms_norm_eps,
            rope_theta=config.rope_theta,
            head_norm=True,
            vocabulary=config.vocab_size,
        )
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def cache(self, capacity: int, slots: int = 1) -> KVCache:
        """Empty buffers for ``slots`` sessions of ``capacity`` positions, in the weights' type and place."""
        weight = self.lm_head.weight
        return KVCache(
            len(self.model.layers),
            slots,
            self.kv_heads,
            capacity,
            self.model.head_dim,
            dtype=weight.dtype,
            device=weight.device,
            rope_theta=self.model.rope_theta,
        )

    def embed(self, ids: Tensor | Sequence[int]) -> Tensor:
        """Embeddings ``[..., hidden]`` of token ids ``int64[...]``."""
        if not isinstance(ids, Tensor):
            ids = upload(ids, self.lm_head.weight.device)
        return cast(Tensor, self.model.embed_tokens(ids))

    def forward(
        self,
        embeds: Tensor,
        cache: KVCache,
        counts: Sequence[int] | None = None,
        *,
        slots: Sequence[int] | None = None,
        hidden_all: bool = False,
    ) -> Step:
        """Appends ``embeds [B, S, hidden]`` to the slots (default: all, in order) and advances them.

        Row ``b`` takes ``counts[b]`` of its ``S`` rows (default: all); the others are padding, and the logits of a
        count of 0 mean nothing.  Raises :class:`~.kv.Full` before anything is written.
        """
        at = cache.place(embeds.shape[1], counts, slots, group=self.group)
        step = self.run(embeds, cache.k, cache.v, at, hidden_all=hidden_all)
        for row, slot in enumerate(range(cache.slots) if slots is None else slots):
            cache.advance(embeds.shape[1] if counts is None else counts[row], slot)
        return step

    def run(self, embeds: Tensor, keys: Tensor, values: Tensor, at: Placement, *, hidden_all: bool = False) -> Step:
        """The tensors' part of :meth:`forward`: what a graph captures."""
        rows = cast(Tensor, self.model(embeds, keys, values, at))
        if hidden_all:
            hidden = cast(Tensor, self.model.norm(rows))
            last = at.last_rows(hidden)
        else:
            last = hidden = cast(Tensor, self.model.norm(at.last_rows(rows)))
        logits = cast(Tensor, self.lm_head(last))
        return Step(logits.to(torch.float32), hidden)
