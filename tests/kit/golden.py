"""The recorded inputs and outputs of the omni network: `tests/golden`, or another set of that layout.

``VENUS_GOLDEN_DIR`` names the other set.  Sizes, seeds, token ids and unit plans are read from the set itself.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from realtime_venus.engines.base import FloatPcm, RgbImage

_HERE = Path(__file__).resolve().parents[1] / "golden"

Arrays = dict[str, npt.NDArray[Any]]


def folder() -> Path:
    """Where the set lies."""
    return Path(os.environ.get("VENUS_GOLDEN_DIR") or _HERE)


def model_dir() -> Path:
    """The checkpoint of the set: the one folder with a ``config.json``."""
    (config,) = folder().glob("*/config.json")
    return config.parent


@cache
def stage(name: str) -> Arrays:
    """All arrays of ``stages/NAME.npz``."""
    with np.load(folder() / "stages" / f"{name}.npz") as arrays:
        return {key: arrays[key] for key in arrays.files}


@cache
def record(name: str) -> dict[str, Any]:
    """``stages/NAME.json``."""
    return json.loads((folder() / "stages" / f"{name}.json").read_text())


@cache
def seeds() -> dict[str, Any]:
    """``seeds.json``."""
    return json.loads((folder() / "seeds.json").read_text())


def normal(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    """The seeded array of that shape, drawn as the set's own were (numpy's frozen legacy stream)."""
    drawn = np.random.RandomState(seed).standard_normal(int(np.prod(shape)))
    return drawn.reshape(shape).astype(np.float32)


@cache
def sees() -> bool:
    """Whether the checkpoint of the set has eyes."""
    return bool(json.loads((model_dir() / "config.json").read_text())["init_vision"])


def needs_eyes() -> None:
    """Skip the test, or the module that says so at its beginning, on a set of the audio variant."""
    if not sees():
        pytest.skip("the checkpoint of this set has no eyes", allow_module_level=True)


def voice() -> Path:
    """The reference recording that the set was made with."""
    first = min((folder() / "stages").glob("duplex_*.json"))
    return folder() / record(first.stem)["ref_audio"]


@cache
def wave(path: Path) -> FloatPcm:
    """A 16-bit recording as ``float32[n]``, value / 32768."""
    samples, _ = soundfile.read(path, dtype="int16")
    return samples.astype(np.float32) / np.float32(32768)


@cache
def microphone() -> FloatPcm:
    """The recording that sessions and front ends were fed with, 16 kHz."""
    (recording,) = (folder() / "inputs").glob("mic_*.wav")
    return wave(recording)


def stages(prefix: str) -> list[str]:
    """Names of the recorded stages with arrays that begin like that; at least one must."""
    found = sorted(path.stem for path in (folder() / "stages").glob(f"{prefix}*.npz"))
    assert found, f"no stages/{prefix}*.npz"
    return found


def pictures() -> list[str]:
    """Names of the pictures of ``inputs``."""
    return sorted(path.name for path in (folder() / "inputs").glob("img_*"))


def layered_picture() -> str:
    """The case of ``vision_tower`` (``WIDTHxHEIGHT_msLIMIT``) whose intermediate outputs are in ``debug_layers``."""
    embeddings = stage("debug_layers")["vit_embeddings"]
    recorded = {name: each for name, each in stage("vision_tower").items() if name.endswith("_embeddings")}
    same = [name for name, each in recorded.items() if each.shape == embeddings.shape and np.allclose(each, embeddings)]
    return same[0].removesuffix("_embeddings")


@cache
def image(name: str) -> RgbImage:
    """A picture of ``inputs``, ``uint8[height, width, 3]``."""
    from PIL import Image

    with Image.open(folder() / "inputs" / name) as picture:
        return np.asarray(picture.convert("RGB"))
