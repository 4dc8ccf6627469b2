"""Stored weights: safetensors files read tensor by tensor into modules, and ``.pt`` files read without their code.

A safetensors file is eight bytes of header length, a JSON header, and the tensors' bytes.  It is read with plain reads
in pieces of :data:`PIECE`, so that at no time more than the loaded weights and one piece is held: mapped files would
count twice while they are converted.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from .config import CheckpointError as CheckpointError

PIECE = 64 << 20
"""Bytes read at a time where a tensor is converted or sent to another device."""
_HEADER_LIMIT = 100_000_000
"""Longest header that the format allows."""
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_NUMBER = re.compile("[0-9]{1,9}")
"""Of a block: no other digits, and none that would take minutes to read."""
_PARTS = (("parametrizations.{}.original0", "parametrizations.{}.original1"), ("{}_g", "{}_v"))
"""Magnitude and direction of a weight-normalised tensor, in the newer and in the older spelling."""

Progress = Callable[[int], None]
"""Called with the number of bytes that were just read."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A stored tensor: where it lies and what it is."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    file: Path
    start: int
    """First byte in the file."""

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.count * self.dtype.itemsize


class Checkpoint:
    """The named tensors of a folder."""

    def __init__(self, folder: Path, names: Mapping[str, TensorInfo]) -> None:
        self.folder = folder
        self.names = names

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Read the headers of the safetensors files of ``folder``: those of its index, or the only one.

        Raises :class:`CheckpointError` where files or tensors are missing, cut short, or not of the format.
        """
        index = folder / _INDEX
        if index.is_file():
            return cls(folder, _sharded(folder, _weight_map(index)))
        single = folder / _SINGLE
        if not single.is_file():
            found = sorted(folder.glob("*.safetensors"))
            if len(found) > 1:
                raise CheckpointError(
                    f"{folder} holds {len(found)} safetensors files but no {_INDEX}: fetch it, it says which tensor is "
                    "where"
                )
            if not found:
                raise CheckpointError(f"{folder} holds no weights: neither {_INDEX} nor a .safetensors file")
            single = found[0]
        return cls(folder, _header(single))

    def has(self, prefix: str) -> bool:
        """Whether any tensor lies below ``prefix``."""
        return any(name.startswith(_dotted(prefix)) for name in self.names)

    def blocks(self, prefix: str) -> int:
        """Number of numbered blocks below ``prefix``: the highest number and one."""
        head = _dotted(prefix)
        numbers = {name[len(head) :].partition(".")[0] for name in self.names if name.startswith(head)}
        return max((int(number) + 1 for number in numbers if _NUMBER.fullmatch(number)), default=0)

    def count(self, prefix: str) -> int:
        """Number of elements below ``prefix``."""
        return sum(info.count for name, info in self.names.items() if name.startswith(_dotted(prefix)))

    def nbytes(self, prefix: str) -> int:
        """Bytes stored below ``prefix``."""
        return sum(info.nbytes for name, info in self.names.items() if name.startswith(_dotted(prefix)))

    def read(self, name: str, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> Tensor:
        """One tensor, on ``device``; floating point ones as ``dtype`` if given.

        Raises :class:`CheckpointError` if it is not there.
        """
        info = self.names.get(name)
        if info is None:
            raise CheckpointError(f"{self.folder} has no tensor {name}: it is incomplete or of another network")
        keeps = dtype is None or not info.dtype.is_floating_point
        tensor = torch.empty(info.shape, dtype=info.dtype if keeps else dtype, device=device)
        _fill(name, info, tensor)
        return tensor

    def load_into(
        self,
        module: nn.Module,
        prefix: str,
        *,
        device: torch.device | str,
        dtype: torch.dtype,
        ignore: tuple[str, ...] = (),
        progress: Progress | None = None,
    ) -> None:
        """Give every parameter and persistent buffer of ``module`` the stored tensor ``prefix`` + its name.

        Floating point tensors become ``dtype``.  Weight-normalised ones are folded.  Raises as :meth:`plan` does,
        before anything is read.
        """
        device = torch.device(device)
        wanted = cast("dict[str, Tensor]", module.state_dict())
        for name, sources in self.plan(module, prefix, ignore=ignore).items():
            kind = dtype if wanted[name].is_floating_point() else wanted[name].dtype
            _assign(module, name, self._folded(sources, device, kind))
            if progress is not None:
                progress(sum(self.names[source].nbytes for source in sources))

    def plan(self, module: nn.Module, prefix: str, *, ignore: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
        """The stored names that make up every parameter and persistent buffer of ``module``, by its name in it.

        Stored tensors that the module does not have must match a pattern of ``ignore`` (shell patterns, relative to the
        prefix).  Nothing is read.  Raises :class:`CheckpointError` naming the first tensor that is missing, of another
        shape, or unknown.
        """
        head = _dotted(prefix)
        left = {name for name in self.names if name.startswith(head)}
        planned: dict[str, tuple[str, ...]] = {}
        for name, place in cast("dict[str, Tensor]", module.state_dict()).items():
            planned[name] = self._sources(head + name, tuple(place.shape))
            left.difference_update(planned[name])
        unknown = [name for name in sorted(left) if not any(fnmatchcase(name[len(head) :], each) for each in ignore)]
        if unknown:
            raise CheckpointError(
                f"{self.folder} has a tensor {unknown[0]}, which this network has no place for"
                + (f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else "")
                + ": it is of another network, or config.json is not the one that belongs to it"
            )
        return planned

    def _sources(self, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
        """The stored names that make up a tensor of that shape: itself, or magnitude and direction."""
        head, _, leaf = name.rpartition(".")
        pairs = (
            tuple(f"{head}.{part.format(leaf)}" if head else part.format(leaf) for part in each) for each in _PARTS
        )
        spellings = ((name,), *pairs)
        sources = next((each for each in spellings if any(part in self.names for part in each)), (name,))
        for source in sources:
            if source not in self.names:
                raise CheckpointError(f"{self.folder} has no tensor {source}: it is incomplete or of another network")
        found = self.names[sources[-1]].shape
        if found != shape:
            raise CheckpointError(
                f"the tensor {sources[-1]} of {self.folder} has the shape {list(found)}, and config.json asks for "
                f"{list(shape)}: files of two checkpoints are mixed, or one was changed"
            )
        if len(sources) > 1:
            _check_magnitude(sources[0], self.names[sources[0]].shape, shape)
        return sources

    def _folded(self, sources: tuple[str, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
        if len(sources) == 1:
            return self.read(sources[0], device=device, dtype=dtype)
        magnitude, direction = (self.read(source, dtype=torch.float32) for source in sources)
        return _fold(sources[0], magnitude, direction).to(device=device, dtype=dtype)


def fold_weight_norm(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors with every weight-normalised pair, in either spelling, replaced by its one plain tensor."""
    plain = dict(tensors)
    for name in tensors:
        for gain, direction in _PARTS:
            end = gain.format("weight")
            if name != end and not name.endswith("." + end):
                continue
            head = name.removesuffix(end)
            other = head + direction.format("weight")
            if other not in tensors:
                raise CheckpointError(f"the tensor {name} lacks its other half {other}")
            plain[head + "weight"] = _fold(name, plain.pop(name), plain.pop(other))
    return plain


