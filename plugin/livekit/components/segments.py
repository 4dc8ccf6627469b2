"""From a speech probability every 32 ms to where speech begins and ends.  Pure: windows in, moments out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ....engines.base import FloatPcm

WINDOW: Final = 512
"""Samples of a window at 16 kHz."""
WINDOW_S: Final = WINDOW / 16_000


class VadOptions(BaseModel):
    """What counts as speech."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_speech_s: float = Field(default=0.1, ge=0)
    """Speech of this length begins an utterance."""
    min_silence_s: float = Field(default=0.4, ge=0)
    """Silence of this length ends it."""
    prefix_padding_s: float = Field(default=0.5, ge=0)
    """Audio kept from before the speech."""
    max_buffered_speech_s: float = Field(default=120.0, gt=0)
    """Longest utterance that is kept whole; of a longer one the end is not kept."""
    activation_threshold: float = Field(default=0.5, gt=0, le=1)
    """Probability from which a window is speech."""
    deactivation_threshold: float = Field(default=0.35, gt=0, le=1)
    """Probability up to which a window within an utterance is silence."""

    @model_validator(mode="after")
    def _thresholds_are_in_order(self) -> VadOptions:
        if self.deactivation_threshold > self.activation_threshold:
            raise ValueError("deactivation_threshold must not be above activation_threshold")
        return self


class Kind(StrEnum):
    """What happened."""

    WINDOW = "window"
    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at the end of a window.

    ``speech_s`` and ``silence_s`` are the lengths of the utterance and of the silence before it or after it;
    ``run_speech_s`` and ``run_silence_s`` of the unbroken speech or silence that led here.
    """

    kind: Kind
    samples: int
    """Since the stream began, or was flushed."""
    speaking: bool
    speech_s: float
    silence_s: float
    run_speech_s: float
    run_silence_s: float
    audio: FloatPcm
    """The window; at the start and the end of speech all of it, with its prefix."""


class Segmenter:
    """One stream's state.  ``options`` may be exchanged at any time."""

    def __init__(self, options: VadOptions) -> None:
        self.options = options
        self.dropped = 0
        """Windows of the present utterance that were not kept, because it is too long."""
        self.reset()

    def reset(self) -> None:
        """Forget everything, as at the start of a stream."""
        self._kept: deque[FloatPcm] = deque()
        self._windows = 0
        self._speaking = False
        self._speech = self._silence = 0
        self._run_speech = self._run_silence = 0
        self.dropped = 0

    def feed(self, window: FloatPcm, probability: float) -> list[Moment]:
        """Take a window of 512 samples and how likely it is speech."""
        self._windows += 1
        self._keep(window)
        if self._speaking:
            self._speech += 1
        else:
            self._silence += 1
        moments = [self._moment(Kind.WINDOW, window)]
        options = self.options
        threshold = options.deactivation_threshold if self._speaking else options.activation_threshold
        # Within an utterance a window at the lower threshold is silence, outside one at the upper threshold is speech.
        if probability > threshold or (not self._speaking and probability >= threshold):
            self._run_speech, self._run_silence = self._run_speech + 1, 0
            if not self._speaking and self._run_speech * WINDOW_S >= options.min_speech_s:
                moments.append(self._start())
        else:
            self._run_speech, self._run_silence = 0, self._run_silence + 1
            if self._speaking and self._run_silence * WINDOW_S >= options.min_silence_s:
                moments.append(self._end())
            if not self._speaking:
                self._forget()
        return moments

    def _start(self) -> Moment:
        self._speaking, self._silence, self._speech = True, 0, self._run_speech
        return self._moment(Kind.STARTED, np.concatenate(self._kept))

    def _end(self) -> Moment:
        self._speaking, self._silence = False, self._run_silence
        self._speech = max(0, self._speech - self._run_silence)
        moment = self._moment(Kind.ENDED, np.concatenate(self._kept))
        self._speech = self.dropped = 0
        return moment

    def _keep(self, window: FloatPcm) -> None:
        most = self.options.max_buffered_speech_s + self.options.prefix_padding_s
        if len(self._kept) * WINDOW_S < most:
            self._kept.append(window)
        else:
            self.dropped += 1

    def _forget(self) -> None:
        while len(self._kept) * WINDOW_S > self.options.prefix_padding_s:
            self._kept.popleft()

    def _moment(self, kind: Kind, audio: FloatPcm) -> Moment:
        return Moment(
            kind=kind,
            samples=self._windows * WINDOW,
            speaking=self._speaking,
            speech_s=self._speech * WINDOW_S,
            silence_s=self._silence * WINDOW_S,
            run_speech_s=self._run_speech * WINDOW_S,
            run_silence_s=self._run_silence * WINDOW_S,
            audio=audio,
        )
