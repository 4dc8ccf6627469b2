"""From speech codes to sound, window by window: the flow's encoder, its sampler and the vocoder as one.

The caller cuts the talker's codes into windows: 25 codes and 3 of look-ahead, which come again at the head of the next
window.  Every window is heard as soon as it is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..checkpoint import CheckpointError, fold_weight_norm, read_pt
from .config import (
    FLUSH,
    FRAMES_PER_CODE,
    LOOKAHEAD,
    MAX_CODES,
    MAX_PROMPT_FRAMES,
    MEL_HOP,
    SILENCE_CODE,
    FlowConfig,
    HiftConfig,
    Token2WavError,
)
from .euler import DitCache, Euler
from .flow import Flow
from .flow_encoder import EncoderCache
from .hift import Hift
from .noise import Noise, SeededNoise
from .state import T2WState as T2WState
from .state import VoiceBase
from .vocoder import Vocoder

if TYPE_CHECKING:
    from ..voice import VoicePrompt

_VOCODER_PREFIX = "generator."
_STEPS = 10


class Token2Wav:
    """The speech decoder of one model, shared by its sessions."""

    def __init__(self, flow: Flow, hift: Hift, *, steps: int | None = None, noise: Noise | None = None) -> None:
        self.flow = flow
        self.hift = hift
        self.steps = _STEPS if steps is None else steps
        self.noise = noise or SeededNoise(mel=flow.config.output_size)
        self._vocoder = Vocoder(hift)
        self._samplers: dict[int, Euler] = {}
        self._sampler(self.steps)

    @classmethod
    def load(
        cls, folder: Path, *, device: str | torch.device = "cpu", steps: int | None = None, noise: Noise | None = None
    ) -> Token2Wav:
        """Load ``flow.yaml``, ``flow.pt`` and ``hift.pt`` of an asset folder, in fp32.

        ``steps`` is the number of Euler steps (10 unless given; the published web demo takes 5); ``noise`` is seeded
        with 0 unless given.  Raises :class:`CheckpointError` for missing, foreign or damaged files.
        """
        config = FlowConfig.load(folder)
        vocoder = fold_weight_norm(
            {name.removeprefix(_VOCODER_PREFIX): value for name, value in read_pt(folder / "hift.pt").items()}
        )
        vocoder_config = HiftConfig.of(vocoder)
        if vocoder_config.mel != config.output_size:
            raise CheckpointError(f"{folder}: hift.pt takes {vocoder_config.mel} mel bins, not {config.output_size}")
        with torch.device("meta"):
            flow, hift = Flow(config), Hift(vocoder_config)
        _fill(flow, fold_weight_norm(read_pt(folder / "flow.pt")), folder / "flow.pt")
        _fill(hift, vocoder, folder / "hift.pt")
        return cls(flow.to(device), hift.to(device), steps=steps, noise=noise)

    @property
    def noise(self) -> Noise:
        """Where the random numbers come from."""
        return self._noise

    @noise.setter
    def noise(self, noise: Noise) -> None:
        flow = noise.flow()
        if flow.ndim != 3 or flow.shape[:2] != (1, self.flow.config.output_size):
            raise ValueError(f"the flow's noise is [1, {self.flow.config.output_size}, frames], not {list(flow.shape)}")
        self._noise = noise
        self._flow_noise = flow.to(self.flow.device, torch.float32)

    def base(self, prompt: VoicePrompt, *, steps: int | None = None, own_rate_trim: bool = False) -> T2WState:
        """Learn a voice: run its prompt, with three codes of silence for look-ahead, through the flow once.

        The result is a stream at the start of a session; clone it for every further session of that voice.  ``steps``
        is that of the model unless given.  Raises :class:`Token2WavError` for a prompt that does not fit.
        """
        codes, speaker, mel = self._checked(prompt)
        frames = mel.shape[2]
        if frames > MAX_PROMPT_FRAMES:
            most = MAX_PROMPT_FRAMES * MEL_HOP / 24_000
            raise Token2WavError(f"the reference voice is longer than the {most:g} s that fit: cut it to 3 to 15 s")
        sampler = self._sampler(steps or self.steps)
        encoder = EncoderCache(self.flow.config.encoder, frames, self.flow.device)
        cache = self._flow_cache(sampler.steps, frames)
        mu = self.flow.mu(self._ids([*codes, *[SILENCE_CODE] * LOOKAHEAD]), encoder, last=False)
        sampler(self._flow_noise[:, :, :frames], mu, speaker, mel, cache)
        voice = VoiceBase(self.flow.config, sampler.steps, frames, speaker, encoder, cache)
        return T2WState(voice, own_rate_trim=own_rate_trim)

    def mel(self, state: T2WState, codes: Sequence[int], *, last: bool) -> Tensor:
        """The flow alone: the mel ``[1, 80, T]`` of a window, T as in :meth:`~.flow.Flow.mu`."""
        if state.ended:
            raise Token2WavError("the turn has ended: begin the next one with begin_turn()")
        if not (1 if last else FLUSH) <= len(codes) <= MAX_CODES:
            raise Token2WavError(
                f"a window has {FLUSH} to {MAX_CODES} codes (fewer only at the end of a turn), not {len(codes)}"
            )
        ids = self._ids(codes)
        mu = self.flow.mu(ids, state.encoder, last=last)
        # the noise goes on with the cache, and so stands still once the cache is full
        start = state.flow.length
        noise = self._flow_noise[:, :, start : start + mu.shape[2]]
        mel = self._sampler(state.base.steps)(noise, mu, state.base.speaker, None, state.flow)
        state.trim()
        state.ended = last
        return mel

    def stream(self, state: T2WState, codes: Sequence[int], *, last: bool) -> Tensor:
        """Render a window: ``float32[n]`` at 24 kHz, on the model's device; 24,000 samples for 25 + 3 codes.

        8 to 28 codes, the final three of which come again at the head of the next call; or, if ``last``, all that is
        left, 1 to 28.  A turn begins with 160 ms of zeros.  After the last call the state waits for
        :meth:`T2WState.begin_turn`.  Raises :class:`Token2WavError`, and then nothing has changed.
        """
        mel = self.mel(state, codes, last=last)
        return self._vocoder.stream(state.vocoder, mel, self.noise, last=last)

    def synthesise(self, prompt: VoicePrompt, codes: Sequence[int], *, steps: int | None = None) -> Tensor:
        """A whole sequence of codes at once: ``float32[960 N]`` at 24 kHz."""
        mel = self.synthesise_mel(prompt, codes, steps=steps)
        noise = self.noise.vocoder(mel.shape[2] * MEL_HOP, 0).to(mel.device)
        wave: Tensor = self.hift(mel, noise)
        return wave[0]

    def synthesise_mel(self, prompt: VoicePrompt, codes: Sequence[int], *, steps: int | None = None) -> Tensor:
        """The mel ``[1, 80, 2 N]`` of :meth:`synthesise`."""
        if not codes:
            raise Token2WavError("there are no codes to render")
        known, speaker, mel = self._checked(prompt)
        ids = self._ids([*known, *codes])
        frames = FRAMES_PER_CODE * ids.shape[1]
        if frames > self._flow_noise.shape[2]:
            raise Token2WavError(f"{len(codes)} codes are too many at once: render them as a stream")
        sampler = self._sampler(steps or self.steps)
        mu = self.flow.mu(ids, EncoderCache(self.flow.config.encoder, frames, self.flow.device), last=True)
        follow = torch.zeros_like(mu)
        follow[:, :, : mel.shape[2]] = mel
        cache = self._flow_cache(sampler.steps, frames)
        return sampler(self._flow_noise[:, :, :frames], mu, speaker, follow, cache)[:, :, mel.shape[2] :]

    def _checked(self, prompt: VoicePrompt) -> tuple[list[int], Tensor, Tensor]:
        """The prompt's codes, its speaker ``[1, 80]`` and its mel ``[1, 80, T]``."""
        config, device = self.flow.config, self.flow.device
        codes = [int(code) for code in prompt.codes]
        vector = torch.as_tensor(prompt.speaker, dtype=torch.float32).reshape(1, -1)
        mel = torch.as_tensor(prompt.mel, dtype=torch.float32)
        if vector.shape[1] != config.spk_embed_dim:
            raise Token2WavError(f"a speaker vector has {config.spk_embed_dim} numbers, not {vector.shape[1]}")
        if not codes or mel.shape != (FRAMES_PER_CODE * len(codes), config.output_size):
            raise Token2WavError(
                f"a voice of {len(codes)} codes needs a mel of [{FRAMES_PER_CODE * len(codes)}, {config.output_size}], "
                f"not {list(mel.shape)}: enrol it again"
            )
        return codes, self.flow.speaker(vector.to(device)), mel.to(device).T[None]

    def _ids(self, codes: Sequence[int]) -> Tensor:
        most = self.flow.config.vocab_size
        if strange := [code for code in codes if not 0 <= code < most]:
            raise Token2WavError(f"speech codes lie between 0 and {most - 1}: {strange[0]} is none")
        return torch.tensor([list(codes)], device=self.flow.device)

    def _flow_cache(self, steps: int, frames: int) -> DitCache:
        return DitCache(steps, self.flow.config.decoder.estimator, frames, self.flow.device)

    def _sampler(self, steps: int) -> Euler:
        if steps not in self._samplers:
            decoder = self.flow.config.decoder
            self._samplers[steps] = Euler(self.flow.decoder.estimator, steps, decoder.inference_cfg_rate)
        return self._samplers[steps]


def _fill(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Give a module without memory its tensors, in fp32; raises :class:`CheckpointError` naming what does not fit."""
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    missing = wanted.keys() - weights.keys()
    unknown = weights.keys() - wanted.keys()
    if missing or unknown:
        fault = f"lacks {min(missing)}" if missing else f"holds {min(unknown)}, which the network does not have"
        raise CheckpointError(f"{path} {fault}: it is not the file that belongs to its flow.yaml")
    for name, shape in wanted.items():
        if tuple(weights[name].shape) != shape:
            raise CheckpointError(f"{path}: {name} is {list(weights[name].shape)}, and {list(shape)} is needed")
    module.load_state_dict({name: weights[name].float() for name in wanted}, assign=True)
    module.requires_grad_(requires_grad=False).eval()
