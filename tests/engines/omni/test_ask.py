"""What a question may be about, how it is laid out, and how its answer comes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from realtime_venus.engines.base import EngineError, NotEnoughMemory, RgbImage
from realtime_venus.engines.omni import ask as module
from realtime_venus.engines.omni import memory
from realtime_venus.engines.omni.ask import (
    Moment,
    Subject,
    ask,
    build,
    chat_settings,
    count_positions,
    read_limits,
)
from realtime_venus.engines.omni.config import OmniConfig
from realtime_venus.engines.omni.model import OmniModel
from realtime_venus.engines.omni_settings import OmniSettings
from realtime_venus.engines.store.settings import ModelsSettings

from ...kit import checkpoints, golden
from ...kit.omni_replay import model

SETTINGS = OmniSettings(model=golden.model_dir(), device="cpu", dtype="float32")
FRAME = 512
"""Positions kept for the question and what stands around it."""


def seen(height: int, width: int) -> RgbImage:
    return np.random.default_rng(height).integers(0, 255, (height, width, 3), np.uint8)


def seconds(count: int, image: RgbImage | None = None) -> Subject:
    heard = golden.microphone()
    return Subject(moments=[Moment(heard[16_000 * n : 16_000 * (n + 1)], image) for n in range(count)])


def config_of(**changed: Any) -> OmniConfig:
    return OmniConfig.load(golden.model_dir()).model_copy(update=changed)


def test_a_video_of_720_lines_takes_one_picture_a_second_without_numbers() -> None:
    golden.needs_eyes()
    subject, config = seconds(2, seen(720, 1280)), model().config
    with torch.inference_mode():
        prompt = build("What is it?", subject, model(), chat_settings(subject, SETTINGS, 5))
    assert [stop - start for start, stop in prompt.images] == [config.query_num] * 2
    assert not set(model().tokens.encode("<image_id>")) & set(prompt.ids)
    needed = count_positions(subject, config)
    assert needed == sum(stop - start + 2 for start, stop in (*prompt.images, *prompt.sounds))
    assert 0 < prompt.embeds.shape[1] - needed < FRAME


def test_pictures_alone_are_seen_in_slices_and_counted_so() -> None:
    golden.needs_eyes()
    subject = Subject(images=[seen(720, 1280), seen(60, 60)], sound=golden.microphone()[:40_000])
    config = config_of(chat_slices=9)
    cut = replace(model(), config=config)
    with torch.inference_mode():
        prompt = build("What is it?", subject, cut, chat_settings(subject, SETTINGS, 5))
    assert len(prompt.images) > 2
    needed = count_positions(subject, config)
    assert needed == sum(stop - start + 2 for start, stop in (*prompt.images, *prompt.sounds))
    assert 0 < prompt.embeds.shape[1] - needed < FRAME


def test_as_many_seconds_may_be_asked_about_as_fit(tmp_path: Path) -> None:
    golden.needs_eyes()
    config = OmniConfig.load(golden.model_dir())
    most, moment = config.max_position_embeddings, count_positions(seconds(1, seen(20, 20)), config)
    limits = read_limits(SETTINGS, max_tokens=1024)
    assert limits.moments == (most - 1024 - FRAME) // moment
    assert read_limits(SETTINGS, max_tokens=most).moments == 0

    def blind(changed: dict[str, Any]) -> None:
        changed["init_vision"] = False

    folder = checkpoints.copy(tmp_path, config=blind)
    without = read_limits(SETTINGS.model_copy(update={"model": folder}), max_tokens=1024)
    assert (limits.sees, without.sees) == (True, False)
    assert without.moments == (most - 1024 - FRAME) // count_positions(seconds(1), config)
    with pytest.raises(EngineError, match="venus models pull omni"):
        read_limits(OmniSettings(), ModelsSettings(cache_dir=tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("flag", "subject", "told"),
    [
        ("init_vision", Subject(images=[seen(20, 20)]), "sees nothing"),
        ("init_audio", Subject(sound=np.zeros(16_000, np.float32)), "hears nothing"),
        ("init_audio", seconds(1), "hears nothing"),
    ],
)
def test_what_the_checkpoint_has_no_tower_for_is_refused_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, subject: Subject, told: str
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("something was loaded")

    def without(changed: dict[str, Any]) -> None:
        changed[flag] = False

    monkeypatch.setattr(OmniModel, "load", never)
    folder = checkpoints.copy(tmp_path, config=without)
    with pytest.raises(EngineError, match=told):
        next(ask("What?", subject, SETTINGS.model_copy(update={"model": folder})))


def test_what_is_too_long_is_refused_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("something was loaded")

    monkeypatch.setattr(OmniModel, "load", never)
    config = OmniConfig.load(golden.model_dir())
    count = config.max_position_embeddings // count_positions(seconds(1), config) + 1
    moment = seconds(1).moments[0]
    with pytest.raises(EngineError, match=r"takes \d+ positions, and the network has \d+: ask about a shorter"):
        next(ask("What?", Subject(moments=[moment] * count), SETTINGS))


def test_the_cache_of_the_question_is_part_of_the_memory_that_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("something was loaded")

    asked: list[int] = []
    own = module.load_model_for_question

    def noted(*args: Any, positions: int, **options: Any) -> OmniModel:
        asked.append(positions)
        return own(*args, positions=positions, **options)

    def little(device: torch.device) -> int:
        return 1_000_000

    monkeypatch.setattr(OmniModel, "load", never)
    monkeypatch.setattr(memory, "free_memory", little)
    monkeypatch.setattr(module, "load_model_for_question", noted)
    subject, question = seconds(3), "What is that?"
    with pytest.raises(NotEnoughMemory, match="for its cache"):
        next(ask(question, subject, SETTINGS, max_tokens=100))
    needed = count_positions(subject, OmniConfig.load(golden.model_dir()))
    assert asked == [needed + len(question) + FRAME + 100]


def test_the_network_is_loaded_without_its_voice_and_whoever_reads_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[OmniModel] = []
    own = module.load_model_for_question

    def kept(*args: Any, **options: Any) -> OmniModel:
        made.append(own(*args, **options))
        return made[-1]

    monkeypatch.setattr(module, "load_model_for_question", kept)
    greedy = SETTINGS.model_copy(update={"decoding": SETTINGS.decoding.model_copy(update={"mode": "greedy"})})
    words: list[str] = []
    for piece in ask("What is it?", seconds(1), greedy, max_tokens=12):
        words.append(piece)
        assert not torch.is_inference_mode_enabled()
    assert len(words) > 1, "nothing was tested"
    assert [(one.talker, one.token2wav) for one in made] == [(None, None)]
    assert words == list(ask("What is it?", seconds(1), greedy, max_tokens=12))