def read_pt(path: Path) -> dict[str, Tensor]:
    """The named tensors of a file of ``torch.save``, on the CPU, without running anything that the file asks for.

    Raises :class:`CheckpointError` if the file is missing, broken, or holds anything but named tensors.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; fetch it")
    try:
        content: object = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} is not a file of plain weights: reading it would run code that it names, which is never done. "
            "Fetch it from the official repository"
        ) from error
    except Exception as error:  # a broken file fails anywhere in the reader, in whatever way
        raise CheckpointError(f"{path} is damaged or cut short ({error}); fetch it again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no named tensors")
    tensors: dict[str, Tensor] = {}
    for name, value in cast("dict[object, object]", content).items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise CheckpointError(f"{path} holds {name!r}, which is no tensor")
        if value.numel() * value.itemsize > value.untyped_storage().nbytes():
            raise CheckpointError(f"{path} holds {name!r}, which stands for more than is stored; fetch it again")
        tensors[name] = value.detach()
    return tensors


def check_vocoder_files(folder: Path) -> None:
    """Refuse the folder of a vocoder that is not the one this engine builds.

    Later releases (1.0.7 of the reference package) changed the vocoder and kept the name ``hift.pt``; their folders
    have a ``config.yaml`` or a ``hift_original.pt``.  Raises :class:`CheckpointError`.
    """
    for name in ("config.yaml", "hift_original.pt"):
        if (folder / name).exists():
            raise CheckpointError(
                f"{folder} holds {name}: these are the vocoder files of minicpmo-utils 1.0.7 and later, whose hift.pt "
                "is another network; bring the assets/token2wav folder that the checkpoint was published with"
            )
    for name in ("flow.yaml", "flow.pt", "hift.pt"):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} has no {name}; fetch it from the checkpoint's repository")


def _dotted(prefix: str) -> str:
    return prefix if not prefix or prefix.endswith(".") else prefix + "."


def _weight_map(index: Path) -> dict[str, str]:
    try:
        content: Any = json.loads(index.read_text(encoding="utf-8"))
        weights = cast("dict[str, object]", dict(content["weight_map"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{index} is not an index of safetensors files; fetch it again") from error
    if not weights:
        raise CheckpointError(f"{index} names no tensor; fetch it again")
    for name, file in weights.items():
        if not isinstance(file, str) or not file or "\0" in file:
            raise CheckpointError(f"{index} gives {name} no file but {file!r}; fetch it again")
        if file == ".." or Path(file).name != file:
            raise CheckpointError(f"{index} places {name} outside its folder ({file}); fetch it again")
    return cast("dict[str, str]", weights)


def _inside(folder: Path, file: str) -> bool:
    """Whether a file is one of the folder's own, symbolic links followed.

    A hub's download cache keeps the files of ``snapshots/REVISION`` in ``blobs`` beside ``snapshots``.
    """
    own, holder = folder.resolve(), (folder / file).resolve().parent
    return holder == own or (own.parent.name == "snapshots" and holder == own.parent.parent / "blobs")


def _sharded(folder: Path, weights: Mapping[str, str]) -> dict[str, TensorInfo]:
    names: dict[str, TensorInfo] = {}
    for file in sorted(set(weights.values())):
        if not (folder / file).is_file():
            lost = [name for name, where in weights.items() if where == file]
            raise CheckpointError(
                f"{folder} lacks {file}, which holds {lost[0]} and {len(lost) - 1} more tensors; fetch it"
            )
        if not _inside(folder, file):
            raise CheckpointError(f"{folder / file} is a link out of its folder; put the file itself there")
        for name, info in _header(folder / file).items():
            if name in names:
                raise CheckpointError(
                    f"the tensor {name} is in {names[name].file.name} and in {file}; fetch both again"
                )
            names[name] = info
    for name, file in weights.items():
        if name not in names or names[name].file.name != file:
            raise CheckpointError(
                f"{folder / file} lacks the tensor {name}, which the index places there; fetch it again"
            )
    return names


def _header(path: Path) -> dict[str, TensorInfo]:
    """What a safetensors file says it holds, checked against its length."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= _HEADER_LIMIT:
            raise CheckpointError(
                f"{path} is not a safetensors file (a placeholder of Git LFS, perhaps); fetch the file itself"
            )
        if size < 8 + length:
            raise CheckpointError(f"{path} ends within its header: it is cut short; fetch it again")
        text = file.read(length)
    try:
        header = cast("dict[str, dict[str, Any]]", json.loads(text))
        header.pop("__metadata__", None)
        return {name: _info(path, name, entry, 8 + length, size) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} has a header that cannot be read; fetch it again") from error


