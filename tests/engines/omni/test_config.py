"""What the engine reads of ``config.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from realtime_venus.engines.omni.config import CheckpointError, OmniConfig
from realtime_venus.engines.omni.talker_sampler import TalkerSettings

from ...kit import golden

SECTIONS = {"vision": "vision_config", "audio": "audio_config", "tts": "tts_config"}


def recorded() -> dict[str, Any]:
    return json.loads((golden.model_dir() / "config.json").read_text())


def written(folder: Path, fields: object) -> Path:
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


def test_every_field_is_that_of_the_file() -> None:
    config, fields = OmniConfig.load(golden.model_dir()), recorded()
    for name in set(fields) - {*SECTIONS.values(), "slice_config"}:
        assert getattr(config, name) == fields[name], name
    for name, section in SECTIONS.items():
        for key, value in fields[section].items():
            assert getattr(getattr(config, name), key) == value, key


def test_slices_come_from_both_files() -> None:
    config = OmniConfig.load(golden.model_dir())
    pictures = json.loads((golden.model_dir() / "preprocessor_config.json").read_text())
    assert config.slices.max_slice_nums == recorded()["slice_config"]["max_slice_nums"]
    assert config.chat_slices == pictures["max_slice_nums"]
    assert list(config.slices.norm_mean) == pictures["norm_mean"]
    assert list(config.slices.norm_std) == pictures["norm_std"]


def test_without_the_preprocessor_file_the_published_values_hold(tmp_path: Path) -> None:
    config = OmniConfig.load(written(tmp_path, recorded() | {"slice_config": None}))
    assert (config.chat_slices, config.slices.norm_mean, config.slices.scale_resolution) == (9, (0.5, 0.5, 0.5), 448)


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    fields = recorded() | {"something_new": {"a": 1}}
    fields["tts_config"]["other"] = 2
    config = OmniConfig.load(written(tmp_path, fields))
    assert config.model_extra is not None
    assert config.model_extra["something_new"] == {"a": 1}
    assert config.tts is not None
    assert config.tts.model_extra is not None
    assert config.tts.model_extra["other"] == 2


def test_a_section_may_be_missing(tmp_path: Path) -> None:
    fields = {name: value for name, value in recorded().items() if name not in SECTIONS.values()}
    config = OmniConfig.load(written(tmp_path, fields))
    assert (config.vision, config.audio, config.tts) == (None, None, None)


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        OmniConfig.load(tmp_path)


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize("content", ["", "{", "[1]", "\x00", DEEP, "[" * 100_000], ids=range(6))
@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json"])
def test_what_is_no_configuration(tmp_path: Path, name: str, content: str) -> None:
    (written(tmp_path, recorded()) / name).write_text(content)
    with pytest.raises(CheckpointError, match=rf"{name} .*fetch the file again"):
        OmniConfig.load(tmp_path)


def test_what_the_file_says_of_the_talkers_sampling_decides_nothing(tmp_path: Path) -> None:
    """It is kept, and the published duplex decoder does not read it either."""
    fields = recorded()
    fields["tts_config"] |= {"temperature": 0.1, "repetition_penalty": 2.0}
    tts = OmniConfig.load(written(tmp_path, fields)).tts
    assert tts is not None
    assert tts.model_extra is not None
    assert tts.model_extra["temperature"] == 0.1
    assert (TalkerSettings().temperature, TalkerSettings().repetition_penalty) == (0.8, 1.05)
    assert not {"temperature", "repetition_penalty"} & set(type(tts).model_fields)


@pytest.mark.parametrize("name", ["hidden_size", "num_key_value_heads", "vocab_size", "rope_theta"])
def test_a_size_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    fields = recorded()
    del fields[name]
    with pytest.raises(CheckpointError, match=name):
        OmniConfig.load(written(tmp_path, fields))


def test_a_size_that_is_missing_in_a_section_is_named(tmp_path: Path) -> None:
    fields = recorded()
    del fields["tts_config"]["num_text_tokens"]
    with pytest.raises(CheckpointError, match="num_text_tokens"):
        OmniConfig.load(written(tmp_path, fields))


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": -1},
        {"hidden_size": "wide"},
        {"tie_word_embeddings": True},
        {"attention_bias": True},
        {"hidden_act": "relu"},
        {"num_key_value_heads": recorded()["num_attention_heads"] + 1},
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    ],
    ids=str,
)
def test_what_is_not_built_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        OmniConfig.load(written(tmp_path, recorded() | change))


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("vision_config", "num_attention_heads", 5),
        ("vision_config", "hidden_act", "relu"),
        ("vision_config", "image_size", 1),
        ("vision_config", "num_hidden_layers", 10**9),
        ("audio_config", "encoder_attention_heads", 3),
        ("audio_config", "activation_function", "relu"),
        ("audio_config", "scale_embedding", True),
        ("audio_config", "encoder_layers", 1025),
        ("tts_config", "audio_bos_token_id", 10**6),
        ("tts_config", "text_eos_token_id", -1),
        ("tts_config", "num_attention_heads", 5),
        ("tts_config", "rms_norm_eps", -1.0),
        ("tts_config", "rope_theta", 0),
        ("tts_config", "s3_stream_chunk_size", 26),
        ("tts_config", "s3_stream_prelook_size", 4),
        ("vision_config", "layer_norm_eps", 2),
        ("slice_config", "norm_std", [0.5, 0.0, 0.5]),
        ("slice_config", "norm_mean", [0.5, float("inf"), 0.5]),
        (None, "head_dim", 15),
        (None, "rms_norm_eps", float("nan")),
        (None, "rope_theta", -1.0),
        (None, "audio_pool_step", 60),
        (None, "audio_chunk_length", 0.01),
        ("tts_config", "llm_dim", 17),
        ("tts_config", "num_text_tokens", recorded()["vocab_size"] - 1),
        ("audio_config", "encoder_ffn_dim", 4),
        ("slice_config", "patch_size", 16),
        ("slice_config", "scale_resolution", 100_000),
        ("vision_config", "num_channels", 4),
        (None, "num_hidden_layers", 10**9),
    ],
)
def test_values_that_only_a_session_would_trip_over_are_refused_by_name(
    tmp_path: Path, section: str | None, name: str, value: object
) -> None:
    fields = recorded()
    (fields if section is None else fields.setdefault(section, {}))[name] = value
    with pytest.raises(CheckpointError, match=name):
        OmniConfig.load(written(tmp_path, fields))


def test_a_width_that_the_resampler_cannot_split_is_refused(tmp_path: Path) -> None:
    fields = recorded()
    fields["hidden_size"] = fields["tts_config"]["llm_dim"] = 200
    with pytest.raises(CheckpointError, match=r"hidden_size \(200\) must be a multiple of 128"):
        OmniConfig.load(written(tmp_path, fields))


def test_a_talkers_head_of_odd_width_is_refused(tmp_path: Path) -> None:
    fields = recorded()
    heads = fields["tts_config"]["num_attention_heads"]
    fields["tts_config"]["hidden_size"] = 15 * heads
    with pytest.raises(CheckpointError, match=r"head \(15\) must be even"):
        OmniConfig.load(written(tmp_path, fields))


def test_a_talker_of_another_kind_is_refused(tmp_path: Path) -> None:
    fields = recorded()
    fields["tts_config"]["num_vq"] = 4
    with pytest.raises(CheckpointError, match="num_vq"):
        OmniConfig.load(written(tmp_path, fields))


def test_the_rotary_base_of_newer_files_is_found(tmp_path: Path) -> None:
    fields = recorded()
    del fields["rope_theta"]
    fields["rope_parameters"] = {"rope_type": "default", "rope_theta": 12345.0}
    assert OmniConfig.load(written(tmp_path, fields)).rope_theta == 12345.0
