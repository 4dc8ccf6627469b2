"""Folders of the checkpoint's layout, made from the recorded one with something changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from safetensors import torch as safetensors
from torch import Tensor

from . import golden

Change = Callable[[dict[str, Any]], None]


def tensors() -> dict[str, Tensor]:
    """Every tensor of the recorded checkpoint, as stored."""
    found: dict[str, Tensor] = {}
    for path in sorted(golden.model_dir().glob("*.safetensors")):
        found |= safetensors.load_file(path)  # pyright: ignore[reportUnknownMemberType]
    return found


def save(folder: Path, weights: Mapping[str, Tensor], shards: int = 1) -> None:
    """Write safetensors files, with an index if there are several."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: tensor.contiguous() for name, tensor in weights.items()}
    if shards == 1:
        _write(plain, folder / "model.safetensors")
        return
    where: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensor for index, (name, tensor) in enumerate(plain.items()) if index % shards == shard}
        _write(part, folder / file)
        where |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def copy(
    folder: Path, *, weights: Mapping[str, Tensor] | None = None, config: Change | None = None, assets: bool = False
) -> Path:
    """The recorded checkpoint in ``folder``, with other ``weights`` (one shard) or a changed ``config.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in golden.model_dir().iterdir():
        if path.is_file() and (weights is None or "safetensors" not in path.name):
            shutil.copy(path, folder)
    if assets:
        shutil.copytree(golden.model_dir() / "assets", folder / "assets")
    if weights is not None:
        save(folder, weights)
    if config is not None:
        edit(folder / "config.json", config)
    return folder


def _write(weights: dict[str, Tensor], path: Path) -> None:
    safetensors.save_file(weights, path)  # pyright: ignore[reportUnknownMemberType]


def edit(path: Path, change: Change) -> None:
    """Change a JSON file."""
    path.chmod(0o644)
    content = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
