"""Thinker and talker of the recorded checkpoint."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from realtime_venus.engines.omni.checkpoint import Checkpoint
from realtime_venus.engines.omni.config import OmniConfig, TalkerConfig
from realtime_venus.engines.omni.talker import Talker
from realtime_venus.engines.omni.thinker import Thinker
from torch import Tensor, nn

from tests.kit import golden


@cache
def config() -> OmniConfig:
    """Of the checkpoint."""
    return OmniConfig.load(golden.model_dir())


def talker_config() -> TalkerConfig:
    """Its section for the talker."""
    section = config().tts
    assert section is not None
    return section


@cache
def thinker(dtype: torch.dtype = torch.float32) -> Thinker:
    """Weights only: callers bring the cache."""
    with torch.device("meta"):
        module = Thinker(config())
    Checkpoint.open(golden.model_dir()).load_into(module, "llm.", device="cpu", dtype=dtype)
    return module


@cache
def talker(dtype: torch.dtype = torch.float32) -> Talker:
    """Weights only: callers bring the state."""
    with torch.device("meta"):
        module = Talker(talker_config())
    checkpoint = Checkpoint.open(golden.model_dir())
    checkpoint.load_into(module, "tts.", device="cpu", dtype=dtype, ignore=("model.embed_tokens.weight",))
    return module


@contextmanager
def outputs(**modules: nn.Module) -> Generator[dict[str, list[Tensor]]]:
    """What each of the named modules returned meanwhile, call by call."""
    seen: dict[str, list[Tensor]] = {name: [] for name in modules}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: object, output: Tensor) -> None:
            seen[name].append(output.clone())

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def distance(ours: Tensor, recorded: npt.NDArray[Any]) -> float:
    """The largest deviation; shapes must be the same."""
    assert tuple(ours.shape) == recorded.shape
    if recorded.size == 0:
        return 0.0
    return float(np.abs(cast("npt.NDArray[np.float64]", ours.double().numpy()) - recorded).max())
