"""What the engine cannot load, and what it says then."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from realtime_venus.engines import catalog
from realtime_venus.engines.base import EngineError, NotEnoughMemory, Speech
from realtime_venus.engines.omni import capacity, memory
from realtime_venus.engines.omni import engine as module
from realtime_venus.engines.omni.config import CheckpointError
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.engine import OmniEngine, load_model, made_by
from realtime_venus.engines.omni.model import OmniModel
from realtime_venus.engines.omni.noises import FreshNoise
from realtime_venus.engines.omni.token2wav.noise import SeededNoise
from realtime_venus.engines.omni.voice import VoiceError
from realtime_venus.engines.omni_settings import OmniSettings, overridden
from realtime_venus.engines.store.settings import ModelsSettings

from ...kit import checkpoints, golden
from ...kit.omni_engine import FAST, SETTINGS, UNIT, VOICE_FILE, loaded, seconds, talking


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


async def test_a_voice_that_is_too_short_is_refused_before_the_weights_are_read(
    cache: ModelsSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("something was loaded")

    monkeypatch.setattr(OmniModel, "load", never)
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

    monkeypatch.setattr(memory, "free_memory", enough_for_one)
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


# -- what the settings reach ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 3])
def test_the_seed_reaches_the_noise_of_the_speech_decoder(cache: ModelsSettings, seed: int) -> None:
    settings = overridden(SETTINGS, model=golden.model_dir(), seed=seed)
    _, model = load_model(settings, cache, None, sessions=1)
    assert model.token2wav is not None
    own = SeededNoise(seed, mel=model.token2wav.flow.config.output_size)
    assert torch.equal(model.token2wav.noise.flow(), own.flow())
    assert torch.equal(model.token2wav.noise.vocoder(96, 2), own.vocoder(96, 2))


@pytest.mark.parametrize("behaviour", ["hub", "demo"])
def test_published_behaviours_have_noise_without_a_seed(cache: ModelsSettings, behaviour: str) -> None:
    _, model = load_model(overridden(SETTINGS, model=golden.model_dir(), behaviour=behaviour), cache, None, sessions=1)
    assert model.token2wav is not None
    assert isinstance(model.token2wav.noise, FreshNoise)


async def test_another_seed_sounds_otherwise_where_the_words_are_the_same(cache: ModelsSettings) -> None:
    heard: list[bytes] = []
    for seed in (0, 1):
        settings = overridden(
            SETTINGS, model=golden.model_dir(), seed=seed, decoding={"mode": "greedy", "tokens_per_unit": 8}
        )
        async with loaded(settings, cache) as engine, talking(engine) as talk:
            await talk.units(seconds(0, 2))
        heard.append(b"".join(event.pcm.tobytes() for event in talk.said if isinstance(event, Speech)))
    assert heard[0] != heard[1]
    assert b"" not in heard


def test_a_snapshot_is_of_one_network_though_its_files_are_alike(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path / "model")
    before = made_by(folder, SETTINGS, torch.float32)
    path = max(folder.glob("*.safetensors"))
    path.chmod(0o644)
    weights = path.read_bytes()
    trained = np.frombuffer(weights, np.uint8) ^ (np.arange(len(weights)) > len(weights) // 2).astype(np.uint8)
    path.write_bytes(trained.tobytes())
    assert made_by(folder, SETTINGS, torch.float32) != before


async def test_a_snapshot_is_of_one_voice_though_its_name_is_the_same(cache: ModelsSettings, tmp_path: Path) -> None:
    told: list[bytes] = []
    sound, rate = soundfile.read(VOICE_FILE, dtype="float32")
    for loudness in (1.0, 0.5):
        soundfile.write(tmp_path / "mine.wav", sound * loudness, rate)
        settings = overridden(SETTINGS, model=golden.model_dir(), voice=tmp_path / "mine.wav")
        async with loaded(settings, cache) as engine, talking(engine) as talk:
            await talk.units(seconds(0, 1))
            told.append(talk.session.snapshot())
            if len(told) == 2:
                with pytest.raises(ValueError, match="of another voice"):
                    talk.session.restore(told[0])


def test_a_snapshot_is_of_one_setting_of_all_that_shapes_a_session() -> None:
    names: set[str] = set()
    for changed in (
        {},
        {"overlap_units": 2},
        {"context": {"window_s": 60}},
        {"positions": 1024},
        {"behaviour": "hub"},
        {"flow_steps": 3},
    ):
        names.add(made_by(golden.model_dir(), overridden(SETTINGS, **changed), torch.float32))
    names.add(made_by(golden.model_dir(), SETTINGS, torch.bfloat16))
    assert len(names) == 7
    same = overridden(SETTINGS, max_sessions=7, close_timeout_s=1.0)
    assert made_by(golden.model_dir(), same, torch.float32) in names


# -- one thread, one loading, one end ------------------------------------------------------------------------------


async def test_whoever_asks_while_it_loads_waits_for_the_same(
    cache: ModelsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[int] = []

    def counted(*args: Any, **options: Any) -> tuple[Path, OmniModel]:
        loads.append(threading.get_ident())
        return load_model(*args, **options)

    monkeypatch.setattr(module, "load_model", counted)
    engine = OmniEngine(overridden(SETTINGS, model=golden.model_dir()), cache)
    await asyncio.gather(engine.load(), engine.load(), engine.load())
    await engine.load()
    assert len(loads) == 1
    await engine.close()


async def test_what_could_not_be_loaded_may_be_tried_again(cache: ModelsSettings, tmp_path: Path) -> None:
    engine = OmniEngine(overridden(SETTINGS, model=tmp_path / "model"), cache)
    for done in await asyncio.gather(engine.load(), engine.load(), return_exceptions=True):
        assert isinstance(done, EngineError)
    checkpoints.copy(tmp_path / "model", assets=True)
    await engine.load()
    async with talking(engine) as talk:
        await talk.units(seconds(0, 1))
    await engine.close()


async def test_closed_while_it_loads_it_is_not_loaded(cache: ModelsSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def slow(*args: Any, **options: Any) -> tuple[Path, OmniModel]:
        reached.set()
        assert go_on.wait(30)
        return load_model(*args, **options)

    monkeypatch.setattr(module, "load_model", slow)
    engine = OmniEngine(overridden(SETTINGS, model=golden.model_dir(), close_timeout_s=0.1), cache)
    loading = asyncio.create_task(engine.load())
    assert await asyncio.to_thread(reached.wait, 30)
    await engine.close()  # which has a deadline
    go_on.set()
    with pytest.raises(EngineError, match="closed while it loaded"):
        await loading
    with pytest.raises(EngineError, match=r"await load\(\)"):
        engine.open(FAST)


async def test_closing_has_a_deadline_whatever_is_being_computed(
    cache: ModelsSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reached, go_on = threading.Event(), threading.Event()
    prepare = Duplex.prepare

    def slow(*args: Any, **options: Any) -> None:
        reached.set()
        assert go_on.wait(30)
        prepare(*args, **options)

    engine = OmniEngine(overridden(SETTINGS, model=golden.model_dir(), close_timeout_s=0.1), cache)
    await engine.load()
    monkeypatch.setattr(Duplex, "prepare", slow)
    session = engine.open(FAST)
    assert await asyncio.to_thread(reached.wait, 30)
    await engine.close()
    assert "still computes after it was closed" in caplog.text
    assert [event async for event in session.events()] == []
    go_on.set()
    await engine.close()


async def test_a_session_whose_buffers_cannot_be_taken_back_gives_its_place_back(
    cache: ModelsSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = overridden(SETTINGS, model=golden.model_dir(), max_sessions=1)
    async with loaded(settings, cache) as engine:
        async with talking(engine) as talk:
            await talk.units(seconds(0, 1))
            with monkeypatch.context() as patch:

                def broken(core: Duplex) -> None:
                    raise RuntimeError("odd")

                patch.setattr(Duplex, "reset", broken)
                await talk.close()
        assert "could not be taken back" in caplog.text
        async with talking(engine) as again:
            await again.units(seconds(0, 1))
