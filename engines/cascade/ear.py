"""What the engine hears of the user: level, speech, and the audio of the turn in progress.

Two detectors look at the same samples.  The level of 20 ms frames against a decaying peak tells within 40 ms that
sound has stopped, and starts work early; Silero's speech probability (32 ms windows) tells whether it was speech at
all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..base import INPUT_HZ, FloatPcm

FRAME = INPUT_HZ // 50
"""Samples of a level frame: 20 ms."""
WINDOW_MS = 32
PRE_ROLL_MS = 320
"""Audio kept from before the first confirmed speech, so that no first consonant is cut."""
ON, OFF = 0.5, 0.35
"""Speech probabilities (Silero's own recommendation) that begin and end speech."""
WINDOWS_TO_BEGIN = 2
DROP = 10 ** (-28 / 20)
"""A frame this far below the recent peak is quiet (28 dB, measured on the duplex kit)."""
PEAK_DECAY = 0.995
FLOOR_RISE = 1.002
FLOOR_MARGIN = 2.0
FLAT_MARGIN = 2**0.5
"""No more than this above the noise floor (3 dB) a voice would be weaker than the noise."""
PATIENCE_MS = 500
"""Flat audio that may wait for the voice detector: run over more at once, it finds its weights in the cache."""


class SpeechProbability(Protocol):
    """A streaming voice detector: takes any number of samples, gives one probability per complete 32 ms window."""

    def push(self, samples: FloatPcm) -> list[float]: ...

    def reset(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sound:
    """What was heard up to ``now_ms``; every time is in media milliseconds."""

    now_ms: int
    speaking: bool
    """Speech by the voice detector, without its hangover."""
    began: bool
    """Speech began (or went on after a pause) in the unit just taken."""
    start_ms: int
    """When the first speech of the turn began; -1 while there is none."""
    resumed_ms: int
    """When the latest stretch of speech began; -1 while there is none."""
    last_speech_ms: int
    """End of the latest window with speech; -1 while there is none."""
    last_sound_ms: int
    """End of the latest loud frame of the turn; -1 while there is none."""
    quiet_ms: int
    """Milliseconds of quiet frames since the latest loud one."""

    @property
    def silence_ms(self) -> int:
        """Time since speech was last detected."""
        return self.now_ms - self.last_speech_ms if self.last_speech_ms >= 0 else 0


class Ear:
    """Follows one user's audio.  Not thread-safe: one thread feeds and asks."""

    def __init__(self, detector: SpeechProbability, longest_s: int = 40) -> None:
        self._detector = detector
        self._longest = longest_s * INPUT_HZ
        self._rest = np.zeros(0, np.float32)
        self._peak, self._floor = 1e-4, 1e-3
        self._windows_on = 0
        self._taken = 0
        self._judged_ms = 0
        self._audio = np.zeros(0, np.float32)
        self._waiting: list[FloatPcm] = []
        self._clear()

    def _clear(self) -> None:
        self._speaking = False
        self._start_ms = self._resumed_ms = self._last_speech_ms = self._last_sound_ms = -1
        self._quiet_ms = 0

    @property
    def now_ms(self) -> int:
        """Media time of the end of what was taken."""
        return self._taken * 1000 // INPUT_HZ

    def take(self, audio: FloatPcm, start_ms: int | None = None, *, patient: bool = False) -> Sound:
        """Take the next stretch of audio, of any length, and say what is known after it.

        ``start_ms`` is its media time; what lies between it and the end of the audio before was never heard.
        ``patient``: while nobody speaks and nothing stands out of the noise, whether there is speech in it may be found
        out up to :data:`PATIENCE_MS` later.  What is found is the same.
        """
        began = False
        if start_ms is not None and (missed := start_ms - self.now_ms) > 0:
            began = self._listen()
            self._taken += missed * INPUT_HZ // 1000
            self._judged_ms += missed
        self._taken += len(audio)
        flat = self._levels(audio)
        self._waiting.append(audio)
        waiting = sum(map(len, self._waiting))
        if not (patient and flat and self._start_ms < 0 and waiting < PATIENCE_MS * INPUT_HZ // 1000):
            began = self._listen() or began
        return self.sound(began)

    def sound(self, began: bool = False) -> Sound:
        """The state as of now."""
        return Sound(
            self.now_ms,
            self._speaking,
            began,
            self._start_ms,
            self._resumed_ms,
            self._last_speech_ms,
            self._last_sound_ms,
            self._quiet_ms,
        )

    def audio(self, until_ms: int | None = None) -> tuple[FloatPcm, int, int]:
        """The turn's audio so far: ``(samples, start_ms, end_ms)``, ended at ``until_ms`` when given."""
        self._listen()
        begin = self._taken - len(self._audio)
        end = self._taken if until_ms is None else min(self._taken, until_ms * INPUT_HZ // 1000)
        piece = self._audio[: max(0, end - begin)]
        return piece.copy(), begin * 1000 // INPUT_HZ, end * 1000 // INPUT_HZ

    def forget(self, until_ms: int | None = None) -> None:
        """Begin a new turn; with ``until_ms`` only what lies before it is dropped and the turn goes on."""
        self._listen()
        if until_ms is None:
            self._clear()
            self._keep_newest(PRE_ROLL_MS * INPUT_HZ // 1000)
        else:
            self._keep_newest(max(0, self._taken - until_ms * INPUT_HZ // 1000))

    def _keep_newest(self, samples: int) -> None:
        if len(self._audio) > samples:
            self._audio = self._audio[len(self._audio) - samples :]

    def _levels(self, audio: FloatPcm) -> bool:
        """Follow the level; whether nothing stood out."""
        flat = True
        rest = np.concatenate([self._rest, audio])
        count = len(rest) // FRAME
        frames = rest[: count * FRAME].reshape(count, FRAME)
        self._rest = rest[count * FRAME :]
        end_ms = (self._taken - len(self._rest)) * 1000 // INPUT_HZ - count * 20
        # einsum: on so few samples mean costs several times what it does.
        for rms in np.sqrt(np.einsum("ij,ij->i", frames, frames) / FRAME).tolist() if count else ():
            level, end_ms = rms + 1e-9, end_ms + 20
            self._peak = max(self._peak * PEAK_DECAY, level)
            self._floor = min(self._floor * FLOOR_RISE, level)
            flat = flat and level <= self._floor * FLAT_MARGIN
            if level > max(self._peak * DROP, self._floor * FLOOR_MARGIN):
                self._last_sound_ms, self._quiet_ms = end_ms, 0
            else:
                self._quiet_ms += 20
        return flat

    def _listen(self) -> bool:
        """Let the voice detector hear what waits for it; whether speech began in it."""
        began = False
        waiting, self._waiting = self._waiting, []
        for audio in waiting:
            self._audio = np.concatenate([self._audio, audio])
            began = self._speech(audio) or began
            idle = self._start_ms < 0
            self._keep_newest(PRE_ROLL_MS * INPUT_HZ // 1000 + len(audio) if idle else self._longest)
        return began

    def _speech(self, audio: FloatPcm) -> bool:
        began = False
        for probability in self._detector.push(audio):
            self._judged_ms += WINDOW_MS
            if probability >= (OFF if self._speaking else ON):
                self._windows_on += 1
                if self._speaking:
                    self._last_speech_ms = self._judged_ms
                elif self._windows_on >= WINDOWS_TO_BEGIN:
                    began, self._speaking = True, True
                    self._last_speech_ms = self._judged_ms
                    self._resumed_ms = self._judged_ms - WINDOWS_TO_BEGIN * WINDOW_MS
                    if self._start_ms < 0:
                        self._start_ms = self._resumed_ms
            else:
                self._windows_on, self._speaking = 0, False
        return began
