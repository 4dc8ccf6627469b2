"""Sizes are read from plain data; other structures and other generations of assets are refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni.checkpoint import CheckpointError, fold_weight_norm, read_pt
from realtime_venus.engines.omni.token2wav.config import FlowConfig, HiftConfig
from realtime_venus.engines.omni.token2wav.flow import Flow
from realtime_venus.engines.omni.token2wav.hift import Hift
from realtime_venus.engines.omni.token2wav.stream import Token2Wav

from ....kit import golden, t2w


def text() -> str:
    return (t2w.assets() / "flow.yaml").read_text()


def changed(old: str, new: str) -> str:
    """The recorded description with one place, a regular expression, replaced."""
    assert re.search(old, text())
    return re.sub(old, new, text(), count=1)


def test_the_recorded_description_has_the_sizes_of_the_stored_tensors() -> None:
    config, weights = FlowConfig.load(t2w.assets()), read_pt(t2w.assets() / "flow.pt")
    assert weights["input_embedding.weight"].shape == (config.vocab_size, config.input_size)
    assert weights["decoder.estimator.in_proj.weight"].shape == (
        config.decoder.estimator.hidden_size,
        config.decoder.estimator.in_channels,
    )
    assert {name.split(".")[2] for name in weights if name.startswith("encoder.encoders.")} == {
        str(layer) for layer in range(config.encoder.num_blocks)
    }


def test_released_sizes_are_the_defaults_and_give_the_released_names_and_shapes() -> None:
    layout = golden.record("full_size_layout")
    with torch.device("meta"):
        flow, hift = Flow(FlowConfig()), Hift(HiftConfig())
    assert {name: list(tensor.shape) for name, tensor in flow.state_dict().items()} == layout["flow_pt"]
    released = {
        name: torch.empty(shape, device="meta") for name, shape in layout["hift_pt_without_generator_prefix"].items()
    }
    folded = {name: list(tensor.shape) for name, tensor in fold_weight_norm(released).items()}
    assert {name: list(tensor.shape) for name, tensor in hift.state_dict().items()} == folded
    assert HiftConfig.of({name: torch.empty(shape, device="meta") for name, shape in folded.items()}) == HiftConfig()


def test_arguments_that_nothing_depends_on_are_kept() -> None:
    config = FlowConfig.parse(changed("  output_type:", "  token_mel_ratio: 2\n  output_type:"))
    assert config.model_extra is not None
    assert config.model_extra["token_mel_ratio"] == 2


def test_nothing_in_the_description_is_called(tmp_path: Path) -> None:
    spy = tmp_path / "called"
    parsed = FlowConfig.parse(text() + f"\nextra: !apply:os.mkdir ['{spy}']\nname: !name:os.mkdir\n")
    assert parsed == FlowConfig.parse(text())
    assert not spy.exists()
    with pytest.raises(CheckpointError, match="not YAML"):
        FlowConfig.parse(text() + "\nextra: !!python/object/apply:os.mkdir ['x']\n")


LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
MERGES = "".join(f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))


@pytest.mark.parametrize(
    "bomb",
    [
        "a0: &a0 [1]\n" + LAUGHS,
        "a0: &a0 {x: 1}\n" + MERGES,
        "a: &a [*a]\n",
        "a: " + "[" * 30_000,
        "a: " + "{b: " * 5_000 + "1" + "}" * 5_000,
        "a: " + "-" * 70_000,
        "a: !!int x\n",
        "a: !!timestamp x\n",
        "a: 2001-99-99\n",
        "? [1]\n: 2\n",
    ],
    ids=range(10),
)
def test_a_description_that_would_fill_the_memory_or_is_malformed_is_refused(tmp_path: Path, bomb: str) -> None:
    folder = tmp_path / "a"
    shutil.copytree(t2w.assets(), folder)
    (folder / "flow.yaml").write_text(text() + bomb)
    with pytest.raises(CheckpointError, match=r"flow\.yaml is (not YAML|longer)"):
        FlowConfig.load(folder)


def test_a_description_that_is_no_text_is_refused(tmp_path: Path) -> None:
    shutil.copytree(t2w.assets(), tmp_path / "a")
    (tmp_path / "a" / "flow.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(CheckpointError, match=r"flow\.yaml cannot be read"):
        FlowConfig.load(tmp_path / "a")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("CausalConditionalCFM", "ConditionalCFM", "'decoder' is"),
        ("!new:cosyvoice2.flow.decoder_dit.DiT", "", "'estimator' is no class"),
        ("input_layer: 'linear'", "input_layer: 'conv2d'", "input_layer"),
        ("key_bias: true", "key_bias: false", "key_bias"),
        ("pre_lookahead_len: 3", "pre_lookahead_len: 4", "pre_lookahead_len"),
        (r"depth: \d+", "depth: !ref <depth>", "depth"),
        (r"depth: \d+", "depth: 1000000000", "depth"),
        (r"num_blocks: \d+", "num_blocks: 1000000000", "num_blocks"),
        (r"attention_heads: \d+", "attention_heads: 0", "attention_heads"),
        (r"head_dim: \d+", "head_dim: -1", "head_dim"),
        (r"mlp_ratio: [\d.]+", "mlp_ratio: .nan", "mlp_ratio"),
        (r"in_channels: \d+", "in_channels: 3", "channels each"),
        ("flow: !new", "stream: !new", "no object 'flow'"),
        ("flow: !new:cosyvoice2.flow.flow.CausalMaskedDiffWithXvec", "flow: [", "not YAML"),
        ("!new:cosyvoice2.flow.decoder_dit.DiT\n", "!new:cosyvoice2.flow.decoder_dit.DiT 3\n", "not YAML"),
    ],
)
def test_an_unknown_structure_is_an_error_that_names_it(old: str, new: str, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        FlowConfig.parse(changed(old, new))


def test_assets_of_the_later_generation_are_refused(tmp_path: Path) -> None:
    shutil.copytree(t2w.assets(), tmp_path / "a")
    (tmp_path / "a" / "hift_original.pt").touch()
    with pytest.raises(EngineError, match="hift_original"):
        Token2Wav.load(tmp_path / "a")


@pytest.mark.parametrize("name", ["flow.yaml", "flow.pt", "hift.pt"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    shutil.copytree(t2w.assets(), tmp_path / "a")
    (tmp_path / "a" / name).unlink()
    with pytest.raises(EngineError, match=name):
        Token2Wav.load(tmp_path / "a")


def test_swapped_files_are_refused(tmp_path: Path) -> None:
    shutil.copytree(t2w.assets(), tmp_path / "a")
    shutil.copy(t2w.assets() / "flow.pt", tmp_path / "a" / "hift.pt")
    with pytest.raises(EngineError, match=r"hift\.pt"):
        Token2Wav.load(tmp_path / "a")


def test_weights_of_other_sizes_than_described_are_refused(tmp_path: Path) -> None:
    shutil.copytree(t2w.assets(), tmp_path / "a")
    estimator = FlowConfig.load(t2w.assets()).decoder.estimator
    depth, ratio = estimator.depth, estimator.mlp_ratio
    path = tmp_path / "a" / "flow.yaml"
    path.write_text(changed(r"depth: \d+", f"depth: {depth + 1}"))
    with pytest.raises(EngineError, match=rf"flow\.pt lacks decoder\.estimator\.blocks\.{depth}\."):
        Token2Wav.load(tmp_path / "a")
    path.write_text(changed(r"mlp_ratio: [\d.]+", f"mlp_ratio: {ratio / 2}"))
    with pytest.raises(EngineError, match=r"blocks\.0\.mlp\.fc1\.weight is"):
        Token2Wav.load(tmp_path / "a")
