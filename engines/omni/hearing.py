"""What one session hears: its stream's features, the encoder's memory of it, and recordings beside the stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..base import EngineError, FloatPcm
from .audio import UNIT_STATES, AudioCache, AudioEncoder
from .config import OmniConfig
from .mel import Floor, Mel, MelFront, as_tensor, check_finite, offline_mel, pieces, stack
from .projector import AudioProjector


@dataclass(frozen=True)
class HearingRules:
    """How a session hears.  The defaults are the sound ones; the first three repeat what the published code does."""

    keep_cache_on_prepare: bool = False
    """A new session begins with the encoder's memory of the one before."""
    stale_floor: bool = False
    """A stream that ended within five seconds leaves its fixed floor to the recording featurised next."""
    visible_padding: bool = False
    """Pieces encoded together see part of the padding of the shorter ones."""
    overlap_units: int = 0
    """When the encoder's memory is full it is wiped; so many of the last units are then encoded anew, to go on from."""


class Hearing:
    """Ears of one session.  Sessions share the two modules, and a ``cache`` of several slots if they run in step."""

    def __init__(
        self,
        encoder: AudioEncoder,
        projector: AudioProjector,
        config: OmniConfig,
        *,
        rules: HearingRules | None = None,
        cache: AudioCache | None = None,
        slot: int = 0,
    ) -> None:
        self.rules = rules or HearingRules()
        self.encoder = encoder
        self.projector = projector
        self._block = int(config.audio_chunk_length * UNIT_STATES)
        self.cache = encoder.cache() if cache is None else cache
        self.slot = slot
        if (self.rules.overlap_units + 1) * UNIT_STATES >= self.cache.capacity:
            raise EngineError(
                f"overlap_units of {self.rules.overlap_units} leaves no room in an audio cache of "
                f"{self.cache.capacity} states: choose a smaller overlap"
            )
        self._front = MelFront(encoder.config.num_mel_bins)
        self._recent: deque[Mel] = deque(maxlen=self.rules.overlap_units)
        self._floor = Floor.LOUDEST
        self.reset()

    @property
    def carry(self) -> int:
        """Samples heard that no unit has consumed."""
        return self._front.carry

    @property
    def units(self) -> int:
        """Units heard."""
        return self._front.units

    @property
    def cached(self) -> int:
        """States in the encoder's memory."""
        return self.cache.length(self.slot)

    @property
    def rows(self) -> int:
        """Embeddings that a unit gives."""
        return self.projector.rows(UNIT_STATES)

    def enough(self, samples: int) -> bool:
        """Whether that many more samples make a unit, so that nothing need be fed before it is known."""
        return self._front.enough(samples)

    def listen(self, samples: FloatPcm) -> Tensor | None:
        """Embeddings of the next unit, ``[10, hidden]``, or ``None`` if it is not complete yet (the samples are kept).

        ``samples`` is ``float32[n]`` at 16 kHz; see :meth:`MelFront.push` for what a unit takes.  Raises
        :class:`EngineError` for samples that are not finite.
        """
        return listen_many([self], [samples])[0]

    def offline(self, wave: FloatPcm) -> Tensor:
        """Embeddings of a recording, ``[n, hidden]``, ten a second; see :meth:`offline_many`."""
        return self.offline_many([wave])[0]

    def offline_many(self, waves: Sequence[FloatPcm]) -> list[Tensor]:
        """Embeddings of recordings (``float32[n]`` at 16 kHz), apart from the live stream and its memory.

        A recording of less than 0.1 s gives none.  Raises :class:`EngineError` for an empty one.
        """
        mels: list[Tensor] = []
        counts: list[int] = []
        for wave in waves:
            if len(wave) == 0:
                raise EngineError("The recording is empty: give at least a tenth of a second of audio")
            cut = [offline_mel(piece, self.encoder.config.num_mel_bins, self._floor) for piece in pieces(wave)]
            mels += [as_tensor(mel).to(self.encoder.device) for mel in cut]
            counts.append(len(cut))
        embeddings = self._encode_padded(mels) if self.rules.visible_padding else [self._encode(mel) for mel in mels]
        found = iter(embeddings)
        return [torch.cat([next(found) for _ in range(count)]) for count in counts]

    def _encode(self, mel: Tensor) -> Tensor:
        states = self.encoder.offline(mel[None], self._block)
        if states.shape[1] < self.projector.pool:
            # Pooling refuses to make nothing of a few states.
            return states.new_zeros(0, self.projector.linear2.out_features)
        return self.projector(states)[0]

    def _encode_padded(self, mels: Sequence[Tensor]) -> list[Tensor]:
        """All pieces as one batch whose mask mistakes numbers of features for numbers of states."""
        lengths = [mel.shape[1] for mel in mels]
        batch = torch.nn.utils.rnn.pad_sequence([mel.T for mel in mels], batch_first=True).transpose(1, 2)
        if (batch.shape[2] + 1) // 2 < self.projector.pool:
            return [self._encode(mel) for mel in mels]
        embeddings: Tensor = self.projector(self.encoder.offline(batch, self._block, visible=lengths))
        counts = [self.projector.rows((length + 1) // 2) for length in lengths]
        return [row[:count] for row, count in zip(embeddings, counts, strict=True)]

    def prepare(self) -> None:
        """Begin a session's stream."""
        self._front.reset()
        self._recent.clear()
        if not self.rules.keep_cache_on_prepare:
            self.cache.wipe(self.slot)

    def reset(self) -> None:
        """Forget everything heard.  With :attr:`HearingRules.stale_floor`, not the floor."""
        self._front.reset()
        self._recent.clear()
        self.cache.wipe(self.slot)
        if not self.rules.stale_floor:
            self._floor = Floor.LOUDEST

    def snapshot(self) -> dict[str, Any]:
        """The state, detached from this object; tensors on the CPU."""
        return {
            "front": self._front.snapshot(),
            "cache": self.cache.snapshot(self.slot),
            "recent": [(as_tensor(mel.frames.copy()), mel.first) for mel in self._recent],
            "floor": self._floor.value,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on where the snapshot was taken."""
        self._front.restore(snapshot["front"])
        self.cache.restore(self.slot, snapshot["cache"])
        self._recent = deque(
            (Mel(frames.numpy().copy(), first) for frames, first in snapshot["recent"]),
            maxlen=self.rules.overlap_units,
        )
        self._floor = Floor(snapshot["floor"])

    def take(self, samples: FloatPcm) -> Mel | None:
        """Features of the next unit, with room made for it in the memory: the first half of :meth:`listen`."""
        mel = self._front.push(samples)
        if mel is None:
            return None
        if self.rules.stale_floor:
            self._floor = self._front.floor
        if self.cache.full(self.slot, UNIT_STATES):
            self.cache.wipe(self.slot)
            for past in self._recent:
                _encode_units([self], [past])
        self._recent.append(mel)
        return mel


def listen_many(ears: Sequence[Hearing], samples: Sequence[FloatPcm]) -> list[Tensor | None]:
    """:meth:`Hearing.listen` of several sessions in one pass; what each has heard before may differ in length.

    The sessions are different slots of one :class:`AudioCache`.  A row without a complete unit is ``None``.
    """
    if any(ear.cache is not ears[0].cache for ear in ears) or len({ear.slot for ear in ears}) < len(ears):
        raise EngineError("Sessions that listen together must be different slots of one audio cache")
    for chunk in samples:
        check_finite(chunk)
    mels = [ear.take(chunk) for ear, chunk in zip(ears, samples, strict=True)]
    ready = [row for row, mel in enumerate(mels) if mel is not None]
    heard: list[Tensor | None] = [None] * len(ears)
    if ready:
        embeddings = _encode_units([ears[row] for row in ready], [mel for mel in mels if mel is not None])
        for row, embedding in zip(ready, embeddings, strict=True):
            heard[row] = embedding
    return heard


def _encode_units(ears: Sequence[Hearing], mels: Sequence[Mel]) -> Tensor:
    """``[B, 10, hidden]``."""
    encoder, cache = ears[0].encoder, ears[0].cache
    frames, present = (as_tensor(array).to(encoder.device) for array in stack(mels))
    place = cache.claim([ear.slot for ear in ears], UNIT_STATES)
    states: Tensor = encoder(frames, present, cache, place)
    embeddings: Tensor = ears[0].projector(states)
    return embeddings
