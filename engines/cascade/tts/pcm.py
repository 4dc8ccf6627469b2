"""What synthesisers have in common: silence trimmed, samples made 16-bit, pieces joined, text cut.  Pure functions."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...base import OUTPUT_HZ, FloatPcm, Int16Pcm

_SOUND: Final = 0.005
"""Amplitude below which a sample is silence: -46 dB of full scale; soft initial consonants lie just above."""
_LEAD_MS: Final = 10
_CLAUSE_TAIL_MS: Final = 120
_SENTENCE_TAIL_MS: Final = 280
_FADE_MS: Final = 4

_SENTENCE_END: Final = re.compile(r"[.!?。！？…][\"'”’)）」』]*\s*$")
_LONGEST: Final = 200
_BREAKS: Final = (
    re.compile(r"(?<=[.!?…])[\"'”’)]*\s+|(?<=[。！？])"),
    re.compile(r"(?<=[,;:—])\s+|(?<=[，；：、])"),
    re.compile(r"\s+"),
)


def ms(milliseconds: float) -> int:
    """Samples in a time."""
    return int(milliseconds * OUTPUT_HZ / 1000)


def to_int16(audio: FloatPcm) -> Int16Pcm:
    """Samples in [-1, 1] as 16-bit; what is louder is clipped."""
    return np.rint(np.clip(audio, -1, 1) * 32767).astype(np.int16)


def without_lead(audio: FloatPcm) -> FloatPcm:
    """The audio from 10 ms before its first sound, faded in; nothing when there is none."""
    loud = np.flatnonzero(np.abs(audio) > _SOUND)
    if not len(loud):
        return audio[:0]
    kept = audio[max(0, int(loud[0]) - ms(_LEAD_MS)) :].copy()
    fade = min(ms(_FADE_MS), len(kept))
    kept[:fade] *= np.linspace(0, 1, fade, dtype=np.float32)
    return kept


def with_tail(audio: FloatPcm, text: str) -> FloatPcm:
    """The audio with as much silence behind its last sound as the end of ``text`` calls for: 280 ms after a sentence,
    120 ms otherwise."""
    loud = np.flatnonzero(np.abs(audio) > _SOUND)
    sound = int(loud[-1]) + 1 if len(loud) else 0
    end = sound + ms(_SENTENCE_TAIL_MS if _SENTENCE_END.search(text) else _CLAUSE_TAIL_MS)
    if end > len(audio):
        return np.concatenate([audio, np.zeros(end - len(audio), np.float32)])
    kept = audio[:end].copy()
    fade = min(ms(_FADE_MS), end)
    kept[end - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
    return kept


def sentences(text: str, longest: int = _LONGEST) -> list[str]:
    """The text in sentences; one longer than ``longest`` characters is cut at clauses, or at spaces, or anywhere."""
    return [part for part in _cut(text.strip(), longest, 0) if part.strip()]


def _cut(text: str, longest: int, level: int) -> list[str]:
    if level and len(text) <= longest:
        return [text]
    if level == len(_BREAKS):
        return [text[start : start + longest] for start in range(0, len(text), longest)]
    parts: list[str] = []
    start = 0
    for found in [*_BREAKS[level].finditer(text), None]:
        end = len(text) if found is None else found.end()
        piece = text[start:end]
        start = end
        # Sentences stand alone; below that, neighbours stay together as far as they fit.
        if level and parts and len(parts[-1]) + len(piece) <= longest:
            parts[-1] += piece
        else:
            parts.extend(_cut(piece, longest, level + 1))
    return [part.strip() for part in parts]
