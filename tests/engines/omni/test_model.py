"""Whole checkpoints: what there is of one is loaded, and what is wrong with it is said before it is."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from realtime_venus.engines.base import EngineError, NotEnoughMemory
from realtime_venus.engines.omni import model as loading
from realtime_venus.engines.omni.checkpoint import Checkpoint
from realtime_venus.engines.omni.config import CheckpointError, OmniConfig
from realtime_venus.engines.omni.model import OmniModel, build, of_checkpoint
from torch import Tensor

from ...kit import checkpoints, golden


@cache
def recorded() -> OmniModel:
    return OmniModel.load(golden.model_dir())


def without(*prefixes: str) -> dict[str, Tensor]:
    return {name: each for name, each in checkpoints.tensors().items() if not name.startswith(prefixes)}


def every(model: OmniModel) -> dict[str, Tensor]:
    """All parameters under their names in the checkpoint."""
    modules = {
        "llm.": model.thinker,
        "vpm.": model.vision,
        "resampler.": model.resampler,
        "apm.": model.encoder,
        "audio_projection_layer.": model.projector,
        "tts.": model.talker,
    }
    return {
        prefix + name: each
        for prefix, module in modules.items()
        if module is not None
        for name, each in module.state_dict().items()
    }


def test_every_stored_tensor_is_in_its_place() -> None:
    model, stored = recorded(), checkpoints.tensors()
    loaded = every(model)
    for name, each in loaded.items():
        if name in stored:
            assert torch.equal(each, stored[name].float()), name
    left = {name.partition(".parametrizations")[0] for name in stored} - {
        name.removesuffix(".weight") for name in loaded
    }
    assert {name for name in left if name not in loaded} == {"tts.model.embed_tokens.weight"} & set(stored)
    assert (model.device, model.dtype) == (torch.device("cpu"), torch.float32)
    assert model.token2wav is not None


def test_the_head_of_the_talker_is_folded() -> None:
    stored, talker = checkpoints.tensors(), recorded().talker
    assert talker is not None
    gain, direction = (stored[f"tts.head_code.0.parametrizations.weight.original{part}"].float() for part in (0, 1))
    expected = gain * direction / direction.square().sum(1, keepdim=True).sqrt()
    torch.testing.assert_close(every(recorded())["tts.head_code.0.weight"], expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types(dtype: torch.dtype) -> None:
    model = OmniModel.load(golden.model_dir(), dtype=dtype)
    stored = checkpoints.tensors()
    for name, each in every(model).items():
        assert each.dtype == dtype
        if name in stored:
            assert torch.equal(each, stored[name].to(dtype)), name


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int]] = []
    OmniModel.load(golden.model_dir(), progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len({total for _, total in seen}) == 1
    assert seen[-1][0] == seen[-1][1] > 0


TOWERS = {
    "vision": (("vpm.", "resampler."), ("vision", "resampler"), "init_vision"),
    "audio": (("apm.", "audio_projection_layer."), ("encoder", "projector"), "init_audio"),
    "talker": (("tts.",), ("talker", "token2wav"), "init_tts"),
}


@pytest.mark.parametrize("how", ["flag", "tensors", "both", "section"])
@pytest.mark.parametrize("tower", TOWERS)
def test_a_tower_may_be_absent(tmp_path: Path, tower: str, how: str) -> None:
    prefixes, fields, flag = TOWERS[tower]
    section = {"vision": "vision_config", "audio": "audio_config", "talker": "tts_config"}[tower]

    def change(config: dict[str, Any]) -> None:
        if how in ("flag", "both"):
            config[flag] = False
        if how == "section":
            del config[section]

    weights = checkpoints.tensors() if how == "flag" else without(*prefixes)
    model = OmniModel.load(checkpoints.copy(tmp_path, weights=weights, config=change, assets=True))
    present = {
        name: getattr(model, name) for name in ("vision", "resampler", "encoder", "projector", "talker", "token2wav")
    }
    blind: set[str] = set() if golden.sees() else set(TOWERS["vision"][1])
    assert {name for name, module in present.items() if module is None} == {*fields, *blind}


def test_a_network_without_files_of_a_voice_does_not_speak(tmp_path: Path) -> None:
    model = OmniModel.load(checkpoints.copy(tmp_path))
    assert model.talker is not None
    assert model.token2wav is None


def test_half_a_tower_is_an_error(tmp_path: Path) -> None:
    golden.needs_eyes()
    folder = checkpoints.copy(tmp_path, weights=without("resampler."))
    with pytest.raises(CheckpointError, match=r"resampler\.query"):
        OmniModel.load(folder)


@pytest.mark.parametrize("kind", ["missing", "shape", "unknown"])
def test_names_and_shapes_are_checked_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In the last tower too: reading those before it takes minutes."""

    def never(*_: object, **__: object) -> None:
        pytest.fail("something was read")

    name = "tts.emb_text.weight"
    stored = dict(checkpoints.tensors())
    if kind == "missing":
        del stored[name]
    elif kind == "shape":
        stored[name] = stored[name][:-1].clone()
    else:
        name = "tts.extra.weight"
        stored[name] = torch.zeros(2)
    folder = checkpoints.copy(tmp_path, weights=stored)
    monkeypatch.setattr(Checkpoint, "read", never)
    with pytest.raises(CheckpointError, match=name):
        OmniModel.load(folder)


def test_a_tower_without_its_section_is_an_error(tmp_path: Path) -> None:
    golden.needs_eyes()
    folder = checkpoints.copy(tmp_path, config=lambda config: config.pop("vision_config"))
    with pytest.raises(CheckpointError, match="vision_config"):
        OmniModel.load(folder)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("missing", [0, 1])
