"""The user's audio as LiveKit hands it over: frames of any rate, without a time of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol, cast

import numpy as np
import soxr

from ...engines.base import INPUT_HZ, FloatPcm
from ..rooms.base import AudioChunk
from ..rooms.input import InputCounters, UserAudio
from .compat import rtc

_ABSENT_S = 0.5
"""Without audio for so long, silence stands in for it."""


class _Stream(Protocol):
    def resample_chunk(self, x: FloatPcm, last: bool = False) -> FloatPcm: ...


class _MakeStream(Protocol):
    def __call__(
        self, in_rate: float, out_rate: float, num_channels: int, dtype: Literal["float32"], quality: Literal["MQ"]
    ) -> _Stream: ...


_make_stream = cast(_MakeStream, soxr.ResampleStream)


class Microphone:
    """Counts samples: what comes is appended at once, also faster than real time, and silence stands in for what does
    not come for half a second (a muted microphone, a participant who left), since the session's time goes on.
    """

    def __init__(self, backlog_ms: int) -> None:
        self._audio = UserAudio(backlog_ms)
        self._rate = INPUT_HZ
        self._resampler: _Stream | None = None
        self._covered_s: float | None = None
        self._last_s: float | None = None
        self._checked_s: float | None = None

    @property
    def counters(self) -> InputCounters:
        """What was received, filled and dropped."""
        return self._audio.counters

    @property
    def milliseconds(self) -> float:
        """Media time at the end of the audio so far."""
        return self._audio.next_position * 1000 / INPUT_HZ

    def chunks(self) -> AsyncIterator[AudioChunk]:
        """The stream of chunks, until :meth:`close`."""
        return self._audio.chunks()

    def close(self) -> None:
        """End the stream."""
        self._audio.close()

    def push(self, frame: rtc.AudioFrame, now_s: float) -> None:
        """Append ``frame`` (interleaved int16 of any rate and any number of channels), which came at ``now_s``."""
        interleaved = np.frombuffer(frame.data, dtype=np.int16)
        samples = interleaved.reshape(-1, max(1, frame.num_channels)).astype(np.float32).mean(axis=1) / 32768.0
        self._covered_s = self._last_s = now_s
        mono = self._resample(samples.astype(np.float32), frame.sample_rate)
        if mono.size:
            self._audio.counters.received += 1
            self._audio.put(mono, self._audio.next_position, now_s)

    def fill(self, now_s: float) -> None:
        """Let time go on; to be called many times a second.

        After a stall of the caller there may be audio that has come and waits to be pushed: then nothing is filled.
        """
        checked, self._checked_s = self._checked_s, now_s
        if self._covered_s is None or checked is None:
            self._covered_s = self._last_s = now_s
            return
        absent = now_s - (self._last_s or 0.0) > _ABSENT_S
        stalled = now_s - checked > _ABSENT_S / 2
        missing = round((now_s - self._covered_s) * INPUT_HZ)
        if absent and not stalled and missing > 0:
            self._covered_s = now_s
            self._audio.counters.filled_samples += missing
            self._audio.put(np.zeros(missing, dtype=np.float32), self._audio.next_position, now_s, real=False)

    def _resample(self, samples: FloatPcm, rate: int) -> FloatPcm:
        if rate != self._rate:
            self._rate = rate
            self._resampler = None if rate == INPUT_HZ else _make_stream(rate, INPUT_HZ, 1, "float32", "MQ")
        if self._resampler is None:
            return samples
        return self._resampler.resample_chunk(samples)
