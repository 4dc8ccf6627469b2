"""The talker: a Llama stack that turns the thinker's words and hidden states into S3 speech codes, 25 a second.

Within a turn its cache grows chunk by chunk: the condition of the words just thought, then the codes they are spoken
with.  Mid-turn a chunk is always :data:`MAX_NEW` - 1 codes long, because the end of speech cannot be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .blocks import Decoder, lookup
from .config import TalkerConfig
from .draws import Draws
from .kv import KVCache
from .talker_sampler import TalkerSettings, choose_code
from .upload import download, upload

MAX_NEW = 26
"""Steps of a chunk; the code of the last one is drawn and thrown away."""

POSITIONS = 2048
"""Of a turn, conditions and codes together; a longer one is spoken in parts."""

Bias = Mapping[int, Mapping[int, float]]
"""What is added to raw logits, by step of the chunk and code (steering, tests)."""


@dataclass(frozen=True, slots=True)
class TalkerChunk:
    """The codes of one chunk; ``ended``: the end of speech was drawn after them."""

    codes: list[int]
    ended: bool


class Projector(nn.Module):
    """linear2(relu(linear1(x))): ``[..., source]`` to ``[..., hidden]``."""

    def __init__(self, source: int, hidden: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(source, hidden)
        self.linear2 = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(functional.relu(cast(Tensor, self.linear1(x))))


class Talker(nn.Module):
    """Parameters as released below ``tts.``, with the weight norm of the head folded.

    ``projector_spk`` is loaded and unused: the duplex protocol conditions on semantics alone.
    """

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        self.config = config
        heads = config.num_attention_heads
        self.emb_text = lookup(config.num_text_tokens, config.hidden_size)
        self.projector_semantic = Projector(config.llm_dim, config.hidden_size)
        self.projector_spk = Projector(config.llm_dim, config.hidden_size)
        self.model = Decoder(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            heads=heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.hidden_size // heads,
            intermediate=config.intermediate_size,
            eps=config.rms_norm_eps,
            rope_theta=config.rope_theta,
            head_norm=False,
        )
        self.emb_code = nn.ModuleList([lookup(config.num_audio_tokens, config.hidden_size)])
        self.head_code = nn.ModuleList([nn.Linear(config.hidden_size, config.num_audio_tokens, bias=False)])

    @property
    def end_of_speech(self) -> int:
        """The code that ends speech, the last of the table."""
        return self.config.num_audio_tokens - 1

    def cache(self, capacity: int, slots: int = 1) -> KVCache:
        """Empty buffers for ``slots`` sessions of ``capacity`` positions, in the weights' type and place."""
        weight = self.emb_text.weight
        return KVCache(
            self.config.num_hidden_layers,
            slots,
            self.config.num_key_value_heads,
            capacity,
            self.model.head_dim,
            dtype=weight.dtype,
            device=weight.device,
            rope_theta=self.model.rope_theta,
        )

    def condition(self, ids: Tensor | Sequence[int], hidden: Tensor) -> Tensor:
        """What a chunk is spoken from (``hidden_text_merge``).

        Token ids ``int64[m]`` and their hidden states ``[m, llm_dim]`` after the thinker's final norm: the sum of each
        token's embedding and its projected, normalised hidden state, then one start-of-audio: ``[m + 1, hidden]``.
        """
        device = self.emb_text.weight.device
        if not isinstance(ids, Tensor):
            ids = upload(ids, device)
        words = cast(Tensor, self.emb_text(ids))
        meant = cast(Tensor, self.projector_semantic(hidden.to(words.dtype)))
        if self.config.normalize_projected_hidden:
            meant = functional.normalize(meant.to(torch.float32), dim=-1).to(words.dtype)
        start = cast(Tensor, self.emb_text(torch.full((1,), self.config.audio_bos_token_id, device=device)))
        return torch.cat((words + meant, start))

    def forward(
        self, embeds: Tensor, cache: KVCache, counts: Sequence[int] | None = None, *, slots: Sequence[int] | None = None
    ) -> Tensor:
        """Appends ``embeds [B, S, hidden]`` as the thinker does; logits ``float32[B, codes]`` of each last row."""
        group = self.config.num_attention_heads // self.config.num_key_value_heads
        at = cache.place(embeds.shape[1], counts, slots, group=group)
        rows = cast(Tensor, self.model(embeds, cache.k, cache.v, at))
        logits = cast(Tensor, self.head_code[0](self.model.norm(at.last_rows(rows))))
        for row, slot in enumerate(range(cache.slots) if slots is None else slots):
            cache.advance(embeds.shape[1] if counts is None else counts[row], slot)
        return logits.to(torch.float32)

    def speak(
        self,
        state: TalkerState,
        condition: Tensor,
        *,
        min_new: int,
        max_new: int = MAX_NEW,
        draws: Draws,
        settings: TalkerSettings | None = None,
        bias: Bias | None = None,
    ) -> TalkerChunk:
        """One chunk: see :class:`Speech` for the arguments.  Raises :class:`~.kv.Full` before anything is written."""
        settings = settings or TalkerSettings()
        (chunk,) = self.speak_together([Speech(state, condition, min_new, draws, max_new, settings, bias)])
        return chunk

    def speak_together(self, speeches: Sequence[Speech]) -> list[TalkerChunk]:
        """The chunks of several sessions in lock-step, each the same as alone; their states share one cache.

        The host waits for the device once at the end, and in steps in which a speech may end once more.
        """
        if not speeches:
            return []
        cache = speeches[0].state.cache
        slots = [speech.state.slot for speech in speeches]
        if any(speech.state.cache is not cache for speech in speeches) or len(set(slots)) != len(slots):
            raise ValueError("speeches in lock-step need states that share a cache, each with a slot of its own")
        for speech, slot in zip(speeches, slots, strict=True):
            cache.require(slot, speech.condition.shape[0] + speech.max_new - 1)
        counts = [speech.condition.shape[0] for speech in speeches]
        embeds = nn.utils.rnn.pad_sequence([speech.condition for speech in speeches], batch_first=True)
        logits = self(embeds, cache, counts, slots=slots)
        runs = [_Run(speech) for speech in speeches]
        active = runs
        while True:
            drawn = torch.stack([run.draw(row, self.end_of_speech) for run, row in zip(active, logits, strict=True)])
            ended = [False] * len(active)
            if any(run.may_end for run in active):
                ended = [code == self.end_of_speech for code in download(drawn)]
            going_on = [
                row for row, (run, end) in enumerate(zip(active, ended, strict=True)) if run.take(drawn[row], end)
            ]
            if not going_on:
                break
            active = [active[row] for row in going_on]
            fed = cast(Tensor, self.emb_code[0](torch.stack([run.codes[-1] for run in active])))
            logits = self(fed[:, None], cache, slots=[run.speech.state.slot for run in active])
        every = [code for run in runs for code in run.codes]
        read = iter(download(torch.stack(every)) if every else [])
        return [TalkerChunk([next(read) for _ in run.codes], run.ended) for run in runs]


