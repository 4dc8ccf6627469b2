"""Timeline events become captions as LiveKit's components show them: whole texts that replace each other.  Pure.

The agent's words appear as they are sent, not as they are generated, and the last version of a segment is what was
heard of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...session.words import join_words

_LIVE = 32
"""Utterances that may be open at a time; beyond this the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class Caption:
    """``text`` is all of segment ``segment`` so far.  ``speaker`` is an identity, or ``None`` for the agent."""

    segment: str
    text: str
    final: bool
    speaker: str | None = None


@dataclass(slots=True)
class _Utterance:
    spans: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    sent: int = 0
    shown: str = ""


class Captions:
    """``prefix`` makes segments of this session different from those of any other in the room."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._live: dict[str, _Utterance] = {}

    def event(self, event: Mapping[str, Any]) -> Caption | None:
        """What an event (JSON form) makes visible, if anything."""
        match event["type"]:
            case "user.text" if not event["typed"]:
                # Whose turn it is may become clear only while it goes on: the segment stays the same.
                segment = f"{self._prefix}-user-{event['start_ms']}"
                return Caption(segment, event["text"], event["final"], str(event["speaker"]))
            case "agent.text":
                utterance = self._utterance(event["utterance_id"])
                utterance.spans.append((event["first_sample"], event["text"]))
                return self._show(event["utterance_id"], utterance)
            case "playout" if event.get("state") == "sent":
                utterance = self._utterance(event["utterance_id"])
                utterance.sent = max(utterance.sent, event["end_sample"])
                return self._show(event["utterance_id"], utterance)
            case "agent.utterance_ended":
                utterance = self._live.pop(event["utterance_id"], _Utterance())
                text = event["heard_text"]
                return (
                    Caption(self._segment(event["utterance_id"]), text, final=True) if text or utterance.shown else None
                )
            case _:
                return None

    def _utterance(self, utterance_id: str) -> _Utterance:
        if utterance_id not in self._live:
            if len(self._live) >= _LIVE:
                del self._live[next(iter(self._live))]
            self._live[utterance_id] = _Utterance()
        return self._live[utterance_id]

    def _show(self, utterance_id: str, utterance: _Utterance) -> Caption | None:
        text = join_words(text for first, text in utterance.spans if first < utterance.sent)
        if text == utterance.shown:
            return None
        utterance.shown = text
        return Caption(self._segment(utterance_id), text, final=False)

    def _segment(self, utterance_id: str) -> str:
        return f"{self._prefix}-{utterance_id}"
