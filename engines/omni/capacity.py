"""What a checkpoint needs of a device's memory, from its ``config.json`` and file headers alone: nothing is loaded.

Weights and caches are exact; the working memory is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import soundfile
import torch

from ..base import EngineError, NotEnoughMemory
from ..machine import available_memory
from ..omni_settings import OmniSettings
from ..store.errors import mega
from .checkpoint import Checkpoint
from .config import AudioConfig, OmniConfig, TalkerConfig
from .token2wav.config import FRAMES_PER_CODE, MAX_CODES, TAIL_FRAMES, FlowConfig

UNUSED: Final = ("tts.model.embed_tokens.",)
"""Stored tensors that nothing reads."""
TOKEN2WAV: Final = Path("assets", "token2wav")
_FLOAT32: Final = 4
_LONGEST_VOICE_S: Final = 15.0
_MEL_HZ: Final = 50
_TALKER_POSITIONS: Final = 2048
_BRANCHES: Final = 2
"""The flow model runs with and without its condition."""
_WORK_BYTES: Final = 256_000_000
_WORK_SHARE: Final = 0.05
"""Working memory: a fixed part, and a share of the weights."""


class _Info(Protocol):
    duration: float


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes: ``weights`` of the network, ``assets`` (the speech decoder, and the voice that sessions share), ``caches``
    of one session by stage."""

    weights: int
    assets: int
    caches: Mapping[str, int] = field(default_factory=dict[str, int])
    sees: bool = False
    """The checkpoint has a vision tower."""

    @property
    def session(self) -> int:
        """All caches of one session."""
        return sum(self.caches.values())

    @property
    def working(self) -> int:
        """What is held while a unit is computed, and no longer (an estimate)."""
        return _WORK_BYTES + int(_WORK_SHARE * self.weights)

    def total(self, sessions: int) -> int:
        """All of it, with that many sessions."""
        return self.weights + self.assets + self.working + sessions * self.session

    def sessions(self, available: int) -> int:
        """How many sessions fit into ``available`` bytes; -1 when not even the network does."""
        left = available - self.total(0)
        return -1 if left < 0 else left // self.session

    def check(self, available: int, sessions: int, where: str) -> None:
        """Raise :class:`~..base.NotEnoughMemory` unless everything fits into ``available`` bytes of ``where``."""
        if self.total(sessions) <= available:
            return
        fits = self.sessions(available)
        remedy = (
            f"VENUS_OMNI__MAX_SESSIONS={fits} fits"
            if fits > 0
            else "VENUS_OMNI__DTYPE=bfloat16 halves what float32 takes, fewer VENUS_OMNI__POSITIONS shrink the cache"
        )
        each = f"{mega(self.session)} for each of {sessions} sessions"
        raise NotEnoughMemory(
            f"the network needs {mega(self.weights + self.assets)} for its weights, {each} and about "
            f"{mega(self.working)} to work with; {mega(available)} are free on {where}: close other programs; {remedy}"
        )


def read_need(folder: Path, settings: OmniSettings, dtype: torch.dtype) -> Need:
    """Look at the checkpoint in ``folder``.  Raises :class:`~.config.CheckpointError` where it is none or is cut."""
    config, checkpoint = OmniConfig.load(folder), Checkpoint.open(folder)
    used = (info for name, info in checkpoint.names.items() if not name.startswith(UNUSED))
    weights = sum(info.count * (dtype if info.dtype.is_floating_point else info.dtype).itemsize for info in used)
    assets = sum(path.stat().st_size for path in (folder / TOKEN2WAV).glob("*") if path.suffix in (".pt", ".onnx"))
    caches = {"thinker": _thinker(config, settings.positions, dtype)}
    if config.audio is not None:
        caches["audio encoder"] = _encoder(config.audio, dtype)
    if config.tts is not None:
        caches["talker"] = _talker(config.tts, dtype)
        voice = settings.voice or next(iter(voice_files(folder)), None)
        if (folder / TOKEN2WAV).is_dir():
            caches["token2wav"] = _flow(folder, settings.flow_steps, voice)
            assets += caches["token2wav"]
    return Need(weights, assets, caches, sees=config.init_vision and checkpoint.has("vpm."))


def voice_files(folder: Path) -> tuple[Path, ...]:
    """The reference voices that come with a checkpoint, its default one first."""
    found = sorted((folder / "assets").glob("*.wav"))
    return tuple(sorted(found, key=lambda path: path.name != "HT_ref_audio.wav"))


def free_memory(device: torch.device) -> int:
    """Bytes that can still be used on a device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free
    return available_memory()


def choose_device(settings: OmniSettings) -> torch.device:
    """The device that the settings ask for.  Raises :class:`~..base.EngineError` for CUDA where there is none."""
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise EngineError(
            "there is no CUDA device that torch can use: install the driver and a torch built for it, or say --device "
            "cpu (VENUS_OMNI__DEVICE)"
        )
    return torch.device(settings.device)


def choose_dtype(settings: OmniSettings, device: torch.device) -> torch.dtype:
    """The type of weights and caches that the settings ask for."""
    match settings.dtype:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case "float16":
            return torch.float16
        case "auto":
            return torch.bfloat16 if device.type == "cuda" else torch.float32


# -- the caches of a session ----------------------------------------------------------------------------------------


def _thinker(config: OmniConfig, positions: int, dtype: torch.dtype) -> int:
    return 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * positions * dtype.itemsize


def _encoder(audio: AudioConfig, dtype: torch.dtype) -> int:
    return 2 * audio.encoder_layers * audio.d_model * audio.max_source_positions * dtype.itemsize


def _talker(tts: TalkerConfig, dtype: torch.dtype) -> int:
    width = tts.hidden_size // tts.num_attention_heads * tts.num_key_value_heads
    return 2 * tts.num_hidden_layers * width * _TALKER_POSITIONS * dtype.itemsize


def _flow(folder: Path, steps: int, voice: Path | None) -> int:
    """The caches of the flow model's decoder, one for each step, and of its encoder."""
    config = FlowConfig.load(folder / TOKEN2WAV)
    decoder, encoder = config.decoder.estimator, config.encoder
    frames = int(_MEL_HZ * _seconds(voice)) + TAIL_FRAMES + FRAMES_PER_CODE * MAX_CODES
    keys = 2 * decoder.num_heads * decoder.head_dim * frames
    tails = 2 * decoder.hidden_size * 2
    codes = encoder.num_blocks * frames // FRAMES_PER_CODE + encoder.num_up_blocks * frames
    return _FLOAT32 * (steps * decoder.depth * _BRANCHES * (keys + tails) + 2 * encoder.output_size * codes)


def _seconds(voice: Path | None) -> float:
    if voice is None:
        return _LONGEST_VOICE_S
    try:
        info: _Info = soundfile.info(str(voice))
    except (OSError, soundfile.SoundFileError):
        return _LONGEST_VOICE_S
    return min(info.duration, _LONGEST_VOICE_S)