def _info(path: Path, name: str, entry: Mapping[str, Any], data: int, size: int) -> TensorInfo:
    dtype = _DTYPES.get(str(entry["dtype"]))
    if dtype is None:
        raise CheckpointError(
            f"the tensor {name} of {path} is stored as {entry['dtype']}: quantised checkpoints are not read; bring the "
            "one of the official repository"
        )
    begin, end = (int(offset) for offset in entry["data_offsets"])
    info = TensorInfo(tuple(int(length) for length in entry["shape"]), dtype, path, data + begin)
    if begin < 0 or min(info.shape, default=0) < 0 or end - begin != info.nbytes:
        raise CheckpointError(f"the header of {path} contradicts itself about {name}; fetch the file again")
    if data + end > size:
        raise CheckpointError(
            f"{path} is cut short: the tensor {name} ends at byte {data + end} of {size}; fetch the file again"
        )
    return info


def _fill(name: str, info: TensorInfo, target: Tensor) -> None:
    """Read a stored tensor into ``target``, of the same shape on any device and of any type."""
    flat = target.reshape(-1)
    direct = target.device.type == "cpu" and target.dtype == info.dtype
    with info.file.open("rb", buffering=0) as file:
        file.seek(info.start)
        for first, stop in _pieces(info.count, PIECE // info.dtype.itemsize):
            piece = flat[first:stop] if direct else torch.empty(stop - first, dtype=info.dtype)
            memory = memoryview(cast("Any", piece.view(torch.uint8).numpy())).cast("B")
            filled = 0
            while filled < len(memory):
                got = file.readinto(memory[filled:])
                if not got:
                    raise CheckpointError(f"{info.file} ends within {name}: it is cut short; fetch it again")
                filled += got
            if not direct:
                flat[first:stop].copy_(piece)


def _pieces(count: int, most: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, most):
        yield first, min(count, first + most)


def _fold(name: str, magnitude: Tensor, direction: Tensor) -> Tensor:
    """Direction, scaled to the magnitude along every axis that the magnitude keeps."""
    _check_magnitude(name, tuple(magnitude.shape), tuple(direction.shape))
    axes = [axis for axis, kept in enumerate(magnitude.shape) if kept == 1]
    return direction * (magnitude / direction.square().sum(axes, keepdim=True).sqrt())


def _check_magnitude(name: str, shape: tuple[int, ...], direction: tuple[int, ...]) -> None:
    fits = len(shape) == len(direction) and all(kept in (1, full) for kept, full in zip(shape, direction, strict=True))
    if not fits:
        raise CheckpointError(
            f"the tensor {name} has the shape {list(shape)}, which is no magnitude of {list(direction)}"
        )


def _assign(module: nn.Module, name: str, tensor: Tensor) -> None:
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    stored = nn.Parameter(tensor, requires_grad=False) if isinstance(getattr(owner, leaf), nn.Parameter) else tensor
    setattr(owner, leaf, stored)
