from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from realtime_venus.engines.base import EngineError, NotEnoughMemory
from realtime_venus.engines.omni.capacity import (
    choose_device,
    choose_dtype,
    read_need,
    read_need_of_question,
    voice_files,
)
from realtime_venus.engines.omni.config import CheckpointError
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.duplex_settings import DuplexSettings
from realtime_venus.engines.omni.memory import Need
from realtime_venus.engines.omni.model import TOKEN2WAV, OmniModel
from realtime_venus.engines.omni.voice import enroll_file
from realtime_venus.engines.omni_settings import OmniSettings
from torch import Tensor

from ...kit import checkpoints, golden
from .test_model import RELEASED

SETTINGS = OmniSettings(positions=512, flow_steps=3)


def held(*roots: object) -> int:
    """Bytes of all tensors that can be reached from ``roots`` by attributes, lists and dicts, each storage once."""
    seen: set[int] = set()
    storages: dict[int, int] = {}
    todo = list(roots)
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            storages[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        elif isinstance(one, dict):
            todo += list(one.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        elif isinstance(one, list | tuple):
            todo += list(one)  # pyright: ignore[reportUnknownArgumentType]
        elif type(one).__module__.startswith("realtime_venus.") and not isinstance(one, torch.nn.Module | OmniModel):
            names = getattr(one, "__slots__", ()) or vars(one)
            todo += [getattr(one, name) for name in names if hasattr(one, name)]
    return sum(storages.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_it_says_is_what_is_held(dtype: torch.dtype) -> None:
    folder = golden.model_dir()
    need = read_need(folder, SETTINGS, dtype)
    model = OmniModel.load(folder, dtype=dtype, steps=SETTINGS.flow_steps)
    modules = (model.thinker, model.vision, model.resampler, model.encoder, model.projector, model.talker)
    weights = sum(one.nbytes for module in modules if module is not None for one in module.parameters())
    assert need.weights == pytest.approx(weights, rel=0.01)
    with torch.inference_mode():
        voice = enroll_file(voice_files(folder)[0], folder / TOKEN2WAV)
        assert model.token2wav is not None
        base = model.token2wav.base(voice)
        duplex = Duplex(model, DuplexSettings(positions=SETTINGS.positions))
        duplex.prepare("<|im_start|>system\n", "<|im_end|>", voice, base)
    assert duplex.voice.speech is not None
    assert need.caches["thinker"] == duplex.cache.bytes
    assert need.caches["talker"] == duplex.voice.speech.talker.cache.bytes
    assert need.caches["audio encoder"] == pytest.approx(held(duplex.input), rel=0.05)
    assert need.caches["token2wav"] == pytest.approx(
        held(duplex.voice.speech.stream.flow, duplex.voice.speech.stream.encoder), rel=0.05
    )


def test_the_released_sizes_are_those_of_the_specification(tmp_path: Path) -> None:
    """From the headers alone: the files here hold names and shapes of the release, and no weights."""
    layout: dict[str, dict[str, list[int]]] = json.loads(
        (golden.folder() / "stages" / "full_size_layout.json").read_text(encoding="utf-8")
    )
    stored = layout["main"]

    def released(config: dict[str, Any]) -> None:
        config.clear()
        config.update(RELEASED)

    folder = checkpoints.copy(tmp_path, weights={}, config=released)
    headers_only(folder / "model.safetensors", stored)
    need = read_need(folder, OmniSettings(positions=8192), torch.bfloat16)
    assert need.weights / 1e9 == pytest.approx(18.7, abs=0.2)
    assert need.caches["thinker"] == 147_456 * 8192
    assert need.caches["audio encoder"] / 1e6 == pytest.approx(147, abs=1)
    assert need.sees
    assert need.sessions(139 * 2**30) > 50


def headers_only(path: Path, shapes: dict[str, list[int]]) -> None:
    """A safetensors file of bfloat16 tensors whose bytes are a hole in the file."""
    header: dict[str, Any] = {}
    at = 0
    for name, shape in shapes.items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


def test_without_eyes_there_are_fewer_weights_and_the_same_caches(tmp_path: Path) -> None:
    golden.needs_eyes()
    kept = {name: one for name, one in checkpoints.tensors().items() if not name.startswith(("vpm.", "resampler."))}
    folder = checkpoints.copy(tmp_path, weights=kept, assets=True)
    whole, blind = (read_need(one, SETTINGS, torch.bfloat16) for one in (golden.model_dir(), folder))
    assert blind.weights < whole.weights
    assert (blind.caches, blind.sees) == (whole.caches, False)


def test_a_question_needs_one_cache_and_no_voice() -> None:
    folder = golden.model_dir()
    need = read_need_of_question(folder, 700, torch.float32)
    model = OmniModel.load(folder, speaks=False)
    assert (model.talker, model.token2wav) == (None, None)
    modules = (model.thinker, model.vision, model.resampler, model.encoder, model.projector)
    assert need.weights == sum(one.nbytes for module in modules if module is not None for one in module.parameters())
    assert need.caches == {"thinker": model.thinker.cache(700).bytes}
    assert need.assets == 0
    whole = read_need(folder, SETTINGS, torch.float32)
    assert need.total(1) < whole.total(1)
    with pytest.raises(NotEnoughMemory, match=r"for its weights, [\d,]+ [kM]B for its cache and about"):
        need.check(need.total(1) - 1, 1, "cpu")


def test_how_many_sessions_fit() -> None:
    need = Need(weights=1000, assets=200, caches={"a": 30, "b": 70})
    base = 1000 + 200 + need.working
    assert need.total(3) == base + 300
    assert [need.sessions(base + more) for more in (-1, 0, 99, 100, 350)] == [-1, 0, 0, 1, 3]
    need.check(base + 300, 3, "cpu")


def test_too_little_memory_says_what_is_needed_and_what_fits() -> None:
    need = Need(weights=19_000_000_000, assets=1_000_000_000, caches={"a": 1_500_000_000})
    with pytest.raises(NotEnoughMemory, match=r"20,000 MB .* 1,500 MB for each of 4 .* cuda.*MAX_SESSIONS=2 fits"):
        need.check(need.total(2), 4, "cuda")
    with pytest.raises(NotEnoughMemory, match="VENUS_OMNI__DTYPE=bfloat16"):
        need.check(need.total(0), 1, "cpu")


def test_what_is_no_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_need(tmp_path, SETTINGS, torch.float32)


def test_device_and_type_follow_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, device, dtype in ((False, "cpu", torch.float32), (True, "cuda", torch.bfloat16)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        chosen = choose_device(OmniSettings())
        assert (chosen.type, choose_dtype(OmniSettings(), chosen)) == (device, dtype)
    assert choose_device(OmniSettings(device="cpu")).type == "cpu"
    assert choose_dtype(OmniSettings(dtype="float16"), torch.device("cuda")) == torch.float16
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match="--device cpu"):
        choose_device(OmniSettings(device="cuda"))
