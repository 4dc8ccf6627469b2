"""Whisper's log-mel features (16 kHz, 25 ms Hann windows every 10 ms), of a whole recording and of a live stream.

The published streaming front end re-computes every frame of a buffer of 20-30 s once a second.  Only two things about
a frame ever change afterwards: the floor it is clipped at, which follows the loudest frame of the buffer, and the
frames at the buffer's two ends, which are mirrored.  :class:`MelFront` keeps just those and is exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from ..base import INPUT_HZ, EngineError, FloatPcm
from .melbank import hann, slaney_filters

HOP: Final = 160
"""Samples from one frame to the next."""
UNIT_FRAMES: Final = 100
"""Frames that one unit of the stream adds."""
EDGE: Final = 2
"""Frames of its neighbours that a unit carries on either side, for the encoder's convolutions."""
INPUT_FRAMES: Final = UNIT_FRAMES + 2 * EDGE
PIECE: Final = 30 * INPUT_HZ
"""Longest stretch of a recording that is featurised, and encoded, at once."""

_WINDOW: Final = 400
_HALF: Final = _WINDOW // 2
_SILENCE: Final = -10.0
"""log10 of the smallest power that is told from nothing."""
_RANGE: Final = 8.0
"""Decades below the loudest frame that are kept."""

_UNIT: Final = UNIT_FRAMES * HOP
_FIRST: Final = 1030 * INPUT_HZ // 1000
"""Samples of the first unit: its right edge has to be complete, which 1035 ms would be; whole hops of that."""
_FIRST_FILLED: Final = 1035 * INPUT_HZ // 1000
"""A shorter beginning is filled up to this with silence in front.  What exceeds the first unit is carried over."""
_RANGE_FROM: Final = 5 * INPUT_HZ
_SLIDE: Final = 10 * INPUT_HZ
_SLIDE_FRAMES: Final = _SLIDE // HOP

Features = npt.NDArray[np.float32]
"""``float32[mels, frames]``."""


class Floor(StrEnum):
    """What quiet features are clipped at."""

    LOUDEST = "loudest"
    """Eight decades below the loudest frame (Whisper's own rule)."""
    FIXED = "fixed"
    """The smallest power there is, so that nothing is clipped: the stream's first five seconds."""


