"""Reading stored weights: what is right arrives exactly, what is wrong is named."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
import torch
from realtime_venus.engines.omni import checkpoint as reading
from realtime_venus.engines.omni.checkpoint import Checkpoint, CheckpointError, fold_weight_norm, read_pt
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from ...kit import checkpoints, golden


class Small(nn.Module):
    """A linear layer, a table and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.table = nn.Parameter(torch.zeros(2, 5))
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64))


def empty() -> Small:
    with torch.device("meta"):
        return Small()


def weights() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        "a.linear.weight": torch.randn(3, 4, generator=draw),
        "a.linear.bias": torch.randn(3, generator=draw),
        "a.table": torch.randn(2, 5, generator=draw),
        "a.steps": torch.tensor([7, 2**40]),
    }


def load(folder: Path, *, dtype: torch.dtype = torch.float32, ignore: tuple[str, ...] = ()) -> Small:
    module = empty()
    Checkpoint.open(folder).load_into(module, "a", device="cpu", dtype=dtype, ignore=ignore)
    return module


@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
def test_every_tensor_arrives(tmp_path: Path, shards: int, stored: torch.dtype, wanted: torch.dtype) -> None:
    kept = {name: each.to(stored) if each.is_floating_point() else each for name, each in weights().items()}
    checkpoints.save(tmp_path, kept, shards)
    module = load(tmp_path, dtype=wanted)
    for name, each in module.state_dict().items():
        original = kept[f"a.{name}"]
        assert torch.equal(each, original.to(wanted) if original.is_floating_point() else original), name
    assert not any(each.requires_grad for each in module.parameters())


def test_a_tensor_that_is_read_in_many_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save(tmp_path, {"x": torch.arange(1001, dtype=torch.float32).view(7, 143)})
    monkeypatch.setattr(reading, "PIECE", 40)
    read = Checkpoint.open(tmp_path).read("x", dtype=torch.float64)
    assert torch.equal(read, torch.arange(1001, dtype=torch.float64).view(7, 143))


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_odd_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    checkpoints.save(tmp_path, {"x": torch.ones(shape)})
    assert torch.equal(Checkpoint.open(tmp_path).read("x", dtype=torch.bfloat16), torch.ones(shape).bfloat16())


def test_the_recorded_checkpoint_is_read_as_its_own_library_reads_it() -> None:
    checkpoint, expected = Checkpoint.open(golden.model_dir()), checkpoints.tensors()
    assert set(checkpoint.names) == set(expected)
    for name, tensor in expected.items():
        info = checkpoint.names[name]
        assert (info.shape, info.dtype) == (tuple(tensor.shape), tensor.dtype)
        assert torch.equal(checkpoint.read(name), tensor)
    assert checkpoint.count("") == sum(each.numel() for each in expected.values())
    assert checkpoint.blocks("llm.model.layers") == 1 + max(
        int(name.split(".")[3]) for name in expected if name.startswith("llm.model.layers.")
    )


def test_only_plain_numbers_count_as_blocks(tmp_path: Path) -> None:
    names = ("a.0.w", "a.1.w", "a.\N{SUPERSCRIPT TWO}.w", f"a.{'9' * 5000}.w", "a.x.w")
    checkpoints.save(tmp_path, {name: torch.zeros(1) for name in names})
    assert Checkpoint.open(tmp_path).blocks("a") == 2


def test_progress_counts_the_stored_bytes(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights())
    checkpoint, read = Checkpoint.open(tmp_path), list[int]()
    checkpoint.load_into(empty(), "a", device="cpu", dtype=torch.bfloat16, progress=read.append)
    assert sum(read) == checkpoint.nbytes("a") == sum(each.nbytes for each in weights().values())


