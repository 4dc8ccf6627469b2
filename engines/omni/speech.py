"""From the words of a turn to its speech: talker, code buffer and token2wav.

The talker makes at most 25 codes of 40 ms for a unit; token2wav renders windows of 28, of which the last three only
look ahead.  Speech of a unit therefore leaves as soon as its window is rendered, and three codes stay pending until
the next window or the end of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ..base import OUTPUT_HZ, EngineError, FloatPcm
from .behaviour import Rules
from .draws import Draws
from .model import OmniModel
from .pieces import SpeechPiece
from .talker import Bias, TalkerState
from .token2wav.config import FLUSH, LOOKAHEAD, SILENCE_CODE
from .token2wav.stream import T2WState

LEAD: Final = (SILENCE_CODE,) * LOOKAHEAD
"""What the first window of a turn begins with, in place of what was said before."""

Stopped = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What the talker was given and made in one go."""

    position: int
    shortest: int
    condition: Tensor
    """``[m + 1, talker hidden]``."""
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """What token2wav was given and made in one go."""

    codes: int
    last: bool
    samples: int
    frames: tuple[int, int]
    """Mel frames that the flow's decoder and its encoder look back on afterwards."""


class Speech:
    """The speech of one session.

    State: the talker's cache and position in the turn, the codes that are not yet rendered, and token2wav's caches.
    """

    def __init__(self, model: OmniModel, rules: Rules, draws: Draws, voice: T2WState) -> None:
        if model.talker is None or model.token2wav is None:
            raise EngineError("this checkpoint does not speak: it has no talker, or no assets/token2wav")
        self._talker = model.talker
        self._token2wav = model.token2wav
        config = model.talker.config
        self._chunk = config.s3_stream_chunk_size
        self._ahead = config.s3_stream_prelook_size
        self._rules = rules
        self._draws = draws
        self.talker = TalkerState(model.talker)
        self.stream = voice.clone()
        self.stream.own_rate_trim = not rules.frozen_conformer
        self.buffer = list(LEAD)
        self.chunks: list[Chunk] = []
        """Of the unit that was spoken last."""
        self.windows: list[Window] = []

    @property
    def pending(self) -> bool:
        """Whether the turn has begun to be spoken."""
        return self.talker.position > 0

    def begin_unit(self) -> None:
        """Forget what was noted of the unit before."""
        self.chunks = []
        self.windows = []

    def speak(
        self,
        ids: Sequence[int],
        hidden: Tensor,
        *,
        ends: bool,
        bias: Bias | None = None,
        stopped: Stopped = lambda: False,
    ) -> Generator[SpeechPiece, None, None]:
        """Voice the words of a unit: ``ids`` and the thinker's ``hidden [m, hidden]`` at each of them.

        ``ends`` gives out everything and begins a new turn.  After each piece ``stopped`` is asked whether to go on.
        """
        if self.talker.room < len(ids) + 1 + self._chunk:
            # the longest turns do not fit: what follows is spoken as a turn of its own
            yield SpeechPiece(self._render(len(self.buffer), last=True))
            self.begin_turn()
        first = self.talker.position == 0
        flushes = first or self._rules.flush_always
        full = self._chunk + 1
        ended = self._make(ids, hidden, 0 if first or ends else full, bias)
        spoken = False
        for pcm in self._windows(flushes=flushes):
            short = not (ends or spoken) and len(pcm) < OUTPUT_HZ
            yield SpeechPiece(_padded(pcm) if short else pcm)
            spoken = True
            if stopped():
                return
        if not ends:
            return
        for _ in range(self._rules.drain_chunks):
            if ended or self.talker.room < 1 + self._chunk:
                break
            ended = self._make([], hidden[:0], 0, None)
            for pcm in self._windows(flushes=False):
                yield SpeechPiece(pcm)
                if stopped():
                    return
        yield SpeechPiece(self._render(len(self.buffer), last=True))
        self.begin_turn()

    def begin_turn(self, *, keep_talker: bool = False) -> None:
        """Drop what was not given out.  ``keep_talker`` leaves the talker in the middle of the turn that is over."""
        if not keep_talker:
            self.talker.reset()
        self.stream.begin_turn()
        self.buffer = list(LEAD)

    def _make(self, ids: Sequence[int], hidden: Tensor, shortest: int, bias: Bias | None) -> bool:
        """Let the talker make the next codes; whether it said that this was all."""
        condition = self._talker.condition(ids, hidden)
        position = self.talker.position
        made = self._talker.speak(
            self.talker, condition, min_new=shortest, max_new=self._chunk + 1, draws=self._draws, bias=bias
        )
        self.buffer += made.codes
        self.chunks.append(Chunk(position, shortest, condition, tuple(made.codes)))
        return made.ended

    def _windows(self, *, flushes: bool) -> Generator[FloatPcm, None, None]:
        full = self._chunk + self._ahead
        while len(self.buffer) >= (FLUSH if flushes else full):
            yield self._render(min(full, len(self.buffer)), last=False)

    def _render(self, count: int, *, last: bool) -> FloatPcm:
        codes = self.buffer[:count]
        pcm = _array(self._token2wav.stream(self.stream, codes, last=last))
        self.buffer = [] if last else self.buffer[count - self._ahead :]
        self.windows.append(Window(count, last, len(pcm), (self.stream.flow.length, self.stream.encoder.second.length)))
        return pcm

    def reset(self) -> None:
        """As new, with the same voice."""
        self.begin_turn()
        self.stream.reset()
        self.begin_unit()

    def snapshot(self) -> dict[str, Any]:
        """The state, detached from this object."""
        return {"talker": self.talker.snapshot(), "stream": self.stream.snapshot(), "buffer": list(self.buffer)}

    def restore(self, snapshot: dict[str, Any], draws: Draws) -> None:
        """Go on from a snapshot of a session with the same voice."""
        self._draws = draws
        self.talker.restore(snapshot["talker"])
        self.stream.restore(snapshot["stream"])
        self.buffer = [int(code) for code in snapshot["buffer"]]
        self.begin_unit()


def _padded(pcm: FloatPcm) -> FloatPcm:
    """One second, silence in front: what follows joins without a gap."""
    return np.pad(pcm, (OUTPUT_HZ - len(pcm), 0))


def _array(wave: Tensor) -> FloatPcm:
    return wave.to("cpu", torch.float32).numpy()
