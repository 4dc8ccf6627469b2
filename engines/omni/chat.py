"""One-shot understanding: a conversation of messages in, an answer in words out (the turn-based use of the network).

Pictures and sounds stand where they occur in a message.  A video is pictures and sounds in turns, second by second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from torch import Tensor

from ..base import EngineError, FloatPcm, RgbImage
from ..protocol import escape
from .draws import Draws, SeededDraws, inverse_cdf
from .feeding import Part, mix
from .hearing import Hearing
from .images import PatchedImage, slice_image
from .kv import KVCache
from .model import OmniModel
from .sampler import checked, known, penalised_argmax
from .see import encode_images
from .thinker import Step
from .upload import upload
from .words import Characters

_PIECE: Final = 1024
"""Positions that are prefilled at once: the attention mask of a long prompt would take gigabytes."""


Grid = tuple[int, int]
"""Columns and rows of a picture's slices."""


@dataclass(frozen=True, slots=True)
class Picture:
    """``image`` is ``uint8[height, width, 3]``."""

    image: RgbImage


@dataclass(frozen=True, slots=True)
class Sound:
    """``wave`` is ``float32[n]`` at 16 kHz."""

    wave: FloatPcm


Content = str | Picture | Sound


@dataclass(frozen=True, slots=True)
class Message:
    """What a side said and showed; words cannot hold control tokens."""

    role: Literal["system", "user", "assistant"]
    content: Sequence[Content]


class ChatSettings(BaseModel):
    """How a conversation is laid out, and how the answer is decoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_slices: PositiveInt | None = None
    """Most slices of a picture; ``None``: what the checkpoint says."""
    image_ids: bool | None = None
    """Number the pictures; ``None``: what the checkpoint says."""
    joined: bool = False
    """Put the parts of a message side by side, as a video's are, instead of one below the other."""
    merge_sounds: bool = False
    """Encode all sounds of a message as one recording."""
    speak: bool = False
    """Ask for words that are to be voiced."""
    think: bool = False
    mode: Literal["greedy", "sampling"] = "sampling"
    temperature: float = Field(default=0.7, gt=0)
    top_k: int = Field(default=100, ge=0)
    top_p: float = Field(default=0.8, gt=0, le=1)
    repetition_penalty: float = Field(default=1.02, gt=0)
    max_tokens: PositiveInt = 4096
    min_tokens: int = Field(default=0, ge=0)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation as the thinker takes it.

    ``text`` names pictures and sounds; ``ids`` hold ``<unk>`` at the rows ``[start, end)`` of ``images`` and
    ``sounds``, which are embeddings in ``embeds [1, S, hidden]``.
    """

    text: str
    ids: list[int]
    images: list[tuple[int, int]]
    sounds: list[tuple[int, int]]
    embeds: Tensor


def build(model: OmniModel, messages: Sequence[Message], settings: ChatSettings) -> Prompt:
    """Lay out a conversation.  Raises :class:`~..base.EngineError` for what the checkpoint has no tower for."""
    return _Layout(model, settings).build(messages)


def answer(model: OmniModel, prompt: Prompt, settings: ChatSettings, draws: Draws | None = None) -> Iterator[str]:
    """The answer's words as they come; ``draws`` are used when sampling."""
    characters = Characters(model.tokens)
    for token in answer_ids(model, prompt, settings, draws):
        if piece := characters.push(token):
            yield piece
    if piece := characters.flush():
        yield piece


def answer_ids(model: OmniModel, prompt: Prompt, settings: ChatSettings, draws: Draws | None = None) -> Iterator[int]:
    """The answer's ids as they come, the token that ends it left out."""
    draws = draws or SeededDraws(0)
    ends = [model.tokens.ids.im_end, model.tokens.ids.tts_eos, *model.tokens.encode("<|endoftext|>")]
    length = prompt.embeds.shape[1]
    most = min(settings.max_tokens, model.config.max_position_embeddings - length)
    if most <= 0:
        raise EngineError(
            f"the question takes {length} positions, and the network has {model.config.max_position_embeddings}: ask "
            "about a shorter recording"
        )
    cache = model.thinker.cache(length + most)
    step = prefill(model, prompt, cache)
    said: list[int] = []
    while len(said) < most:
        logits = step.logits[0]
        if len(said) < settings.min_tokens:
            logits = logits.clone()
            logits[ends] = float("-inf")
        token = checked(int(_choose(logits, said, settings, draws)), model.dtype)
        if token in ends:
            return
        said.append(token)
        yield token
        if len(said) < most:
            step = model.thinker(model.thinker.embed([token])[None], cache)


def prefill(model: OmniModel, prompt: Prompt, cache: KVCache) -> Step:
    """Put the conversation into an empty cache, piece by piece; the last step."""
    step: Step | None = None
    for start in range(0, prompt.embeds.shape[1], _PIECE):
        step = model.thinker(prompt.embeds[:, start : start + _PIECE], cache)
    assert step is not None, "a prompt is never empty"
    return step


def _choose(logits: Tensor, said: Sequence[int], settings: ChatSettings, draws: Draws) -> Tensor:
    if settings.mode == "greedy":
        return penalised_argmax(logits, said, settings.repetition_penalty)
    scores = logits / settings.temperature
    index = upload(sorted(set(said)), scores.device)
    chosen, penalty = scores[index], settings.repetition_penalty
    scores[index] = torch.where(chosen < 0, chosen * penalty, chosen / penalty)
    ranked, order = scores.topk(min(settings.top_k, len(scores)) if settings.top_k else len(scores))
    probabilities = ranked.softmax(0)
    # a token goes when those before it already exceed the sum: the first always stays
    before = probabilities.cumsum(0) - probabilities > settings.top_p
    return known(order[inverse_cdf(probabilities.masked_fill(before, 0.0), draws.code())], logits)