def test_the_last_vision_block_may_be_stored_or_not(tmp_path: Path, drop: bool, missing: int) -> None:
    golden.needs_eyes()
    weights = checkpoints.tensors()
    blocks = Checkpoint.open(golden.model_dir()).blocks("vpm.encoder.layers")
    head = "vpm.encoder.layers."
    more = {
        name.replace(f"{head}0.", f"{head}{blocks}."): each.clone()
        for name, each in weights.items()
        if name.startswith(f"{head}0.")
    }
    weights |= {} if missing else more

    def change(config: dict[str, Any]) -> None:
        config["drop_vision_last_layer"] = drop
        config["vision_config"]["num_hidden_layers"] = blocks + 1

    folder = checkpoints.copy(tmp_path, weights=weights, config=change)
    vision = OmniModel.load(folder).vision
    assert vision is not None
    assert len(vision.encoder.layers) == (blocks if missing or drop else blocks + 1)


def test_a_checkpoint_of_another_network(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path, weights={"model.layers.0.weight": torch.ones(2)})
    with pytest.raises(CheckpointError, match=r"another network"):
        OmniModel.load(folder)


def test_a_configuration_of_another_size(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path, config=lambda config: config.update(intermediate_size=96))
    with pytest.raises(CheckpointError, match=r"llm\.model\.layers\.0\.mlp\..*shape"):
        OmniModel.load(folder)


def test_a_tokenizer_of_another_network(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path)
    checkpoints.edit(folder / "tokenizer.json", lambda content: content["added_tokens"].clear())
    with pytest.raises(CheckpointError, match="duplex protocol"):
        OmniModel.load(folder)


def test_tensors_of_no_part_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = checkpoints.copy(tmp_path, weights=checkpoints.tensors() | {"extra.weight": torch.ones(1)})
    OmniModel.load(folder)
    assert "extra.weight" in caplog.text


@pytest.mark.parametrize("name", ["config.yaml", "hift_original.pt"])
def test_vocoder_files_of_a_later_release_are_refused(tmp_path: Path, name: str) -> None:
    folder = checkpoints.copy(tmp_path, assets=True)
    (folder / "assets" / "token2wav" / name).touch()
    with pytest.raises(CheckpointError, match=r"1\.0\.7"):
        OmniModel.load(folder)


@pytest.mark.parametrize("name", ["flow.yaml", "flow.pt", "hift.pt"])
def test_a_missing_file_of_the_voice_is_named(tmp_path: Path, name: str) -> None:
    folder = checkpoints.copy(tmp_path, assets=True)
    (folder / "assets" / "token2wav" / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        OmniModel.load(folder)


def test_a_talker_and_a_speech_decoder_of_two_checkpoints_are_refused(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path, assets=True)
    path = folder / "assets" / "token2wav" / "flow.yaml"
    path.chmod(0o644)
    path.write_text(re.sub(r"vocab_size: \d+", "vocab_size: 99", path.read_text()))
    with pytest.raises(CheckpointError, match=r"flow\.yaml knows 99"):
        OmniModel.load(folder)


def test_memory_is_checked_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("something was loaded")

    def little(device: torch.device) -> int:
        return 10_000_000

    monkeypatch.setattr(loading, "free_memory", little)
    monkeypatch.setattr(Checkpoint, "load_into", never)
    with pytest.raises(NotEnoughMemory, match=r"for its weights and about .* 10 MB are free on cpu.*bfloat16"):
        OmniModel.load(golden.model_dir())


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match="no CUDA device"):
        OmniModel.load(golden.model_dir(), device="cuda")


# -- the released sizes ---------------------------------------------------------------------------------------------

RELEASED = {
    "vocab_size": 151_748,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rope_theta": 1_000_000,
    "vision_config": {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
    },
    "audio_config": {
        "d_model": 1024,
        "encoder_layers": 24,
        "encoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
    },
    "tts_config": {
        "llm_dim": 4096,
        "num_text_tokens": 152_064,
        "num_audio_tokens": 6562,
        "audio_bos_token_id": 151_687,
        "text_eos_token_id": 151_692,
    },
}


def test_every_name_and_shape_at_the_released_sizes() -> None:
    layout: dict[str, list[int]] = dict(golden.record("full_size_layout")["main"])
    config = OmniConfig.model_validate(RELEASED)
    built: dict[str, list[int]] = {}
    for prefix, module, _ in build(config, vision_layers=27).parts():
        built |= {prefix + name: list(each.shape) for name, each in module.state_dict().items()}
    head = "tts.head_code.0.parametrizations.weight.original"
    gain, direction = layout.pop(f"{head}0"), layout.pop(f"{head}1")
    assert (gain, direction) == ([direction[0], 1], built.pop("tts.head_code.0.weight"))
    layout.pop("tts.model.embed_tokens.weight", None)
    assert built == layout


def test_the_recorded_checkpoint_has_the_layout_of_the_release() -> None:
    golden.needs_eyes()
    released = {name for name in golden.record("full_size_layout")["main"] if ".layers." not in name}
    assert {name for name in Checkpoint.open(golden.model_dir()).names if ".layers." not in name} == released


def test_nothing_is_held_before_it_is_loaded() -> None:
    network = of_checkpoint(OmniConfig.load(golden.model_dir()), Checkpoint.open(golden.model_dir()))
    assert all(each.is_meta for _, module, _ in network.parts() for each in module.state_dict().values())
