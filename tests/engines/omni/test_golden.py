"""The recorded set is complete and unchanged."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from realtime_venus.engines.omni.checkpoint import read_pt

from ...kit import golden


def manifest() -> dict[str, Any]:
    return json.loads((golden.folder() / "manifest.json").read_text())


def described(path: Path) -> dict[str, str]:
    """Type and shape of every array in a file, as the manifest writes them."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: _shape(arrays[name].dtype.str[1:], arrays[name].shape) for name in arrays.files}
    if path.suffix == ".pt":
        return {
            name: _shape(str(each.dtype).removeprefix("torch."), each.shape) for name, each in read_pt(path).items()
        }
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header: Mapping[str, Any] = json.loads(raw[8 : 8 + length])
    return {name: _shape(each["dtype"], each["shape"]) for name, each in header.items() if name != "__metadata__"}


def _shape(kind: str, shape: Any) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"


# What describes the set in words may be corrected without recording it anew.
@pytest.mark.parametrize("name", sorted(name for name in manifest() if not name.endswith(".md")))
def test_a_file_is_what_was_recorded(name: str) -> None:
    path, entry = golden.folder() / name, manifest()[name]
    assert path.stat().st_size == entry["bytes"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
    if "arrays" in entry:
        assert described(path) == entry["arrays"]


def test_no_recording_is_missing_in_the_manifest() -> None:
    stages = {f"stages/{path.name}" for path in (golden.folder() / "stages").iterdir()}
    assert stages <= set(manifest())
