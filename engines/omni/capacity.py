"""What a checkpoint needs of a device's memory, from its ``config.json`` and file headers alone: nothing is loaded.

Weights and caches are exact; the working memory is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import soundfile
import torch

from ..omni_settings import OmniSettings
from .checkpoint import Checkpoint
from .config import AudioConfig, OmniConfig, TalkerConfig
from .memory import Need, find_device
from .model import TOKEN2WAV, Network, of_checkpoint
from .talker import POSITIONS
from .token2wav.config import FRAMES_PER_CODE, MAX_CODES, TAIL_FRAMES, FlowConfig

_FLOAT32: Final = 4
_LONGEST_VOICE_S: Final = 15.0
_MEL_HZ: Final = 50
_BRANCHES: Final = 2
"""The flow model runs with and without its condition."""


class _Info(Protocol):
    duration: float


def read_need(folder: Path, settings: OmniSettings, dtype: torch.dtype) -> Need:
    """Look at the checkpoint in ``folder``, for conversations.

    Raises :class:`~.config.CheckpointError` where it is none or is cut.
    """
    config = OmniConfig.load(folder)
    network = of_checkpoint(config, Checkpoint.open(folder))
    assets = sum(path.stat().st_size for path in (folder / TOKEN2WAV).glob("*") if path.suffix in (".pt", ".onnx"))
    caches = {"thinker": _thinker(config, settings.positions, dtype)}
    if config.audio is not None:
        caches["audio encoder"] = _encoder(config.audio, dtype)
    if config.tts is not None:
        caches["talker"] = _talker(config.tts, dtype)
        if (folder / TOKEN2WAV).is_dir():
            voices = (*([settings.voice] if settings.voice else []), *voice_files(folder))
            each = [_flow(folder, settings.flow_steps, voice) for voice in voices or (None,)]
            caches["token2wav"] = max(each)
            assets += sum(each)  # the state that sessions of a voice begin with, once for each voice
    return _need(network, dtype, assets, caches)


def read_need_of_question(folder: Path, positions: int, dtype: torch.dtype) -> Need:
    """The same for one question of that many positions, its answer included: without the voice, and one cache."""
    config = OmniConfig.load(folder)
    network = of_checkpoint(config, Checkpoint.open(folder), speaks=False)
    caches = {"thinker": _thinker(config, positions, dtype)}
    return _need(network, dtype, 0, caches)


def _need(network: Network, dtype: torch.dtype, assets: int, caches: Mapping[str, int]) -> Need:
    return Need(
        network.numel() * dtype.itemsize,
        assets,
        caches,
        sees=network.vision is not None,
        hears=network.encoder is not None,
        speaks=network.talker is not None,
    )


def voice_files(folder: Path) -> tuple[Path, ...]:
    """The reference voices that come with a checkpoint, its default one first."""
    found = sorted((folder / "assets").glob("*.wav"))
    return tuple(sorted(found, key=lambda path: path.name != "HT_ref_audio.wav"))


def choose_device(settings: OmniSettings) -> torch.device:
    """The device that the settings ask for.  Raises :class:`~..base.EngineError` for CUDA where there is none."""
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return find_device(settings.device)


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
    return 2 * tts.num_hidden_layers * width * POSITIONS * dtype.itemsize


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
