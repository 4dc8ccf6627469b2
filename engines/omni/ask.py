"""One question about a recording, a video or pictures, answered in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from ..base import INPUT_HZ, EngineError, FloatPcm, RgbImage
from ..omni_settings import OmniSettings
from ..store.checkpoints import checkpoint_folder
from ..store.settings import ModelsSettings
from . import chat
from .audio import UNIT_STATES
from .checkpoint import Checkpoint
from .config import OmniConfig, SliceConfig
from .draws import SeededDraws
from .engine import load_model_for_question
from .images import choose_grid, fit_image
from .model import OmniModel, of_checkpoint

SHORTEST: Final = INPUT_HZ // 10
"""Samples of the shortest sound that has an embedding of its own."""
_MARKS: Final = 2
"""Positions around a picture, a slice or a sound."""
_FRAME: Final = 512
"""Positions kept free for the question and what stands around it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A second of a video: what is heard in it (``float32[n]`` at 16 kHz), and its newest picture."""

    sound: FloatPcm
    image: RgbImage | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about.  With moments every picture is seen as a whole; other pictures are also seen in slices."""

    images: Sequence[RgbImage] = ()
    sound: FloatPcm | None = None
    moments: Sequence[Moment] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a question about a video can hold: ``moments`` seconds, with pictures of one size if any are seen."""

    moments: int
    slices: SliceConfig
    sees: bool = True

    def fit(self, image: RgbImage) -> RgbImage:
        """``image`` at the size in which a moment is seen: larger ones need not be kept.

        Raises :class:`~.images.ImageError` for one that cannot be seen.
        """
        return fit_image(image, self.slices)


def read_limits(settings: OmniSettings, models: ModelsSettings | None = None, *, max_tokens: int = 1024) -> Limits:
    """The limits of a checkpoint, of which nothing is loaded, beside an answer of that length.

    Raises :class:`~..base.EngineError` without a checkpoint, or with one that is broken.
    """
    folder = checkpoint_folder(settings.model, models or ModelsSettings())
    config = OmniConfig.load(folder)
    sees = of_checkpoint(config, Checkpoint.open(folder), speaks=False).vision is not None
    moment = _sound_positions(config, INPUT_HZ) + (_picture_positions(config) if sees else 0)
    return Limits(max(config.max_position_embeddings - max_tokens - _FRAME, 0) // moment, config.slices, sees)


def ask(
    question: str,
    subject: Subject,
    settings: OmniSettings,
    models: ModelsSettings | None = None,
    *,
    max_tokens: int = 1024,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[str]:
    """Load the network, without its voice, and answer; the words come as they are made.

    Decoding is that of the settings, as far as a conversation of turns has it.  Raises :class:`~..base.EngineError` for
    what cannot be loaded and, before anything is, for a subject that is too long or that the checkpoint has no tower
    for.  Of a video, a checkpoint without eyes is told what is heard (see :attr:`Limits.sees`).
    """
    folder = checkpoint_folder(settings.model, models or ModelsSettings())
    config = OmniConfig.load(folder)
    most, needed = config.max_position_embeddings, count_positions(subject, config)
    if needed >= most:
        raise EngineError(
            f"what you ask about takes {needed} positions, and the network has {most}: ask about a shorter recording, "
            "or about fewer pictures"
        )
    whole = min(needed + len(question.encode()) + _FRAME + max_tokens, most)
    sees = bool(subject.images)
    hears = subject.sound is not None or any(len(moment.sound) >= SHORTEST for moment in subject.moments)
    model = load_model_for_question(settings, folder, progress, positions=whole, sees=sees, hears=hears)
    told = chat_settings(subject, settings, max_tokens)
    with torch.inference_mode():
        prompt = build(question, subject, model, told)
    pieces = chat.answer(model, prompt, told, SeededDraws(settings.seed))
    while True:
        # the mode is the thread's, and so must not last while whoever reads goes on with its own work
        with torch.inference_mode():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def chat_settings(subject: Subject, settings: OmniSettings, max_tokens: int) -> chat.ChatSettings:
    """How the question is laid out (a video with whole pictures and without numbers, as the published code does), and
    how the answer is decoded."""
    video = bool(subject.moments)
    return chat.ChatSettings(
        max_slices=1 if video else None,
        image_ids=False if video else None,
        joined=video,
        mode=settings.decoding.mode,
        temperature=settings.decoding.temperature,
        top_k=settings.decoding.top_k,
        top_p=settings.decoding.top_p,
        repetition_penalty=settings.decoding.repetition_penalty,
        max_tokens=max_tokens,
    )


def build(question: str, subject: Subject, model: OmniModel, told: chat.ChatSettings) -> chat.Prompt:
    """The question behind what it is about."""
    contents = [*_contents(subject, sees=model.vision is not None), question]
    return chat.build(model, [chat.Message("user", contents)], told)


def count_positions(subject: Subject, config: OmniConfig) -> int:
    """Positions that pictures and sounds take, by their sizes alone; words and numbers around them come on top."""
    picture = _picture_positions(config)
    count = 0
    for image in subject.images:
        height, width = image.shape[:2]
        cut = bool(height and width) and not subject.moments
        grid = choose_grid((width, height), config.slices, config.chat_slices) if cut else None
        count += picture * (1 if grid is None else 1 + grid[0] * grid[1])
    if subject.sound is not None:
        count += _sound_positions(config, len(subject.sound))
    for moment in subject.moments:
        if moment.image is not None and config.init_vision:
            count += picture
        if len(moment.sound) >= SHORTEST:
            count += _sound_positions(config, len(moment.sound))
    return count


def _picture_positions(config: OmniConfig) -> int:
    return config.query_num + _MARKS


def _sound_positions(config: OmniConfig, samples: int) -> int:
    return samples * (UNIT_STATES // config.audio_pool_step) // INPUT_HZ + _MARKS


def _contents(subject: Subject, *, sees: bool) -> Iterator[chat.Content]:
    """Pictures, then sound; a video second by second, without its pictures where nothing can see them."""
    for image in subject.images:
        yield chat.Picture(image)
    if subject.sound is not None:
        yield chat.Sound(subject.sound)
    for moment in subject.moments:
        if moment.image is not None and sees:
            yield chat.Picture(moment.image)
        if len(moment.sound) >= SHORTEST:
            yield chat.Sound(moment.sound)
