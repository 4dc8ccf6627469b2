"""Which frames are speech: the session says so, instead of a guess from their loudness."""

from __future__ import annotations

from dataclasses import dataclass

from .compat import rtc

_KEY = "venus"


@dataclass(frozen=True, slots=True)
class FrameTag:
    """Rides on each frame that a :class:`~.session.DuplexSession` hands out.

    ``number`` is that of the playout frame.  ``speaking`` is false for the one frame that ends an utterance.
    """

    number: int
    utterance_id: str
    speaking: bool


def mark(frame: rtc.AudioFrame, tag: FrameTag) -> None:
    """Put ``tag`` on ``frame``."""
    frame.userdata[_KEY] = tag


def tag_of(frame: rtc.AudioFrame) -> FrameTag | None:
    """The tag of ``frame``; ``None`` for a frame of somebody else, or one that was resampled on its way."""
    tag: object = frame.userdata.get(_KEY)
    return tag if isinstance(tag, FrameTag) else None


class SpeakingGate:
    """An ``AudioGate`` that is open from the first frame of an utterance to its end, its pauses included.

    So one utterance is one generation, however quiet its voice and however long it is held.
    """

    def update(self, frame: rtc.AudioFrame) -> bool:
        """True while ``frame`` belongs to an utterance."""
        tag = tag_of(frame)
        return tag is not None and tag.speaking

    def deactivate(self) -> None:
        """Nothing is remembered between frames."""
