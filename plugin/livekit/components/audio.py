"""LiveKit's audio frames (int16, any rate, any channels) to what our models take (mono float32, 16 kHz), and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

import numpy as np
import soxr

from ....engines.base import INPUT_HZ, FloatPcm, MissingExtra

try:
    from livekit import rtc
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

_FULL_SCALE: Final = 32768.0


class _Stream(Protocol):
    def resample_chunk(self, x: FloatPcm, last: bool = False) -> FloatPcm: ...


class _Soxr(Protocol):
    """What is used of the untyped module ``soxr``."""

    def resample(self, x: FloatPcm, in_rate: float, out_rate: float) -> FloatPcm: ...

    def ResampleStream(  # noqa: N802 - soxr's name
        self, in_rate: float, out_rate: float, num_channels: int, *, dtype: str, quality: str
    ) -> _Stream: ...


_SOXR: Final = cast(_Soxr, cast(Any, soxr))


def mono(frame: rtc.AudioFrame) -> FloatPcm:
    """The frame's samples in [-1, 1], its channels mixed evenly."""
    samples = np.frombuffer(frame.data, np.int16).astype(np.float32) / _FULL_SCALE
    if frame.num_channels == 1:
        return samples
    whole = samples.size // frame.num_channels * frame.num_channels
    return samples[:whole].reshape(-1, frame.num_channels).mean(axis=1, dtype=np.float32)


def joined(frames: rtc.AudioFrame | Sequence[rtc.AudioFrame]) -> FloatPcm:
    """All the frames one after the other, at 16 kHz; each may be of another rate."""
    listed = [frames] if isinstance(frames, rtc.AudioFrame) else frames
    stretches: list[tuple[int, list[FloatPcm]]] = []
    for frame in listed:
        if not stretches or stretches[-1][0] != frame.sample_rate:
            stretches.append((frame.sample_rate, []))
        stretches[-1][1].append(mono(frame))
    parts = [_at_input_rate(np.concatenate(samples), rate_hz) for rate_hz, samples in stretches]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _at_input_rate(samples: FloatPcm, rate_hz: int) -> FloatPcm:
    return samples if rate_hz == INPUT_HZ or not samples.size else _SOXR.resample(samples, rate_hz, INPUT_HZ)


class Mono16k:
    """A stream of frames as one stream of samples at 16 kHz.  A change of rate in it is a new start of the resampler,
    which costs some milliseconds of sound."""

    def __init__(self) -> None:
        self._rate_hz = INPUT_HZ
        self._resampler: _Stream | None = None

    def push(self, frame: rtc.AudioFrame) -> FloatPcm:
        """The samples that are complete with this frame."""
        if frame.sample_rate != self._rate_hz:
            self._rate_hz = frame.sample_rate
            same = frame.sample_rate == INPUT_HZ
            self._resampler = (
                None if same else _SOXR.ResampleStream(frame.sample_rate, INPUT_HZ, 1, dtype="float32", quality="HQ")
            )
        samples = mono(frame)
        return samples if self._resampler is None else self._resampler.resample_chunk(samples)


def frame_of(samples: FloatPcm) -> rtc.AudioFrame:
    """A frame of 16 kHz mono audio."""
    data = np.rint(np.clip(samples, -1, 1) * 32767).astype(np.int16).tobytes()
    return rtc.AudioFrame(data, INPUT_HZ, 1, samples.size)


def cut_at_pauses(audio: FloatPcm, most_s: float) -> list[FloatPcm]:
    """The audio (16 kHz) in pieces of at most ``most_s``, cut at the quietest place of the last third of each."""
    most = int(most_s * INPUT_HZ)
    pieces: list[FloatPcm] = []
    while audio.size > most:
        cut = _quietest(audio, most * 2 // 3, most)
        pieces.append(audio[:cut])
        audio = audio[cut:]
    return [*pieces, audio]


def _quietest(audio: FloatPcm, start: int, end: int) -> int:
    """The middle of the quietest 200 ms between two places."""
    window = INPUT_HZ // 5
    energy = np.concatenate([np.zeros(1), np.cumsum(np.square(audio[start:end], dtype=np.float64))])
    return start + int(np.argmin(energy[window:] - energy[:-window])) + window // 2
