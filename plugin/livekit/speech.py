"""What of the session's playout goes to LiveKit: one stretch of frames per utterance, and its words in time with them.

Pure: pulled frames and timeline events in, frames and words out.  Between utterances nothing goes out, save for one
frame that ends each of them, so that LiveKit sees two utterances however close they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...engines.base import OUTPUT_HZ, Int16Pcm
from ..rooms.base import PLAYOUT_MS, PLAYOUT_SAMPLES, PlayoutFrame

_SAMPLES_PER_MS = OUTPUT_HZ // 1000
_MAX_KNOWN = 64
_SILENCE = np.zeros(PLAYOUT_SAMPLES, dtype=np.int16)
_SILENCE.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Words:
    """Words of the agent, spoken from ``start_ms`` to ``end_ms`` of the stream of frames."""

    utterance_id: str
    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Sound:
    """20 ms at ``start_ms`` of the stream.  ``speaking`` is false for the frame that ends the utterance."""

    utterance_id: str
    number: int
    pcm: Int16Pcm
    start_ms: int
    speaking: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """The utterance was given up: whatever of it was handed over and not heard is to be discarded."""

    utterance_id: str


Out = Words | Sound | Cut


@dataclass(slots=True)
class _Span:
    text: str
    first_ms: int
    end_ms: int


@dataclass(slots=True)
class _Utterance:
    spans: list[_Span] = field(default_factory=list[_Span])
    queued: bool = False


class SpeechLine:
    """Follows one session."""

    def __init__(self) -> None:
        self._known: dict[str, _Utterance] = {}  # in the order of speaking, until they are over
        self._open: str | None = None
        self._base_ms = 0
        self._clock_ms = 0
        self._number = -1

    @property
    def open(self) -> str | None:
        """The utterance that frames go out for."""
        return self._open

    def event(self, event: dict[str, Any]) -> list[Out]:
        """Take a timeline event."""
        match event:
            case {"type": "agent.text", "utterance_id": str(known), "text": str(text)}:
                first, end = int(event["first_sample"]), int(event["end_sample"])
                span = _Span(text, first // _SAMPLES_PER_MS, end // _SAMPLES_PER_MS)
                self._utterance(known).spans.append(span)
            case {"type": "agent.speech", "utterance_id": str(known)}:
                self._utterance(known).queued = True
            case {"type": "playout", "state": "sent", "first_sample": 0, "utterance_id": str(begun)}:
                if self._open not in (None, begun) and begun in self._known:
                    # The next one followed without a pause; its first frames have gone out already.
                    return [*self._close(self._known.pop(self._open or "")), *self._begin(begun)]
            case {"type": "agent.utterance_ended", "utterance_id": str(over), "interrupted": bool(interrupted)}:
                utterance = self._known.pop(over, None)
                if over == self._open:
                    closing = self._close(None if interrupted else utterance)
                    return [Cut(over), *closing] if interrupted else closing
            case {"type": "session.ended"} if self._open is not None:
                return self._close(None)
            case _:
                pass
        return []

    def frame(self, frame: PlayoutFrame) -> list[Out]:
        """Take the next pulled frame."""
        self._number = frame.number
        if self._open is None:
            waiting = next((name for name, utterance in self._known.items() if utterance.queued), None)
            if frame.silent or waiting is None:
                return []  # a sound without an utterance is the last one dying away
            self._begin(waiting)
        assert self._open is not None
        sound = Sound(self._open, frame.number, frame.pcm, self._clock_ms, speaking=True)
        out: list[Out] = [*self._due(self._open), sound]
        self._clock_ms += PLAYOUT_MS
        return out

    def _utterance(self, utterance_id: str) -> _Utterance:
        if utterance_id not in self._known and len(self._known) >= _MAX_KNOWN:  # overflow rule: the oldest goes
            del self._known[next(iter(self._known))]
        return self._known.setdefault(utterance_id, _Utterance())

    def _begin(self, utterance_id: str) -> list[Out]:
        self._open, self._base_ms = utterance_id, self._clock_ms
        return []

    def _due(self, utterance_id: str) -> list[Words]:
        """Words whose sound begins now.  Earlier they would be told for good, though the sound may never come."""
        utterance = self._known.get(utterance_id)
        due: list[Words] = []
        while utterance is not None and utterance.spans:
            span = utterance.spans[0]
            if self._base_ms + span.first_ms > self._clock_ms:
                break
            due.append(self._words(utterance_id, utterance.spans.pop(0)))
        return due

    def _words(self, utterance_id: str, span: _Span) -> Words:
        start = min(self._base_ms + span.first_ms, self._clock_ms)
        return Words(utterance_id, span.text, start, max(start, self._base_ms + span.end_ms))

    def _close(self, utterance: _Utterance | None) -> list[Out]:
        """End the open utterance; words left over (their places are estimates) are told unless it was given up."""
        assert self._open is not None
        name, self._open = self._open, None
        out: list[Out] = [self._words(name, span) for span in (utterance.spans if utterance is not None else ())]
        out.append(Sound(name, self._number, _SILENCE, self._clock_ms, speaking=False))
        self._clock_ms += PLAYOUT_MS
        return out
