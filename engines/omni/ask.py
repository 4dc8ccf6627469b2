"""One question about a recording, a video or pictures, answered in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from ..base import INPUT_HZ, FloatPcm, RgbImage
from ..omni_settings import OmniSettings
from ..store.settings import ModelsSettings
from . import chat
from .draws import SeededDraws
from .engine import load_model

SHORTEST: Final = INPUT_HZ // 10
"""Samples of the shortest sound that has an embedding of its own."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A second of a video: what is heard in it (``float32[n]`` at 16 kHz), and its newest picture."""

    sound: FloatPcm
    image: RgbImage | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about."""

    images: Sequence[RgbImage] = ()
    sound: FloatPcm | None = None
    moments: Sequence[Moment] = ()


def ask(
    question: str,
    subject: Subject,
    settings: OmniSettings,
    models: ModelsSettings | None = None,
    *,
    max_tokens: int = 1024,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[str]:
    """Load the network and answer; the words come as they are made.

    Decoding is that of the settings, as far as a conversation of turns has it.  Raises :class:`~..base.EngineError` for
    what cannot be loaded, for a subject that the checkpoint has no tower for, and for one that is too long.
    """
    _, model = load_model(settings, models or ModelsSettings(), progress, sessions=0)
    told = chat.ChatSettings(
        mode=settings.decoding.mode,
        temperature=settings.decoding.temperature,
        top_k=settings.decoding.top_k,
        top_p=settings.decoding.top_p,
        repetition_penalty=settings.decoding.repetition_penalty,
        max_tokens=max_tokens,
        joined=bool(subject.moments),
    )
    with torch.inference_mode():
        contents = [*_contents(subject, sees=model.vision is not None), question]
        prompt = chat.build(model, [chat.Message("user", contents)], told)
        yield from chat.answer(model, prompt, told, SeededDraws(settings.seed))


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
