"""The 10 ms layer beside the engine: is the user speaking, and over the agent?

``webrtcvad`` proposes on 10 ms frames, since it costs next to nothing; Silero (32 ms windows) confirms, since the first
alone would take music and key clicks for speech.  Silero runs only while something is proposed or speech goes on.
Samples in, signals out: no clock, no I/O.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import webrtcvad
from pydantic import BaseModel, ConfigDict, Field

from ..engines.base import INPUT_HZ, FloatPcm

FRAME_SAMPLES = INPUT_HZ // 100
WINDOW_SAMPLES = 512
_SAMPLES_PER_MS = INPUT_HZ // 1000
_FLOOR_FRAMES = 300  # the noise floor is the quietest tenth of the last 3 s...
_FLOOR_EVERY = 20  # ...looked up every 200 ms
_SOUND_AFTER_WINDOW = 96 * _SAMPLES_PER_MS
_LIKELY_WINDOWS = 3  # a voice that begins softly gives some such before it gives one that is sure


class ReflexSettings(BaseModel):
    """When sound counts as the user's speech."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    aggressiveness: int = Field(default=2, ge=0, le=3)
    """Of ``webrtcvad``: higher proposes less."""
    proposing_frames: int = Field(default=3, ge=1, le=5)
    """Voiced frames among the last five that make a proposal."""
    on_probability: float = Field(default=0.5, gt=0, lt=1)
    off_probability: float = Field(default=0.35, gt=0, lt=1)
    sure_probability: float = Field(default=0.8, gt=0, le=1)
    """One window this sure confirms; otherwise it takes two above ``on_probability`` or three above the lower bound."""
    transient_ms: int = Field(default=60, ge=0, le=200)
    """What sounds no longer than this is never speech.  (It may touch one 10 ms frame more than it is long.)"""
    hold_windows: int = Field(default=4, ge=2, le=20)
    """Windows of speech after which the output is held."""
    end_after_ms: int = Field(default=256, ge=64, le=2000)
    """Quiet that ends speech."""
    preroll_ms: int = Field(default=256, ge=0, le=1000)
    """Sound from before the proposal that Silero hears first."""


class SpeechDetector(Protocol):
    """What Silero offers: a probability in [0, 1] for every 512 samples pushed."""

    def reset(self) -> None:
        """Forget everything heard."""
        ...

    def push(self, samples: FloatPcm) -> list[float]:
        """Take ``float32[n]`` at 16 kHz."""
        ...