def normalised(module: nn.Module) -> tuple[nn.Module, dict[str, dict[str, Tensor]]]:
    """The module, and its weights in each spelling."""
    parametrizations.weight_norm(module)
    newer = {name: each.detach() * 1.5 for name, each in module.state_dict().items()}
    gain, direction = (newer[f"parametrizations.weight.original{part}"] for part in (0, 1))
    older = {name: each for name, each in newer.items() if "parametrizations" not in name}
    module.load_state_dict(newer)
    return module, {
        "newer": newer,
        "older": older | {"weight_g": gain, "weight_v": direction},
        "plain": {"bias": newer["bias"], "weight": cast("Tensor", module.weight).detach()},
    }


@pytest.mark.parametrize("spelling", ["newer", "older", "plain"])
@pytest.mark.parametrize("kind", ["linear", "convolution", "transposed"])
def test_weight_norm_is_folded_in_either_spelling(tmp_path: Path, kind: str, spelling: str) -> None:
    makes = {
        "linear": lambda: nn.Linear(4, 3),
        "convolution": lambda: nn.Conv1d(3, 6, 5),
        "transposed": lambda: nn.ConvTranspose1d(4, 2, 3),
    }
    trained, spellings = normalised(makes[kind]())
    stored = spellings[spelling]
    checkpoints.save(tmp_path, {f"a.{name}": each for name, each in stored.items()})
    with torch.device("meta"):
        module = makes[kind]()
    Checkpoint.open(tmp_path).load_into(module, "a.", device="cpu", dtype=torch.float32)
    expected = cast("Tensor", trained.weight).detach()
    torch.testing.assert_close(module.weight.detach(), expected, atol=1e-6, rtol=1e-6)
    folded = fold_weight_norm({f"b.{name}": each for name, each in stored.items()})
    assert set(folded) == {"b.weight", "b.bias"}
    torch.testing.assert_close(folded["b.weight"], expected, atol=1e-6, rtol=1e-6)


def test_half_a_weight_norm_is_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, {"a.weight_g": torch.ones(3, 1), "a.bias": torch.ones(3)})
    with torch.device("meta"):
        module = nn.Linear(4, 3)
    with pytest.raises(CheckpointError, match=r"a\.weight_v"):
        Checkpoint.open(tmp_path).load_into(module, "a", device="cpu", dtype=torch.float32)
    with pytest.raises(CheckpointError, match=r"x\.weight_v"):
        fold_weight_norm({"x.weight_g": torch.ones(3, 1)})


def test_a_magnitude_of_another_tensor_is_named(tmp_path: Path) -> None:
    checkpoints.save(
        tmp_path, {"a.weight_g": torch.ones(2, 1), "a.weight_v": torch.ones(3, 4), "a.bias": torch.ones(3)}
    )
    with torch.device("meta"):
        module = nn.Linear(4, 3)
    with pytest.raises(CheckpointError, match=r"a\.weight_g"):
        Checkpoint.open(tmp_path).load_into(module, "a", device="cpu", dtype=torch.float32)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, {name: each for name, each in weights().items() if name != "a.table"})
    with pytest.raises(CheckpointError, match=r"no tensor a\.table"):
        load(tmp_path)


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights() | {"a.table": torch.zeros(5, 2)})
    with pytest.raises(CheckpointError, match=r"a\.table .*\[5, 2\].*\[2, 5\]"):
        load(tmp_path)


def test_a_tensor_without_a_place_is_named_unless_ignored(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights() | {"a.more.weight": torch.zeros(1), "b.other": torch.zeros(1)})
    with pytest.raises(CheckpointError, match=r"a\.more\.weight"):
        load(tmp_path)
    assert torch.equal(load(tmp_path, ignore=("more.*",)).table, weights()["a.table"])


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights(), 2)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"lacks model-00002-of-00002\.safetensors, which holds a\.linear\.bias"):
        Checkpoint.open(tmp_path)


def test_a_shard_without_its_tensor_is_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights(), 2)
    checkpoints.edit(
        tmp_path / "model.safetensors.index.json",
        lambda index: index["weight_map"].update({"a.lost": "model-00001-of-00002.safetensors"}),
    )
    with pytest.raises(CheckpointError, match=r"lacks the tensor a\.lost"):
        Checkpoint.open(tmp_path)


