"""What the agent says, from the engine to the listener's ear.

:class:`Playback` is the source a room pulls 20 ms frames from, and the ledger of every sample: queued → sent → heard
or discarded.  It has no clock of its own: pulled frames are its time.  Not thread-safe; the room pulls on the
session's loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from ..engines.base import OUTPUT_HZ, Int16Pcm
from .rooms.base import PLAYOUT_MS, PLAYOUT_SAMPLES, PlayoutFrame
from .voiceline import VoiceLine, trailing_silence

_FRAMES_PER_S = 1000 // PLAYOUT_MS
_FADE_SAMPLES = OUTPUT_HZ // 200  # 5 ms: short enough to be silent at once, long enough not to click
_SILENCE = np.zeros(PLAYOUT_SAMPLES, dtype=np.int16)
_SILENCE.flags.writeable = False


class LedgerState(StrEnum):
    """Where samples are; ``HEARD`` and ``DISCARDED`` are final."""

    QUEUED = "queued"
    SENT = "sent"
    HEARD = "heard"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class Moved:
    """Samples ``[first, end)`` of the utterance came into ``state``, the first of them at ``at_ms``."""

    at_ms: int
    utterance_id: str
    state: LedgerState
    first: int
    end: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """Every sample of the utterance is heard or discarded; the listener heard up to sample ``heard``."""

    at_ms: int
    utterance_id: str
    heard: int
    total: int
    flushed: bool


@dataclass(frozen=True, slots=True)
class _Sent:
    """New samples ``[first, end)`` of ``line`` that went out with frame ``number``."""

    number: int
    line: VoiceLine
    first: int
    end: int


class Playback:
    """Queue, output stage and ledger.

    ``clock_ms`` stamps what happens with media time.  ``acknowledges``: the listener reports playback; when no report
    has come for 1 s, or never will, HEARD is what was pulled ``delay_ms`` ago, marked as estimated.  Overflow rule
    ("refuse the newest"): speech that would make more than ``max_queued_ms`` wait is discarded and counted.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        *,
        acknowledges: bool,
        delay_ms: int,
        duck_db: float = 12.0,
        kept_pause_ms: int = 120,
        max_queued_ms: int = 300_000,
    ) -> None:
        self._clock_ms = clock_ms
        self._delay_frames = max(0, -(-delay_ms // PLAYOUT_MS))
        self._duck_gain = 10.0 ** (-duck_db / 20.0)
        self._kept_pause = kept_pause_ms * OUTPUT_HZ // 1000
        self._max_queued = max_queued_ms * OUTPUT_HZ // 1000
        self._lines: deque[VoiceLine] = deque()  # in the order of speaking; leaves when resolved
        self._sent: deque[_Sent] = deque()
        self._news: list[Moved | Resolved] = []
        self._gain = self._target_gain = 1.0
        self._holding = False
        self._fade_out: Int16Pcm | None = None
        self._fade_in = False
        self._next_number = 0
        self._acked = -1
        self._last_ack_at = 0  # in pulled frames
        self._last_speech_number = -1
        self._reports = acknowledges
        self._estimating = not acknowledges
        self._silent_run = 0  # samples of silence just sent
        self._lag = 0
        self.underruns = 0
        self.refused_samples = 0

    # -- what is said ------------------------------------------------------------------------------------------

    def enqueue(self, utterance_id: str, first_sample: int, pcm: Int16Pcm) -> None:
        """Append speech.  What the utterance has already is skipped.

        Raises ``ValueError`` when ``first_sample`` leaves a hole or the utterance has ended.
        """
        line = self._line(utterance_id) or VoiceLine(utterance_id)
        fresh = line.fresh(first_sample, len(pcm))
        if self._line(utterance_id) is None:
            self._lines.append(line)
        keep = max(0, min(fresh, self._max_queued - self.queued_samples))
        line.extend(pcm[len(pcm) - fresh :], keep)
        if keep < fresh:
            self.refused_samples += fresh - keep
            self._discard(line, line.received - (fresh - keep), line.received)

    def end(self, utterance_id: str, samples: int) -> None:
        """No more speech will come.  ``samples`` is what the engine counted; what was received is what counts here."""
        line = self._line(utterance_id)
        if line is None:
            line = VoiceLine(utterance_id)
            self._lines.append(line)
        line.ended = True
        self._settle()

    def flush(self, utterance_id: str | None = None) -> None:
        """Discard what is not heard yet of one utterance, or of all, and end it; what is held is held no more."""
        flushed = [line for line in self._lines if utterance_id in (None, line.utterance_id)]
        if flushed and self._lines[0] is flushed[0]:
            if not self._holding:
                self._start_fade_out()
            self._holding = False
        for line in flushed:
            self._sent = deque(item for item in self._sent if item.line is not line)
            line.ended = line.flushed = True
            self._discard(line, line.heard, line.received)
        self._settle()

    # -- duck, hold, go on -------------------------------------------------------------------------------------

    def duck(self, on: bool) -> None:
        """Lower the output by ``duck_db``, or raise it again, over the next frame."""
        self._target_gain = self._duck_gain if on else 1.0

    def hold(self) -> None:
        """Pause from the next frame on.  Nothing is lost."""
        if not self._holding:
            self._holding = True
            if self._lines:
                self._start_fade_out()

    def go_on(self) -> None:
        """Speak on after a hold: from the last energy dip before what was last heard, so that no word is torn.

        What was handed over but is not known to be played returns from sent to queued and is sent again.
        """
        if not self._holding:
            return
        self._holding = False
        self._estimate()
        unplayed = list(self._sent)
        self._sent.clear()
        for line in self._lines:
            spans = [item for item in unplayed if item.line is line]
            if spans:
                line.cursor = line.sent = spans[0].first
                for span in spans:
                    self._move(line, LedgerState.QUEUED, span.first, span.end)
        self._fade_out = None
        line = next((item for item in self._lines if item.has_more()), None)
        if line is not None and line.cursor > 0:
            again = line.dip_before(line.cursor)
            self._lag += line.cursor - again
            line.cursor = again
            self._fade_in = True
            self._silent_run = 0

    @property
    def holding(self) -> bool:
        """Whether the output is paused."""
        return self._holding

    # -- the room's side ---------------------------------------------------------------------------------------

    def pull(self) -> PlayoutFrame:
        """The next 20 ms."""
        number = self._next_number
        self._next_number += 1
        if self._fade_out is not None:
            pcm: Int16Pcm | None = self._fade_out
            self._fade_out = None
        elif self._holding:
            pcm = None
        else:
            pcm = self._speech(number)
        if self._holding and self._lines:
            self._lag += PLAYOUT_SAMPLES
        self._estimate()
        if pcm is None:
            self._gain = self._target_gain  # nothing sounds, so nothing can click
            return PlayoutFrame(number, _SILENCE, silent=True)
        return PlayoutFrame(number, pcm, silent=False)

    def expect_reports(self, acknowledges: bool) -> None:
        """Who listens may have changed: whether playback is reported from now on.  Costs nothing while it stays so."""
        if acknowledges != self._reports:
            self._reports = acknowledges
            self._estimating = not acknowledges
            self._last_ack_at = self._next_number

    def acknowledge(self, number: int) -> None:
        """The listener has played every frame up to ``number``.  Old, repeated and invented numbers change nothing."""
        if number >= self._next_number or number <= self._acked:
            return
        self._acked = number
        self._estimating = False
        self._last_ack_at = self._next_number
        self._hear(number, estimated=False)

    # -- the ledger --------------------------------------------------------------------------------------------

    def drain(self) -> list[Moved | Resolved]:
        """What moved in the ledger since the last call, neighbours joined."""
        news, self._news = self._news, []
        return news

    def heard_samples(self, utterance_id: str) -> int:
        """How far into a current utterance the listener has heard; 0 for one that is unknown or resolved."""
        line = self._line(utterance_id)
        return line.heard if line is not None else 0

    @property
    def urgent(self) -> bool:
        """Whether something began or ended since the last :meth:`drain`, rather than just going on."""
        return any(isinstance(item, Resolved) or item.first == 0 for item in self._news)

    @property
    def idle(self) -> bool:
        """Whether nothing is to be said, nothing is still to be heard, and nothing waits for :meth:`drain`."""
        return not self._lines and not self._news

    @property
    def queued_samples(self) -> int:
        """Samples that wait to be handed over."""
        return sum(line.queued for line in self._lines)

    @property
    def speaking(self) -> str | None:
        """The utterance that has begun to sound and is not finished, if any."""
        return next((line.utterance_id for line in self._lines if line.begun), None)

    @property
    def current(self) -> tuple[str, ...]:
        """The utterances that are not resolved, in the order of speaking."""
        return tuple(line.utterance_id for line in self._lines)

    @property
    def pulled_frames(self) -> int:
        """Frames pulled so far."""
        return self._next_number

    @property
    def lag_ms(self) -> int:
        """How far holds have put the speech behind."""
        return self._lag * 1000 // OUTPUT_HZ

    # -- inside ------------------------------------------------------------------------------------------------

    def _line(self, utterance_id: str) -> VoiceLine | None:
        return next((line for line in self._lines if line.utterance_id == utterance_id), None)

    def _speech(self, number: int) -> Int16Pcm | None:
        if not self._lines:
            self._lag = 0
            return None
        out = np.zeros(PLAYOUT_SAMPLES, dtype=np.int16)
        filled = 0
        for line in self._lines:
            while filled < PLAYOUT_SAMPLES and line.has_more():
                self._win_back(line)
                part = line.read(PLAYOUT_SAMPLES - filled)
                out[filled : filled + len(part)] = part
                filled += len(part)
                self._note_sent(number, line)
                self._silent_run = trailing_silence(self._silent_run, part)
            if not line.ended:
                break
        if filled < PLAYOUT_SAMPLES and any(line.begun and not line.ended for line in self._lines):
            self.underruns += filled > 0 or (number > 0 and self._last_speech_number == number - 1)
            self._soften_end(out, filled)
        if filled == 0:
            return None
        self._last_speech_number = number
        return self._shape(out)

    def _win_back(self, line: VoiceLine) -> None:
        if self._lag <= 0 or self._silent_run < self._kept_pause or line.cursor < line.sent:
            return
        skipped = line.skippable(self._lag)
        if skipped:
            first = line.cursor
            line.cursor += skipped
            self._lag -= skipped
            self._discard(line, first, first + skipped)

    def _note_sent(self, number: int, line: VoiceLine) -> None:
        line.begun = True
        if line.cursor <= line.sent:
            return  # handed over before, said again
        first = line.sent
        for start, end in line.undiscarded(first, line.cursor):
            self._sent.append(_Sent(number, line, start, end))
            self._move(line, LedgerState.SENT, start, end)
        line.sent = line.cursor

    def _shape(self, out: Int16Pcm) -> Int16Pcm:
        if self._gain == self._target_gain == 1.0 and not self._fade_in:
            return out
        ramp = np.linspace(self._gain, self._target_gain, PLAYOUT_SAMPLES, dtype=np.float32)
        self._gain = self._target_gain
        if self._fade_in:
            self._fade_in = False
            ramp[:_FADE_SAMPLES] *= np.linspace(0.0, 1.0, _FADE_SAMPLES, dtype=np.float32)
        return np.rint(out * ramp).astype(np.int16)

    def _start_fade_out(self) -> None:
        """Let the sound that is cut off die away within 5 ms.  These samples are not sent: they stay where they are."""
        line = next((item for item in self._lines if item.cursor < item.received), None)
        if line is None or self._last_speech_number != self._next_number - 1:
            return
        tail = line.peek(_FADE_SAMPLES)
        if len(tail):
            out = np.zeros(PLAYOUT_SAMPLES, dtype=np.int16)
            ramp = np.linspace(self._gain, 0.0, len(tail), dtype=np.float32)
            out[: len(tail)] = np.rint(tail * ramp).astype(np.int16)
            self._fade_out = out

    def _soften_end(self, out: Int16Pcm, filled: int) -> None:
        """Let an underrun fade out and what comes after it fade in, without a click."""
        length = min(filled, _FADE_SAMPLES)
        ramp = np.linspace(1.0, 0.0, length, dtype=np.float32)
        out[filled - length : filled] = np.rint(out[filled - length : filled] * ramp).astype(np.int16)
        self._fade_in = True

    def _estimate(self) -> None:
        if not self._estimating and self._sent:
            since = max(self._last_ack_at, self._sent[0].number)
            self._estimating = self._next_number - since >= _FRAMES_PER_S
        if self._estimating:
            self._hear(self._next_number - 1 - self._delay_frames, estimated=True)

    def _hear(self, number: int, *, estimated: bool) -> None:
        moved = False
        while self._sent and self._sent[0].number <= number:
            item = self._sent.popleft()
            item.line.hear(item.first, item.end)
            self._move(item.line, LedgerState.HEARD, item.first, item.end, estimated=estimated)
            moved = True
        if moved:
            self._settle()

    def _discard(self, line: VoiceLine, first: int, end: int) -> None:
        for start, stop in line.discard(first, end):
            self._move(line, LedgerState.DISCARDED, start, stop)

    def _settle(self) -> None:
        for line in [item for item in self._lines if item.resolved]:
            self._lines.remove(line)
            self._news.append(
                Resolved(self._clock_ms(), line.utterance_id, line.heard, line.received, flushed=line.flushed)
            )

    def _move(self, line: VoiceLine, state: LedgerState, first: int, end: int, *, estimated: bool = False) -> None:
        for index in range(len(self._news) - 1, -1, -1):
            last = self._news[index]
            if isinstance(last, Resolved) or last.utterance_id != line.utterance_id:
                break
            if (last.state, last.end, last.estimated) == (state, first, estimated):
                self._news[index] = replace(last, end=end)
                return
            if last.state is LedgerState.QUEUED:
                break
        self._news.append(Moved(self._clock_ms(), line.utterance_id, state, first, end, estimated))
