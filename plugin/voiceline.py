"""One utterance's samples and where each of them is: the per-utterance half of the playback ledger."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..engines.base import OUTPUT_HZ, Int16Pcm

BLOCK = OUTPUT_HZ // 100
"""10 ms, the grain of energy decisions."""
SILENCE_PEAK = 160
"""Samples up to this size (-46 dBFS) count as a pause."""
_DIP_WINDOW = OUTPUT_HZ * 8 // 10
_DIP_BELOW_PEAK = 10.0 ** (-15.0 / 20.0)
_KEPT_PAST = 2 * OUTPUT_HZ


def trailing_silence(before: int, part: Int16Pcm) -> int:
    """Length of the silence that ends ``part``, when ``before`` silent samples precede it."""
    loud = np.flatnonzero((part > SILENCE_PEAK) | (part < -SILENCE_PEAK))
    return before + len(part) if len(loud) == 0 else len(part) - 1 - int(loud[-1])


class VoiceLine:
    """Positions are samples from the utterance's start.

    ``cursor`` is what is read next (behind ``sent`` when something is said again), ``sent`` how far it was handed over,
    ``heard`` how far the listener got.  Past audio is kept for 2 s behind the cursor.
    """

    def __init__(self, utterance_id: str) -> None:
        self.utterance_id = utterance_id
        self.received = 0
        self.cursor = 0
        self.sent = 0
        self.heard = 0
        self.begun = False
        self.ended = False
        self.flushed = False
        self._heard_count = 0
        self._discarded_count = 0
        self._chunks: list[tuple[int, Int16Pcm]] = []
        self._discarded: list[tuple[int, int]] = []  # sorted, disjoint, not touching

    # -- growing -----------------------------------------------------------------------------------------------

    def fresh(self, first_sample: int, samples: int) -> int:
        """How many of ``samples`` are new.  Raises ``ValueError`` for a hole or when the utterance has ended."""
        if self.ended:
            raise ValueError("speech for an utterance that has ended")
        if first_sample > self.received or first_sample < 0:
            raise ValueError(f"speech at sample {first_sample} where {self.received} was expected")
        return max(0, first_sample + samples - self.received)

    def extend(self, pcm: Int16Pcm, keep: int) -> None:
        """Append new samples, of which only the first ``keep`` are stored; the caller discards the rest."""
        if keep:
            self._chunks.append((self.received, pcm[:keep]))
        self.received += len(pcm)

    # -- reading -----------------------------------------------------------------------------------------------

    def has_more(self) -> bool:
        """Whether anything is left to read from the cursor on."""
        self._skip_discarded()
        return self.cursor < self.received

    def read(self, count: int) -> Int16Pcm:
        """At most ``count`` samples from the cursor, which moves behind them."""
        self._skip_discarded()
        stop = next((first for first, _ in self._discarded if first > self.cursor), self.received)
        part = self._slice(self.cursor, min(stop, self.cursor + count))
        self.cursor += len(part)
        self._forget_past()
        return part

    def peek(self, count: int) -> Int16Pcm:
        """Like :meth:`read`, without moving."""
        return self._slice(self.cursor, min(self.received, self.cursor + count))

    def skippable(self, most: int) -> int:
        """How many samples of silence from the cursor may be left out, at most ``most``; one block always stays."""
        ahead = self._slice(self.cursor, min(self.received, self.cursor + most + BLOCK))
        loud = np.flatnonzero((ahead > SILENCE_PEAK) | (ahead < -SILENCE_PEAK))
        silent = int(loud[0]) if len(loud) else len(ahead)
        return max(0, min(most, (silent - BLOCK) // BLOCK * BLOCK))

    def dip_before(self, position: int) -> int:
        """The last energy dip at or before ``position``: where the word under way there began, as far as sound tells.

        Looks back 800 ms; a dip is a block 15 dB below the loudest one.  Without one the quietest block is taken.
        """
        first = max(self._stored_from(), position - _DIP_WINDOW)
        if first == 0 and position <= BLOCK:
            return 0
        past = self._slice(first, position).astype(np.float32)
        blocks = len(past) // BLOCK
        if blocks == 0:
            return position
        offset = len(past) - blocks * BLOCK
        energy = np.sqrt(np.mean(past[offset:].reshape(blocks, BLOCK) ** 2, axis=1))
        dips = np.flatnonzero(energy <= max(float(energy.max()) * _DIP_BELOW_PEAK, 1.0))
        if len(dips):
            block = int(dips[-1])
        elif first == 0:
            return 0  # the utterance's own beginning is nearer than any pause
        else:
            block = int(np.argmin(energy))
        if block == blocks - 1:
            return position  # cut in a pause: nothing to say again
        return first + offset + block * BLOCK

    # -- the ledger --------------------------------------------------------------------------------------------

    @property
    def resolved(self) -> bool:
        """Whether nothing more comes and every sample is heard or discarded."""
        return self.ended and self._heard_count + self._discarded_count == self.received

    @property
    def queued(self) -> int:
        """Samples that are neither handed over nor discarded."""
        return sum(stop - start for start, stop in self.undiscarded(self.sent, self.received))

    def undiscarded(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of ``[first, end)`` that are not discarded."""
        for start, stop in self._discarded:
            if stop <= first:
                continue
            if start >= end:
                break
            if start > first:
                yield first, start
            first = max(first, stop)
        if first < end:
            yield first, end

    def hear(self, first: int, end: int) -> None:
        """Samples ``[first, end)``, handed over before, were heard."""
        self.heard = max(self.heard, end)
        self._heard_count += end - first

    def discard(self, first: int, end: int) -> list[tuple[int, int]]:
        """Give up ``[first, end)``, none of it heard; returns the parts that were not given up before."""
        parts = list(self.undiscarded(first, end))
        self._discarded_count += sum(stop - start for start, stop in parts)
        merged: list[tuple[int, int]] = []
        for start, stop in sorted([*self._discarded, *parts]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
            else:
                merged.append((start, stop))
        self._discarded = merged
        return parts

    # -- storage -----------------------------------------------------------------------------------------------

    def _skip_discarded(self) -> None:
        for start, stop in self._discarded:
            if start <= self.cursor < stop:
                self.cursor = stop

    def _stored_from(self) -> int:
        return self._chunks[0][0] if self._chunks else self.received

    def _slice(self, first: int, end: int) -> Int16Pcm:
        """Stored samples of ``[first, end)`` up to the first one that is not stored."""
        parts: list[Int16Pcm] = []
        for start, pcm in self._chunks:
            if start + len(pcm) <= first:
                continue
            if start > first or first >= end:
                break
            part = pcm[first - start : end - start]
            parts.append(part)
            first += len(part)
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int16)

    def _forget_past(self) -> None:
        keep_from = min(self.cursor, self.heard) - _KEPT_PAST
        while self._chunks and self._chunks[0][0] + len(self._chunks[0][1]) < keep_from:
            del self._chunks[0]
