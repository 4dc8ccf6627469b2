"""The speech decoder with its recorded weights, voice and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from realtime_venus.engines.omni.config import OmniConfig
from realtime_venus.engines.omni.token2wav.noise import FLOW_FRAMES, HARMONICS
from realtime_venus.engines.omni.token2wav.stream import T2WState, Token2Wav
from realtime_venus.engines.omni.voice import VoicePrompt
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from . import golden


def assets() -> Path:
    """The folder of the recorded decoder."""
    return golden.model_dir() / "assets" / "token2wav"


class RecordedNoise:
    """The numbers that the reference code was given."""

    def flow(self) -> Tensor:
        channels = golden.stage("t2w_prompt")["prompt_mel"].shape[1]
        return normal(golden.seeds()["flow_noise_seed"], 1, channels, FLOW_FRAMES)

    def vocoder(self, samples: int, call: int) -> Tensor:
        seed = golden.seeds()["hift_noise_seed_base"] + 2 * call
        return normal(seed, 1, samples, HARMONICS)


def recorded_steps() -> int:
    """Euler steps of the recordings whose names state none: those of the configuration."""
    talker = OmniConfig.load(golden.model_dir()).tts
    assert talker is not None
    return talker.s3_stream_n_timesteps


@cache
def recorded_decoder(steps: int | None = None) -> Token2Wav:
    """The recorded weights with the recorded noise."""
    return Token2Wav.load(assets(), steps=steps, noise=RecordedNoise())


@cache
def recorded_voice() -> VoicePrompt:
    """The recorded reference voice, as far as the decoder needs it."""
    arrays = golden.stage("t2w_prompt")
    return VoicePrompt(
        wave16k=np.zeros(0, np.float32),
        codes=arrays["prompt_tokens"].astype(np.int64),
        speaker=arrays["spk_emb"][0],
        mel=arrays["prompt_mel"],
    )


@cache
def _base(steps: int, own_rate_trim: bool) -> T2WState:
    return recorded_decoder(steps).base(recorded_voice(), own_rate_trim=own_rate_trim)


def session(steps: int, *, own_rate_trim: bool = False) -> T2WState:
    """A new session's stream with the recorded voice."""
    return _base(steps, own_rate_trim).clone()


def tensor(array: npt.NDArray[Any]) -> Tensor:
    """The same numbers as a tensor."""
    return torch.as_tensor(array)


def close(given: Tensor | npt.ArrayLike, recorded: Tensor | npt.ArrayLike, atol: float, what: str = "") -> None:
    """Assert the same shape, and no element farther apart than ``atol``."""
    one, other = np.asarray(given), np.asarray(recorded)
    assert one.shape == other.shape, what
    np.testing.assert_allclose(one, other, rtol=0, atol=atol, err_msg=what)


def normal(seed: int, *shape: int) -> Tensor:
    """A seeded array of the set, as a tensor."""
    return tensor(golden.normal(seed, *shape))


class Watch:
    """Remembers what modules were given first and what they gave, in their latest call; use it as a context."""

    def __init__(self, **modules: nn.Module) -> None:
        self._modules = modules
        self._handles: list[RemovableHandle] = []
        self.given: dict[str, Tensor] = {}
        self.gave: dict[str, Tensor] = {}

    def __enter__(self) -> Watch:
        for name, module in self._modules.items():
            self._handles.append(module.register_forward_hook(self._keep(name)))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def __getitem__(self, name: str) -> Tensor:
        return self.gave[name]

    def _keep(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self.given[name], self.gave[name] = inputs[0].clone(), output.clone()

        return hook
