"""The ears of the omni network: with the recorded weights, and with random ones of a small size."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from realtime_venus.engines.base import FloatPcm
from realtime_venus.engines.omni.audio import AudioCache, AudioEncoder
from realtime_venus.engines.omni.checkpoint import Checkpoint
from realtime_venus.engines.omni.config import OmniConfig
from realtime_venus.engines.omni.hearing import Hearing, HearingRules
from realtime_venus.engines.omni.projector import AudioProjector

from . import golden


@cache
def config() -> OmniConfig:
    """The configuration of the recorded checkpoint."""
    return OmniConfig.load(golden.model_dir())


@cache
def encoder() -> AudioEncoder:
    """The recorded encoder, in float32."""
    audio = config().audio
    assert audio is not None
    with torch.device("meta"):
        module = AudioEncoder(audio)
    Checkpoint.open(golden.model_dir()).load_into(module, "apm", device="cpu", dtype=torch.float32)
    return module


@cache
def projector() -> AudioProjector:
    """The recorded projector, in float32."""
    with torch.device("meta"):
        module = AudioProjector(config())
    Checkpoint.open(golden.model_dir()).load_into(module, "audio_projection_layer", device="cpu", dtype=torch.float32)
    return module


def recorded_ears(rules: HearingRules | None = None) -> Hearing:
    """A session's ears with the recorded weights."""
    return Hearing(encoder(), projector(), config(), rules=rules)


@cache
def small_config(positions: int = 200) -> OmniConfig:
    """Two narrow layers and room for ``positions`` states."""
    return OmniConfig.model_validate(
        {
            "vocab_size": 8,
            "hidden_size": 24,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "rope_theta": 10_000,
            "audio_config": {
                "d_model": 16,
                "encoder_layers": 2,
                "encoder_attention_heads": 2,
                "encoder_ffn_dim": 64,
                "max_source_positions": positions,
            },
        }
    )


@cache
def small_modules(positions: int = 200) -> tuple[AudioEncoder, AudioProjector]:
    """Encoder and projector with random weights."""
    shape = small_config(positions)
    assert shape.audio is not None
    modules = AudioEncoder(shape.audio), AudioProjector(shape)
    draws = torch.Generator().manual_seed(5)
    for module in modules:
        for name, parameter in module.named_parameters():
            spread = 1 if "norm" in name or "positions" in name else (2 / parameter.shape[-1]) ** 0.5
            parameter.requires_grad_(False).normal_(0, spread, generator=draws)
    return modules


def small_ears(
    rules: HearingRules | None = None, *, positions: int = 200, cache: AudioCache | None = None, slot: int = 0
) -> Hearing:
    """A session's ears with random weights."""
    return Hearing(*small_modules(positions), small_config(positions), rules=rules, cache=cache, slot=slot)


def noise(seconds: float, seed: int, loudness: float = 0.05) -> FloatPcm:
    """Noise whose loudness wanders over four decades."""
    random = np.random.RandomState(seed)
    samples = int(seconds * 16_000)
    levels = np.repeat(10.0 ** random.uniform(-3, 1, samples // 1000 + 1), 1000)[:samples]
    return np.clip(random.standard_normal(samples) * levels * loudness, -1, 1).astype(np.float32)