class TalkerState:
    """The talker's memory of the turn being spoken: its own buffers, or a slot of ones that sessions share."""

    def __init__(
        self, talker: Talker, capacity: int = POSITIONS, *, cache: KVCache | None = None, slot: int = 0
    ) -> None:
        self.cache = talker.cache(capacity) if cache is None else cache
        self.slot = slot

    @property
    def position(self) -> int:
        """Where the next condition goes; 0 when no turn is open."""
        return self.cache.length(self.slot)

    @property
    def room(self) -> int:
        """Positions left."""
        return self.cache.room(self.slot)

    def reset(self) -> None:
        """Forgets the turn."""
        self.cache.reset(self.slot)

    def snapshot(self) -> dict[str, Any]:
        """For :meth:`restore`."""
        return self.cache.snapshot(self.slot)

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Puts the turn back to where it was."""
        self.cache.restore(snapshot, self.slot)


@dataclass(frozen=True, slots=True)
class Speech:
    """A chunk to be spoken.

    ``condition [m, hidden]``.  The end of speech cannot be drawn in the first ``min_new`` of ``max_new`` steps; the
    cache takes the condition and at most ``max_new`` - 1 codes.
    """

    state: TalkerState
    condition: Tensor
    min_new: int
    draws: Draws
    max_new: int = MAX_NEW
    settings: TalkerSettings = field(default_factory=TalkerSettings)
    bias: Bias | None = None


class _Run:
    """A speech under way; the codes stay on the device."""

    def __init__(self, speech: Speech) -> None:
        self.speech = speech
        self.codes: list[Tensor] = []
        self.ended = False

    @property
    def may_end(self) -> bool:
        """Whether this step's code may be the end of speech."""
        return len(self.codes) >= self.speech.min_new

    def draw(self, logits: Tensor, end: int) -> Tensor:
        step, settings = len(self.codes), self.speech.settings
        for code, added in (self.speech.bias or {}).get(step, {}).items():
            logits[code] += added
        window = settings.repetition_window
        recent = torch.stack(self.codes[-window:]) if self.codes and window else None
        uniform = self.speech.draws.code()
        return choose_code(logits, recent, settings, uniform, masked=None if self.may_end else end)

    def take(self, code: Tensor, ended: bool) -> bool:
        """Keeps the code unless it ends the chunk; whether there is another step."""
        if ended or len(self.codes) == self.speech.max_new - 1:
            self.ended = ended
            return False
        self.codes.append(code)
        return True