def test_a_tensor_in_two_shards_is_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights(), 2)
    again = tmp_path / "again"
    checkpoints.save(again, {"a.table": torch.zeros(2, 5), "a.linear.bias": torch.zeros(3), "a.steps": torch.zeros(1)})
    (again / "model.safetensors").replace(tmp_path / "model-00002-of-00002.safetensors")
    with pytest.raises(CheckpointError, match=r"a\.table is in "):
        Checkpoint.open(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "{}", '{"weight_map": {}}', '{"weight_map": 1}', '{"weight_map":' * 100_000], ids=range(5)
)
def test_what_is_no_index(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CheckpointError, match="fetch it again"):
        Checkpoint.open(tmp_path)


@pytest.mark.parametrize(
    "file",
    [
        *(5, None, True, 1.5, [], ["model.safetensors"], {}),
        *("", "..", ".", "../model.safetensors", "/etc/passwd", "a/model.safetensors", "a/../model.safetensors"),
        *("model\0.safetensors", "./model.safetensors"),
    ],
    ids=repr,
)
def test_an_index_that_names_no_file_of_its_folder(tmp_path: Path, file: object) -> None:
    checkpoints.save(tmp_path, weights())
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes())
    index = {"weight_map": dict.fromkeys(weights(), file)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="fetch it"):
        Checkpoint.open(tmp_path)


def linked(folder: Path, holder: Path) -> Path:
    """A checkpoint whose first shard is a link to a file of ``holder``."""
    folder.mkdir(parents=True)
    holder.mkdir(parents=True, exist_ok=True)
    checkpoints.save(folder, weights(), 2)
    shard = min(folder.glob("*.safetensors"))
    shard.rename(holder / "content")
    shard.symlink_to(holder / "content")
    return folder


def test_a_shard_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    for holder in (tmp_path / "elsewhere", tmp_path / "blobs", tmp_path):
        folder = linked(tmp_path / f"linked to {holder.name}" / "m", holder)
        with pytest.raises(CheckpointError, match="link out of its folder"):
            Checkpoint.open(folder)


def test_links_within_a_folder_to_a_folder_and_of_a_hubs_cache_are_followed(tmp_path: Path) -> None:
    own = linked(tmp_path / "own", tmp_path / "own")
    assert set(Checkpoint.open(own).names) == set(weights())
    (tmp_path / "other").symlink_to(own)
    assert set(Checkpoint.open(tmp_path / "other").names) == set(weights())
    cached = linked(tmp_path / "hub" / "snapshots" / "0a1b", tmp_path / "hub" / "blobs")
    assert set(Checkpoint.open(cached).names) == set(weights())


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no weights"):
        Checkpoint.open(tmp_path)


def test_several_files_without_an_index(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights(), 2)
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(CheckpointError, match=r"but no model\.safetensors\.index\.json"):
        Checkpoint.open(tmp_path)


def test_one_file_of_any_name_will_do(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights())
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    assert set(Checkpoint.open(tmp_path).names) == set(weights())


@pytest.mark.parametrize("length", [0, 4, 8, 100, -1, -30])
def test_a_truncated_file_is_refused(tmp_path: Path, length: int) -> None:
    checkpoints.save(tmp_path, weights())
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"fetch (it|the file)"):
        Checkpoint.open(tmp_path)


def test_a_file_that_is_cut_short_names_a_tensor(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights())
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"cut short: the tensor a\."):
        Checkpoint.open(tmp_path)


def test_a_file_that_shrinks_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, weights())
    checkpoint, path = Checkpoint.open(tmp_path), tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CheckpointError, match="cut short"):
        checkpoint.load_into(empty(), "a", device="cpu", dtype=torch.float32)


def test_a_placeholder_of_git_lfs_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(CheckpointError, match="Git LFS"):
        Checkpoint.open(tmp_path)