def log_mel(signal: FloatPcm, mels: int = 80, floor: Floor = Floor.LOUDEST) -> Features:
    """``float32[mels, samples // 160]`` of a 16 kHz signal of more than 200 samples, mirrored at both its ends."""
    logs = _log_power(np.pad(signal, _HALF, mode="reflect"), len(signal) // HOP, mels)
    return _scaled(logs, float(logs.max()) if floor is Floor.LOUDEST else None)


def offline_mel(piece: FloatPcm, mels: int = 80, floor: Floor = Floor.LOUDEST) -> Features:
    """Features of a piece of a recording, ``float32[mels, ceil(samples / 160)]``.

    ``piece`` is ``float32[n]`` at 16 kHz, at most :data:`PIECE` samples, and counts as followed by silence up to that
    length.  ``floor`` is :attr:`Floor.FIXED` only to repeat a fault of the published code, where a stream that ended
    early leaves its floor to the recording featurised next.
    """
    if not 0 < len(piece) <= PIECE:
        raise EngineError(f"A piece of a recording has 1 to {PIECE} samples, not {len(piece)}")
    check_finite(piece)
    frames = -(-len(piece) // HOP)
    # Two more frames touch the end of the piece and count for the loudest; what follows is silence.
    followed = min(PIECE, (frames + 4) * HOP)
    return log_mel(np.pad(piece, (0, followed - len(piece))), mels, floor)[:, :frames]


def pieces(wave: FloatPcm) -> list[FloatPcm]:
    """A recording cut into pieces of 30 s, the last one shorter."""
    return [wave[start : start + PIECE] for start in range(0, len(wave), PIECE)]


@dataclass(frozen=True)
class Mel:
    """What the encoder is fed for one unit."""

    frames: Features
    """``float32[mels, 104]``: two frames of the unit before, the unit's hundred, two of the next."""
    first: bool
    """Nothing precedes the unit: its first two frames are absent (zeros here, masked inside the encoder)."""


@dataclass
class _Block:
    """The loudest frames of ten seconds of the stream, as log10 power."""

    mirrored: float = -np.inf
    """Its first two frames as they are when the buffer begins with this block."""
    lead: float = -np.inf
    """Its first two frames otherwise."""
    rest: float = -np.inf


class MelFront:
    """The features of one live stream, a unit at a time.

    State of a session: about 400 samples, four frames and the loudness of the last 30 s.
    """

    def __init__(self, mels: int = 80) -> None:
        self._mels = mels
        self.reset()

    def reset(self) -> None:
        """Begin a new stream."""
        self._pending = np.zeros(0, np.float32)
        self._tail = np.zeros(0, np.float32)
        self._recent = np.zeros((0, self._mels), np.float32)
        self._samples = 0
        self._stable = 0
        self._units = 0
        self._dropped = 0
        self._blocks: deque[_Block] = deque()
        self._floor = Floor.LOUDEST

    @property
    def carry(self) -> int:
        """Samples taken in that no unit has consumed."""
        return len(self._pending)

    @property
    def units(self) -> int:
        """Units given out."""
        return self._units

    @property
    def floor(self) -> Floor:
        """The floor of the last unit."""
        return self._floor

    def enough(self, samples: int) -> bool:
        """Whether :meth:`push` of that many samples gives a unit."""
        together = len(self._pending) + samples
        return together > 0 if self._units == 0 else together >= _UNIT

    def push(self, samples: FloatPcm) -> Mel | None:
        """The next unit of the stream, or ``None`` if there is too little for it; what came is kept in any case.

        ``samples`` is ``float32[n]`` at 16 kHz, normally one second.  The first unit takes 1030 ms and is filled up
        with silence in front; every later one lacks 80 samples of its second, which are carried over.  At most one
        unit leaves per call.  Raises :class:`EngineError` for samples that are not finite, and keeps none of them.
        """
        check_finite(samples)
        enough = self.enough(len(samples))
        pending = np.concatenate([self._pending, samples], dtype=np.float32)
        if not enough:
            self._pending = pending
            return None
        if self._units == 0:
            pending = np.pad(pending, (max(0, _FIRST_FILLED - len(pending)), 0))
        taken = _FIRST if self._units == 0 else _UNIT
        self._pending = pending[taken:].copy()
        return self._emit(pending[:taken])

    def _emit(self, chunk: FloatPcm) -> Mel:
        if self._samples == 0:
            self._tail = chunk[_HALF:0:-1]
        # The tail begins half a window before the first frame that was not yet complete.
        signal = np.concatenate([self._tail, chunk])
        self._samples += len(chunk)
        complete = (self._samples - _HALF) // HOP + 1
        new = complete - self._stable
        mirrored = np.concatenate([signal, signal[-2 : -_HALF - 2 : -1]])
        logs = _log_power(mirrored, self._samples // HOP - self._stable, self._mels)
        self._remember(logs[:new].max(axis=1), signal)
        self._stable = complete
        self._tail = signal[new * HOP :].copy()
        if self._samples - self._dropped * _SLIDE >= PIECE:
            self._blocks.popleft()
            self._dropped += 1
        ranged = self._samples - self._dropped * _SLIDE >= _RANGE_FROM
        self._floor = Floor.LOUDEST if ranged else Floor.FIXED
        shown = np.concatenate([self._recent, logs[:new]])
        self._recent = shown[-2 * EDGE :].copy()
        first = self._units == 0
        self._units += 1
        frames = _scaled(shown, self._loudest(logs[new:]) if ranged else None)
        return Mel(np.pad(frames, ((0, 0), (EDGE, 0))) if first else frames, first)

    def _remember(self, loudest: Features, signal: FloatPcm) -> None:
        """Note how loud the newly complete frames are; ``signal`` begins half a window before the first of them."""
        for frame, loud in enumerate(loudest.tolist(), self._stable):
            block, place = divmod(frame, _SLIDE_FRAMES)
            block -= self._dropped
            if block == len(self._blocks):
                self._blocks.append(_Block())
            entry = self._blocks[block]
            if place >= EDGE:
                entry.rest = max(entry.rest, loud)
                continue
            entry.lead = max(entry.lead, loud)
            if place == EDGE - 1:
                start = (frame - place - self._stable) * HOP + _HALF
                begin = signal[start : start + _HALF + place * HOP]
                entry.mirrored = float(_log_power(np.pad(begin, (_HALF, 0), mode="reflect"), EDGE, self._mels).max())

    def _loudest(self, ending: Features) -> float:
        """The loudest frame of the buffer; ``ending`` holds those that are mirrored at its end."""
        begin, *later = self._blocks
        known = max(begin.mirrored, begin.rest, *(max(block.lead, block.rest) for block in later), -np.inf)
        return max(known, float(ending.max(initial=-np.inf)))

    def snapshot(self) -> dict[str, Any]:
        """The state, detached from this object."""
        return {
            "pending": as_tensor(self._pending.copy()),
            "tail": as_tensor(self._tail.copy()),
            "recent": as_tensor(self._recent.copy()),
            "samples": self._samples,
            "stable": self._stable,
            "units": self._units,
            "dropped": self._dropped,
            "blocks": [[block.mirrored, block.lead, block.rest] for block in self._blocks],
            "floor": self._floor.value,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on where the snapshot was taken."""
        self._pending = _array(snapshot["pending"])
        self._tail = _array(snapshot["tail"])
        self._recent = _array(snapshot["recent"])
        self._samples = int(snapshot["samples"])
        self._stable = int(snapshot["stable"])
        self._units = int(snapshot["units"])
        self._dropped = int(snapshot["dropped"])
        self._blocks = deque(_Block(*values) for values in snapshot["blocks"])
        self._floor = Floor(snapshot["floor"])


def check_finite(samples: FloatPcm) -> None:
    """Raise :class:`EngineError` for samples that are not finite: one would silence all that is heard after it."""
    if not np.isfinite(samples).all():
        raise EngineError("The audio holds samples that are not numbers: check where it was decoded")


def stack(mels: Sequence[Mel]) -> tuple[Features, Features]:
    """Units side by side: features ``float32[B, mels, 104]`` and which frames are present, ``float32[B, 1, 104]``."""
    present = np.ones((len(mels), 1, INPUT_FRAMES), np.float32)
    for row, mel in enumerate(mels):
        if mel.first:
            present[row, :, :EDGE] = 0
    return np.stack([mel.frames for mel in mels]), present


def _log_power(padded: FloatPcm, frames: int, mels: int) -> Features:
    """log10 of the mel power of the first ``frames`` windows, ``float32[frames, mels]``."""
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP][:frames]
    spectrum = np.fft.rfft(windows * hann(_WINDOW), axis=-1)
    power = spectrum.real**2 + spectrum.imag**2
    mel = power @ slaney_filters(mels, INPUT_HZ, _WINDOW, INPUT_HZ / 2)
    return np.log10(np.maximum(mel, 10**_SILENCE)).astype(np.float32)


def _scaled(logs: Features, loudest: float | None) -> Features:
    """``float32[mels, frames]``, clipped below and brought to about -1 to 1; ``None`` is the fixed floor."""
    floor = _SILENCE if loudest is None else loudest - _RANGE
    return np.ascontiguousarray(((np.maximum(logs, np.float32(floor)) + np.float32(4)) / np.float32(4)).T)


def as_tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """The same memory as a tensor."""
    return torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType] - its parameter has no type


def _array(tensor: torch.Tensor) -> npt.NDArray[np.float32]:
    return tensor.numpy().copy()