class _Layout:
    """The parts of one conversation, as they come together."""

    def __init__(self, model: OmniModel, settings: ChatSettings) -> None:
        self._model = model
        self._settings = settings
        config = model.config
        self._slices = settings.max_slices or config.chat_slices
        self._numbered = config.use_image_id if settings.image_ids is None else settings.image_ids
        self._text = ""
        self._ids: list[int] = []
        self._parts: list[Part] = []
        self._images: list[tuple[int, int]] = []
        self._sounds: list[tuple[int, int]] = []

    def build(self, messages: Sequence[Message]) -> Prompt:
        marked = [{"role": message.role, "content": f"\0{index}\0"} for index, message in enumerate(messages)]
        frame = self._model.tokens.chat(marked, think=self._settings.think, speak=self._settings.speak)
        seen = iter(self._see(messages))
        heard = iter(self._hear(messages))
        for place, piece in enumerate(re.split("\0(\\d+)\0", frame)):
            if place % 2 == 0:
                self._trusted(piece)
            else:
                self._message(messages[int(piece)], seen, heard)
        return Prompt(self._text, self._ids, self._images, self._sounds, mix(self._model, self._parts))

    def _message(self, message: Message, seen: Iterator[tuple[Grid | None, Tensor]], heard: Iterator[Tensor]) -> None:
        between = "" if self._settings.joined else "\n"
        words = ""
        for index, content in enumerate(message.content):
            words += between if index else ""
            if isinstance(content, str):
                words += content
                continue
            self._words(words)
            words = ""
            if isinstance(content, Picture):
                self._picture(*next(seen))
            else:
                self._sound(next(heard))
        self._words(words)

    def _trusted(self, text: str) -> None:
        self._text += text
        self._append(self._model.tokens.encode(text))

    def _words(self, text: str) -> None:
        self._text += text
        self._append(self._model.tokens.encode_plain(escape(text)))

    def _append(self, ids: Sequence[int]) -> None:
        if ids:
            self._ids += ids
            self._parts.append(ids)

    def _embedded(self, rows: Tensor, bounds: list[tuple[int, int]]) -> None:
        start = len(self._ids)
        bounds.append((start, start + len(rows)))
        self._ids += [self._model.tokens.ids.unk] * len(rows)
        self._parts.append(rows)

    def _picture(self, grid: Grid | None, rows: Tensor) -> None:
        tokens, ids = self._model.tokens, self._model.tokens.ids
        self._text += "<image>./</image>"
        if self._numbered:
            self._append(tokens.encode(f"<image_id>{self._pictures}</image_id>"))
        self._pictures += 1
        self._append([ids.image])
        self._embedded(rows[0], self._images)
        self._append([ids.image_end])
        columns = grid[0] if grid else 1
        for index, embeddings in enumerate(rows[1:]):
            if index and index % columns == 0:
                self._append(tokens.encode("\n"))
            self._append([ids.slice])
            self._embedded(embeddings, self._images)
            self._append([ids.slice_end])

    _pictures = 0

    def _sound(self, rows: Tensor) -> None:
        ids = self._model.tokens.ids
        self._text += "<audio>./</audio>"
        self._append([ids.audio_start])
        self._embedded(rows, self._sounds)
        self._append([ids.audio_end])

    def _see(self, messages: Sequence[Message]) -> list[tuple[Grid | None, Tensor]]:
        """Grid and embeddings ``[slices, 64, hidden]`` of every picture, encoded together."""
        model = self._model
        images = [each.image for message in messages for each in message.content if isinstance(each, Picture)]
        if not images:
            return []
        if model.vision is None or model.resampler is None:
            raise EngineError(
                "this checkpoint has no vision tower: leave the pictures out, or load the omni checkpoint"
            )
        cut: list[tuple[Grid | None, int]] = []

        def patches() -> Iterator[PatchedImage]:
            for image in images:
                slices = slice_image(image, model.config.slices, self._slices)
                cut.append((slices.grid, len(slices.patches)))
                yield from slices.patches

        rows = encode_images(model.vision, model.resampler, patches())
        seen: list[tuple[Grid | None, Tensor]] = []
        start = 0
        for grid, count in cut:
            seen.append((grid, rows[start : start + count]))
            start += count
        return seen

    def _hear(self, messages: Sequence[Message]) -> list[Tensor]:
        """Embeddings ``[n, hidden]`` of every sound."""
        model = self._model
        groups = [[each.wave for each in message.content if isinstance(each, Sound)] for message in messages]
        groups = [group for group in groups if group]
        if not groups:
            return []
        if model.encoder is None or model.projector is None:
            raise EngineError("this checkpoint has no audio encoder: leave the sounds out, or load another checkpoint")
        hearing = Hearing(model.encoder, model.projector, model.config)
        if not self._settings.merge_sounds:
            return hearing.offline_many([wave for group in groups for wave in group])
        heard: list[Tensor] = []
        for group in groups:
            rows = hearing.offline(np.concatenate(group))
            total = sum(len(wave) for wave in group)
            start = 0
            for wave in group:
                stop = start + len(wave)
                heard.append(rows[start * len(rows) // total : stop * len(rows) // total])
                start = stop
        return heard