def raw(folder: Path, header: object, data: bytes = b"") -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b'{"x":' * 100_000,
        b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, Infinity]}}',
        [],
        {"x": 1},
        {"x": {"dtype": "F32", "shape": [1]}},
        {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}},
        {"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}},
    ],
    ids=range(9),
)
def test_a_header_that_makes_no_sense(tmp_path: Path, header: object) -> None:
    raw(tmp_path, header, b"\0" * 4)
    with pytest.raises(CheckpointError, match="fetch"):
        Checkpoint.open(tmp_path)


def test_a_quantised_type_is_named(tmp_path: Path) -> None:
    raw(tmp_path, {"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"\0")
    with pytest.raises(CheckpointError, match="quantised"):
        Checkpoint.open(tmp_path)


PEAK = """
import sys, torch
from pathlib import Path
from torch import nn
from realtime_venus.engines.omni import checkpoint as reading
reading.PIECE = int(sys.argv[2])
checkpoint = reading.Checkpoint.open(Path(sys.argv[1]))
with torch.device("meta"):
    module = nn.ParameterDict({"x": nn.Parameter(torch.empty(32, 1024, 1024))})
def held(what):
    (line,) = (line for line in open("/proc/self/status") if line.startswith(what))
    return int(line.split()[1]) * 1024
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = held("VmRSS:")
checkpoint.load_into(module, "a", device="cpu", dtype=torch.float32)
print(held("VmHWM:") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the figure is that of Linux")
def test_loading_holds_little_more_than_the_weights(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, {"a.x": torch.ones(32, 1024, 1024, dtype=torch.bfloat16)})
    piece, loaded, stored = 4 * 2**20, 128 * 2**20, 64 * 2**20
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path, str(piece)], capture_output=True, text=True, check=True
    )
    # Mapped or read as a whole, the stored half would be held as well.
    assert loaded <= int(done.stdout) + 2**20
    assert int(done.stdout) < loaded + piece + 40 * 2**20 < loaded + stored


# -- .pt files ------------------------------------------------------------------------------------------------------


def test_a_file_of_tensors_is_read(tmp_path: Path) -> None:
    torch.save(weights(), tmp_path / "w.pt")
    read = read_pt(tmp_path / "w.pt")
    assert set(read) == set(weights())
    assert all(torch.equal(read[name], each) for name, each in weights().items())


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_would_run_code_is_refused_unrun(tmp_path: Path, legacy: bool) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (tmp_path / "ran",)

    path = tmp_path / "w.pt"
    if legacy:
        path.write_bytes(pickle.dumps({"x": Hostile()}, protocol=2))
    else:
        torch.save({"x": Hostile()}, path)
    with pytest.raises(CheckpointError, match="never done"):
        read_pt(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [[torch.ones(1)], {"x": 1}, {1: torch.ones(1)}, torch.ones(1)], ids=str)
def test_what_holds_no_named_tensors_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=r"w\.pt holds"):
        read_pt(tmp_path / "w.pt")


def test_a_few_stored_bytes_that_stand_for_gigabytes_are_refused(tmp_path: Path) -> None:
    torch.save({"weight_v": torch.zeros(1).expand(10**5, 10**5)}, tmp_path / "big.pt")
    with pytest.raises(CheckpointError, match="stands for more than is stored"):
        read_pt(tmp_path / "big.pt")


@pytest.mark.parametrize("length", [0, 10, 200, -40])
def test_a_truncated_pt_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "w.pt"
    torch.save(weights(), path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"w\.pt"):
        read_pt(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pt_file_that_is_broken_anywhere_is_refused(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "w.pt"
    torch.save(weights(), path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 200)):
        path.write_bytes(whole[:place])
        with pytest.raises(CheckpointError, match=r"w\.pt"):
            read_pt(path)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(CheckpointError):  # a flipped byte may go unnoticed, but is never another error
            read_pt(path)


def test_a_missing_pt_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="missing"):
        read_pt(tmp_path / "w.pt")