class _Proposer(Protocol):
    def is_speech(self, buf: bytes, sample_rate: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user speaks, since about ``onset_ms``; known at ``at_ms``."""

    at_ms: int
    onset_ms: int


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """The user stopped speaking; the last sound was at ``last_sound_ms``."""

    at_ms: int
    last_sound_ms: int


@dataclass(frozen=True, slots=True)
class OverDuck:
    """The user speaks while the agent does: lower the output."""

    at_ms: int
    onset_ms: int


@dataclass(frozen=True, slots=True)
class OverHold:
    """The user goes on speaking over the agent: pause the output."""

    at_ms: int
    onset_ms: int


@dataclass(frozen=True, slots=True)
class OverEnded:
    """The user's speech over the agent ended."""

    at_ms: int
    onset_ms: int


Signal = SpeechStarted | SpeechEnded | OverDuck | OverHold | OverEnded


class Loudness:
    """Which frames are loud: above the noise floor and not far below the voice's own level."""

    def __init__(self) -> None:
        self._peak = 0.0
        self._floor = 2e-4
        self._past: deque[float] = deque([0.0], maxlen=_FLOOR_FRAMES)
        self._until_floor = _FLOOR_EVERY

    @property
    def threshold(self) -> float:
        """The RMS above which a frame is loud."""
        return max(self._peak * 0.04, self._floor * 2.0, 2e-4)  # 28 dB below the peak

    def loud(self, rms: float) -> bool:
        """Judge the next 10 ms frame by its RMS."""
        self._peak = max(rms, self._peak * 0.995)  # -4.3 dB a second
        self._past.append(rms)
        self._until_floor -= 1
        if self._until_floor == 0:
            self._until_floor = _FLOOR_EVERY
            self._floor = sorted(self._past)[len(self._past) // 10]
        return rms > self.threshold


class Reflex:
    """Feed it every sample of the user in order; it answers with what has just become certain."""

    def __init__(self, detector: SpeechDetector, settings: ReflexSettings | None = None) -> None:
        self._settings = settings or ReflexSettings()
        self._detector = detector
        self._proposer = cast("_Proposer", webrtcvad.Vad(self._settings.aggressiveness))
        self._loudness = Loudness()
        preroll = max(1, self._settings.preroll_ms * _SAMPLES_PER_MS // FRAME_SAMPLES)
        self._recent: deque[FloatPcm] = deque(maxlen=preroll)
        self._voiced: deque[bool] = deque(maxlen=5)
        self._loud: deque[bool] = deque(maxlen=10)
        self._pending = np.zeros(0, dtype=np.float32)
        self._position = 0  # end of the last whole frame
        self._last_sound = -1
        self.windows = 0
        """Silero windows run so far: the measure of what the reflex costs."""
        self._rest()

    @property
    def last_sound_ms(self) -> int | None:
        """End of the user's last loud 10 ms within speech; ``None`` before any."""
        return None if self._last_sound < 0 else self._last_sound // _SAMPLES_PER_MS

    @property
    def speaking(self) -> bool:
        """Whether the user speaks."""
        return self._speech

    def calm(self, samples: FloatPcm) -> bool:
        """Whether ``samples``, which come next, can wait: nothing is proposed, and they are no louder than the room.

        Cheap, and no more than a guess: what they are is found by :meth:`feed`, the same whether they waited or not.
        Samples that are no numbers cannot wait.
        """
        if self._listening or True in self._voiced:
            return False
        return float(samples.dot(samples)) <= len(samples) * self._loudness.threshold**2

    def feed(self, samples: FloatPcm, position: int, *, agent_speaking: bool) -> list[Signal]:
        """Take ``float32[n]`` whose first sample lies at ``position`` (16 kHz).

        A jump in ``position`` is quiet that nobody heard: speech in progress ends there.
        """
        signals: list[Signal] = []
        expected = self._position + len(self._pending)
        if position != expected:
            self._end_speech(signals)
            self._rest()
            self._recent.clear()
            self._voiced.clear()
            self._loud.clear()
            self._pending = np.zeros(0, dtype=np.float32)
            self._position = position
        audio = np.concatenate([self._pending, samples]) if len(self._pending) else samples
        count = len(audio) // FRAME_SAMPLES
        whole = audio[: count * FRAME_SAMPLES].reshape(count, FRAME_SAMPLES)
        self._pending = audio[count * FRAME_SAMPLES :].copy()
        # einsum: on so few samples mean costs several times what it does.
        levels = np.sqrt(np.einsum("ij,ij->i", whole, whole) / FRAME_SAMPLES).tolist()
        raw = np.clip(whole * 32767.0, -32768, 32767).astype("<i2").tobytes()
        for index in range(count):
            start = index * FRAME_SAMPLES * 2
            voiced = self._proposer.is_speech(raw[start : start + FRAME_SAMPLES * 2], INPUT_HZ)
            self._frame(whole[index], voiced=voiced, level=levels[index], agent=agent_speaking, signals=signals)
        return signals

    # -- one frame ---------------------------------------------------------------------------------------------

    def _frame(self, frame: FloatPcm, *, voiced: bool, level: float, agent: bool, signals: list[Signal]) -> None:
        self._position += FRAME_SAMPLES
        self._voiced.append(voiced)
        self._recent.append(frame)
        loud = self._loudness.loud(level)
        self._loud.append(loud)
        proposed = sum(self._voiced) >= self._settings.proposing_frames
        began = not self._listening
        if began:
            if not proposed:
                return
            self._begin_listening()
        else:
            self._window_frames.append(frame)
        if proposed:
            self._unproposed = 0
        else:
            self._unproposed += 1
        self._loud_frames += loud
        if loud:
            self._loud_end = self._position
            # In a noisy room there is always some sound: only what Silero still took for speech just now counts.
            if self._speech and self._position <= self._spoken_until:
                self._last_sound = self._position
        for probability in self._probabilities():
            self._window(probability, agent=agent, signals=signals)
        if began:
            self._quiet = 0  # what it heard from before the proposal is not the sound's own quiet
        if not self._speech and self._sure and self._loud_frames * 10 > self._settings.transient_ms + 10:
            self._confirm(agent=agent, signals=signals)
        if not self._speech and self._unproposed * 10 > self._settings.end_after_ms:
            self._rest()

    def _begin_listening(self) -> None:
        self._detector.reset()
        self._listening = True
        self._window_frames = list(self._recent)
        self._onset = self._position - sum(self._voiced) * FRAME_SAMPLES
        self._loud_frames = sum(self._loud) - self._loud[-1]

    def _probabilities(self) -> list[float]:
        if not self._window_frames:
            return []
        chunk = self._window_frames[0] if len(self._window_frames) == 1 else np.concatenate(self._window_frames)
        self._window_frames = []
        found = self._detector.push(chunk)
        self.windows += len(found)
        return found

    def _window(self, probability: float, *, agent: bool, signals: list[Signal]) -> None:
        settings = self._settings
        self._positive = self._positive + 1 if probability >= settings.on_probability else 0
        self._likely = self._likely + 1 if probability >= settings.off_probability else 0
        if self._likely:
            self._spoken_until = self._position + _SOUND_AFTER_WINDOW
        if self._positive:
            self._run += 1
            self._quiet = 0
        elif probability < settings.off_probability:
            self._quiet += 1
            if not self._speech:
                self._run = 0
        self._sure = probability >= settings.sure_probability or (self._positive > 0 and self._run >= 2)
        self._sure = self._sure or self._likely >= _LIKELY_WINDOWS
        if self._speech:
            if self._quiet * 32 >= settings.end_after_ms:
                self._end_speech(signals)
            else:
                self._overlap(agent=agent, signals=signals)
        elif self._quiet * 32 > settings.end_after_ms:
            # Something that is no speech goes on: what follows has an onset of its own.
            self._loud_frames = 0
            self._onset = self._position

    def _confirm(self, *, agent: bool, signals: list[Signal]) -> None:
        self._speech = True
        self._last_sound = max(self._last_sound, self._loud_end)
        signals.append(SpeechStarted(self._position // _SAMPLES_PER_MS, self._onset // _SAMPLES_PER_MS))
        self._overlap(agent=agent, signals=signals)

    def _overlap(self, *, agent: bool, signals: list[Signal]) -> None:
        at_ms = self._position // _SAMPLES_PER_MS
        if not agent:
            self._end_overlap(signals)
            return
        onset_ms = self._onset // _SAMPLES_PER_MS
        if not self._ducked:
            if self._likely:
                self._ducked = True
                self._run_since_duck = 0
                self._overlap_onset_ms = onset_ms
                signals.append(OverDuck(at_ms, onset_ms))
            return
        self._run_since_duck += self._positive > 0
        if not self._held and self._positive and self._run_since_duck >= 2 and self._run >= self._settings.hold_windows:
            self._held = True
            signals.append(OverHold(at_ms, self._overlap_onset_ms))

    def _end_overlap(self, signals: list[Signal]) -> None:
        if self._ducked:
            signals.append(OverEnded(self._position // _SAMPLES_PER_MS, self._overlap_onset_ms))
        self._ducked = self._held = False

    def _end_speech(self, signals: list[Signal]) -> None:
        if not self._speech:
            return
        self._end_overlap(signals)
        signals.append(SpeechEnded(self._position // _SAMPLES_PER_MS, self._last_sound // _SAMPLES_PER_MS))
        self._rest()

    def _rest(self) -> None:
        """Listen with ``webrtcvad`` alone."""
        self._listening = self._sure = False
        self._speech = self._ducked = self._held = False
        self._window_frames: list[FloatPcm] = []
        self._positive = self._run = self._run_since_duck = self._quiet = self._likely = 0
        self._unproposed = self._loud_frames = 0
        self._onset = self._loud_end = self._spoken_until = self._position
        self._overlap_onset_ms = 0
