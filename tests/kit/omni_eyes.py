"""The recorded vision tower and resampler, and the recorded pictures."""

from __future__ import annotations

import re
from functools import cache

import torch
from realtime_venus.engines.omni.checkpoint import Checkpoint
from realtime_venus.engines.omni.config import OmniConfig, VisionConfig
from realtime_venus.engines.omni.images import ImageSlices, slice_image
from realtime_venus.engines.omni.resampler import Resampler
from realtime_venus.engines.omni.vision import VisionTower, used_layers

from . import golden


@cache
def config() -> OmniConfig:
    return OmniConfig.load(golden.model_dir())


def vision_config() -> VisionConfig:
    section = config().vision
    assert section is not None
    return section


@cache
def tower() -> VisionTower:
    """As used, float32."""
    checkpoint, section = Checkpoint.open(golden.model_dir()), vision_config()
    stored = checkpoint.blocks("vpm.encoder.layers")
    layers = used_layers(stored, section.num_hidden_layers, config().drop_vision_last_layer)
    with torch.device("meta"):
        module = VisionTower(section, layers)
    dropped = tuple(f"encoder.layers.{number}.*" for number in range(layers, stored))
    checkpoint.load_into(module, "vpm", device="cpu", dtype=torch.float32, ignore=dropped)
    return module


@cache
def resampler() -> Resampler:
    """As used, float32."""
    with torch.device("meta"):
        module = Resampler(config())
    Checkpoint.open(golden.model_dir()).load_into(module, "resampler", device="cpu", dtype=torch.float32)
    return module


def cases(stage: str) -> list[str]:
    """Names of the picture sizes and slice limits in a stage: ``640x480_ms2`` and the like."""
    found = {match[1] for key in golden.stage(stage) if (match := re.match(r"(\d+x\d+_ms\d+)_", key))}
    return sorted(found)


def parsed(case: str) -> tuple[int, int, int]:
    """Width, height and most slices."""
    match = re.fullmatch(r"(\d+)x(\d+)_ms(\d+)", case)
    assert match is not None
    width, height, most = match.groups()
    return int(width), int(height), int(most)


def has_picture(case: str) -> bool:
    """Whether the picture itself is part of the set."""
    width, height, _ = parsed(case)
    return (golden.folder() / "inputs" / f"img_{width}x{height}.png").is_file()


@cache
def slices(case: str) -> ImageSlices:
    """The recorded picture of a case, cut."""
    width, height, most = parsed(case)
    return slice_image(golden.image(f"img_{width}x{height}.png"), config().slices, most)
