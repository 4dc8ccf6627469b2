"""What the engine cannot load, and what it says then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from realtime_venus.engines import catalog
from realtime_venus.engines.base import EngineError, NotEnoughMemory
from realtime_venus.engines.omni import capacity
from realtime_venus.engines.omni.config import CheckpointError
from realtime_venus.engines.omni.engine import load_model
from realtime_venus.engines.omni.model import OmniModel
from realtime_venus.engines.omni.voice import VoiceError
from realtime_venus.engines.omni_settings import OmniSettings, overridden
from realtime_venus.engines.store.settings import ModelsSettings

from ...kit import checkpoints, golden
from ...kit.omni_engine import SETTINGS, UNIT, loaded


@pytest.fixture
def cache(tmp_path: Path) -> ModelsSettings:
    return ModelsSettings(cache_dir=tmp_path / "cache")


def test_the_catalog_makes_it_with_its_settings_and_without() -> None:
    made = catalog.create("omni", OmniSettings(max_sessions=3))
    assert (made.name, made.unit_ms, made.max_sessions) == ("omni", 1000, 3)
    with pytest.raises(EngineError, match="takes CascadeSettings, not OmniSettings"):
        catalog.create("cascade", OmniSettings())


async def test_without_a_checkpoint_it_says_how_to_get_one(cache: ModelsSettings, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="venus models pull omni"):
        async with loaded(SETTINGS, cache):
            pass
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "config.json").touch()
    with pytest.raises(EngineError, match=r"no config\.json; take one of its folders: inner"):
        async with loaded(overridden(SETTINGS, model=tmp_path), cache):
            pass


def missing_shard(folder: Path) -> None:
    max(folder.glob("*.safetensors")).unlink()


def cut_shard(folder: Path) -> None:
    path = max(folder.glob("*.safetensors"))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-100])


def foreign(folder: Path) -> None:
    checkpoints.edit(folder / "config.json", lambda config: config.pop("vocab_size"))


def foreign_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.chmod(0o644)
    path.write_text(path.read_text(encoding="utf-8").replace("<|listen|>", "<|hark|>"), encoding="utf-8")


def no_voice(folder: Path) -> None:
    for path in (folder / "assets").glob("*.wav"):
        path.unlink()


def no_assets(folder: Path) -> None:
    for path in (folder / "assets" / "token2wav").iterdir():
        path.unlink()
    (folder / "assets" / "token2wav").rmdir()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (missing_shard, "safetensors"),
        (cut_shard, "safetensors"),
        (foreign, "vocab_size"),
        (foreign_tokenizer, "listen"),
        (no_voice, "VENUS_OMNI__VOICE"),
        (no_assets, "token2wav"),
    ],
)
async def test_a_checkpoint_that_is_not_right_is_one_clear_error(
    cache: ModelsSettings, tmp_path: Path, harm: Any, told: str
) -> None:
    folder = checkpoints.copy(tmp_path / "model", assets=True)
    harm(folder)
    with pytest.raises(CheckpointError, match=told):
        async with loaded(overridden(SETTINGS, model=folder), cache):
            pass


async def test_a_voice_that_is_too_short_is_refused_while_loading(cache: ModelsSettings, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "short.wav", np.ones(UNIT) * 0.1, UNIT)
    settings = overridden(SETTINGS, model=golden.model_dir(), voice=tmp_path / "short.wav")
    with pytest.raises(VoiceError, match="3 s"):
        async with loaded(settings, cache):
            pass


async def test_too_little_memory_is_told_before_anything_is_loaded(
    cache: ModelsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("something was loaded")

    monkeypatch.setattr(OmniModel, "load", never)
    settings = overridden(SETTINGS, model=golden.model_dir())
    need = capacity.read_need(golden.model_dir(), settings, torch.float32)

    def enough_for_one(device: torch.device) -> int:
        return need.total(1)

    monkeypatch.setattr(capacity, "free_memory", enough_for_one)
    with pytest.raises(NotEnoughMemory, match=r"2 sessions .* are free on cpu.*VENUS_OMNI__MAX_SESSIONS=1 fits"):
        async with loaded(settings, cache):
            pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
async def test_cuda_is_refused_where_there_is_none(cache: ModelsSettings) -> None:
    settings = overridden(SETTINGS, model=golden.model_dir(), device="cuda")
    with pytest.raises(EngineError, match="no CUDA device"):
        async with loaded(settings, cache):
            pass


def test_weights_are_read_with_progress(cache: ModelsSettings) -> None:
    seen: list[tuple[int, int]] = []
    settings = overridden(SETTINGS, model=golden.model_dir(), dtype="bfloat16")
    with torch.inference_mode():
        folder, model = load_model(settings, cache, lambda done, total: seen.append((done, total)), sessions=1)
    assert (folder, model.dtype) == (golden.model_dir(), torch.bfloat16)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1] > 0
