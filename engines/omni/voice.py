"""A reference voice: checked, and turned once into all that a session needs to speak with it."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from ..base import INPUT_HZ, EngineError, FloatPcm
from .prompt_mel import fit_frames, prompt_mel
from .voice_assets import digest, speaker_vector, speech_codes

_LOG: Final = logging.getLogger(__name__)

SHORTEST_S: Final = 3.0
LONGEST_S: Final = 15.0
FRAMES_PER_CODE: Final = 2

_SILENT: Final = 1e-3
_LOUDEST: Final = 2.0
_CHANNELS: Final = 32
_RATES: Final = range(4_000, 768_001)
_FORMAT: Final = "1"
"""Part of the key of a stored voice; raised whenever the same recording gives something else."""


class VoiceError(EngineError):
    """A recording cannot serve as a reference voice; the message says why."""


@dataclass(frozen=True)
class VoicePrompt:
    """Everything that follows from a reference recording and the released graphs alone."""

    wave16k: FloatPcm
    """``float32[n]`` at 16 kHz: what the thinker hears before the first unit."""
    codes: npt.NDArray[np.int64]
    """``int64[codes]``, 25 a second: what the flow model takes as said before."""
    speaker: npt.NDArray[np.float32]
    """``float32[192]``."""
    mel: npt.NDArray[np.float32]
    """``float32[2 * codes, 80]``: how it sounded."""


def enroll(wave: npt.NDArray[np.floating[Any]], rate: int, assets: Path, cache: Path | None = None) -> VoicePrompt:
    """Make a :class:`VoicePrompt` of 3 to 15 seconds of speech.

    ``wave`` is ``float[n]`` or ``float[n, channels]`` in [-1, 1] at ``rate`` samples a second, ``assets`` the folder
    with the two released graphs.  With ``cache`` (a folder, created for its owner alone) the result is kept and found
    again under a hash of the recording and the graphs; what cannot be read there is made anew.

    Raises :class:`VoiceError` for a recording that is too short, too long, silent or not finite, and
    :class:`EngineError` for missing or foreign graphs.
    """
    mono = _checked(wave, rate)
    if cache is None:
        return _make(mono, rate, assets)
    key = hashlib.sha256(f"{_FORMAT} {rate} {len(mono)} {digest(assets)}".encode() + mono.tobytes()).hexdigest()
    path = cache / f"{key}.npz"
    stored = _load(path)
    if stored is not None:
        return stored
    prompt = _make(mono, rate, assets)
    try:
        _store(path, prompt)
    except OSError as error:
        _LOG.warning("The voice is not kept for the next time: %s", error)
    return prompt


def enroll_file(path: Path, assets: Path, cache: Path | None = None) -> VoicePrompt:
    """:func:`enroll` of an audio file."""
    try:
        with soundfile.SoundFile(path) as file:
            rate = int(file.samplerate)
            # One second more than is allowed, so that a file of hours is refused without being read.
            wave = cast("FloatPcm", file.read(int(rate * (LONGEST_S + 1)), dtype="float32"))
    except (OSError, RuntimeError) as error:
        raise VoiceError(f"The voice {path} cannot be read: give a wav or flac file ({error})") from error
    return enroll(wave, rate, assets, cache)


def _checked(wave: npt.NDArray[np.floating[Any]], rate: int) -> FloatPcm:
    """The recording as ``float32[n]``."""
    if rate not in _RATES:
        raise VoiceError(f"A voice of {rate} samples per second: give one of {_RATES[0]} to {_RATES[-1]}")
    if not np.issubdtype(wave.dtype, np.floating):
        raise VoiceError("A voice of whole numbers: give floating-point samples in [-1, 1]")
    if wave.ndim not in (1, 2) or (wave.ndim == 2 and not 0 < wave.shape[1] <= _CHANNELS):
        raise VoiceError(f"A voice of shape {wave.shape}: give [samples] or [samples, channels]")
    seconds = len(wave) / rate
    if seconds < SHORTEST_S:
        raise VoiceError(f"The voice lasts {seconds:.2f} s: record at least {SHORTEST_S:.0f} s of speech")
    if seconds > LONGEST_S:
        raise VoiceError(f"The voice lasts more than {LONGEST_S:.0f} s: cut it to that length")
    if not np.isfinite(wave).all():
        raise VoiceError("The voice holds samples that are not numbers: export the recording again")
    mono = np.ascontiguousarray(wave if wave.ndim == 1 else wave.mean(axis=1), dtype=np.float32)
    peak = float(np.abs(mono).max())
    if peak < _SILENT:
        raise VoiceError("The voice is silent: check the microphone, and that its channels do not cancel each other")
    if peak > _LOUDEST:
        raise VoiceError(f"The voice peaks at {peak:.0f}: scale its samples to [-1, 1]")
    return mono


def _make(mono: FloatPcm, rate: int, assets: Path) -> VoicePrompt:
    wave16k = mono if rate == INPUT_HZ else np.asarray(soxr.resample(mono, rate, INPUT_HZ), np.float32)
    codes = speech_codes(wave16k, assets)
    return VoicePrompt(
        wave16k=wave16k,
        codes=codes,
        speaker=speaker_vector(wave16k, assets),
        # Of the original recording, whose upper bands the lower rate has lost.
        mel=fit_frames(prompt_mel(mono, rate), FRAMES_PER_CODE * len(codes)),
    )


def _load(path: Path) -> VoicePrompt | None:
    """What was stored, or ``None`` if there is nothing that can be used."""
    if not path.is_file():
        return None
    try:
        # Opened here, because numpy leaves a file open that it finds damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            prompt = VoicePrompt(**{field.name: arrays[field.name] for field in fields(VoicePrompt)})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        _LOG.warning("A stored voice cannot be read and is made anew: %s", path)
        return None
    return prompt if _whole(prompt) else None


def _whole(prompt: VoicePrompt) -> bool:
    ranks = [getattr(prompt, name).ndim for name in ("wave16k", "codes", "speaker", "mel")]
    kinds = [prompt.wave16k.dtype, prompt.codes.dtype, prompt.speaker.dtype, prompt.mel.dtype]
    return (
        ranks == [1, 1, 1, 2]
        and kinds == [np.float32, np.int64, np.float32, np.float32]
        and len(prompt.mel) == FRAMES_PER_CODE * len(prompt.codes)
    )


def _store(path: Path, prompt: VoicePrompt) -> None:
    """Write the file whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **{field.name: getattr(prompt, field.name) for field in fields(VoicePrompt)})
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
