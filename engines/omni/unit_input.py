"""What goes into a unit: what is heard, seen and told, as rows for the thinker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from ..base import EngineError, FloatPcm, RgbImage
from ..protocol import escape
from .behaviour import Rules
from .feeding import Part, pictures
from .hearing import Hearing, HearingRules
from .model import OmniModel
from .units import UnitKind

UNIT_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Fed:
    """A unit that was fed: its embeddings ``audio [n, hidden]`` and ``vision [slices, 64, hidden]``, and when it
    began."""

    kind: UnitKind
    audio: Tensor | None
    vision: Tensor | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Input:
    """The parts of a unit: those that its decision is taken behind, and words that come after it."""

    fed: Fed
    parts: list[Part]
    words: list[int]


class UnitInput:
    """The input of one session.

    State: its ears, the media clock, and what was told and waits for the next unit with audio.
    """

    def __init__(self, model: OmniModel, rules: Rules, overlap_units: int) -> None:
        self._model = model
        self._rules = rules
        self.hearing: Hearing | None = None
        if model.encoder is not None and model.projector is not None:
            hears = HearingRules(
                keep_cache_on_prepare=not rules.clear_encoder_at_start,
                stale_floor=rules.stale_mel_floor,
                visible_padding=rules.visible_padding,
                overlap_units=overlap_units,
            )
            self.hearing = Hearing(model.encoder, model.projector, model.config, rules=hears)
        self._forget()

    def _forget(self) -> None:
        self.waiting: list[int] = []
        self._clock_ms = 0
        self._behind_ms = 0  # how far the caller's clock is behind that of the context

    def begin(self, voice: FloatPcm | None) -> list[Part]:
        """Begin a session; the embeddings of its reference voice (``float32[n]`` at 16 kHz)."""
        self._forget()
        heard: list[Part] = [] if voice is None else [self._ears().offline(voice)]
        if self.hearing is not None:
            self.hearing.prepare()
        return heard

    def take(
        self,
        audio: FloatPcm | None,
        frames: Sequence[RgbImage],
        text: str | Sequence[int] | None,
        max_slices: int | Sequence[int],
        at_ms: int | None,
    ) -> Input | None:
        """The next unit; ``None`` when its audio is too short and was only kept.

        Raises ``ValueError`` for a unit of nothing, and :class:`~..base.EngineError` for what the checkpoint has no
        tower for, or for a picture that is none; nothing has changed then.
        """
        words = self.plain(text) if isinstance(text, str) else list(text or [])
        if audio is None and not frames and not words:
            raise ValueError("a unit needs audio, frames or text")
        if audio is not None and not self._ears().enough(len(audio)):
            self._ears().listen(audio)
            return None
        shown, vision = pictures(self._model, frames, max_slices)
        parts: list[Part] = [[self._model.tokens.ids.unit], *shown]
        heard = None
        if audio is not None:
            heard = self._ears().listen(audio)
            assert heard is not None, "there is enough for a unit"
            parts.append(heard)
            words, self.waiting = [*self.waiting, *words], []
        kind = UnitKind.of(audio=heard is not None, video=bool(frames))
        if words and (self._rules.decision_after_text or kind is UnitKind.TEXT):
            parts.append(words)
            words = []
        if at_ms is not None:
            self._behind_ms = max(self._behind_ms, self._clock_ms - at_ms)
        fed = Fed(kind, heard, vision, self._clock_ms if at_ms is None else at_ms + self._behind_ms)
        if kind is not UnitKind.TEXT:
            self.follow(fed.at_ms)
        return Input(fed, parts, words)

    def follow(self, at_ms: int) -> None:
        """The context holds a unit that began then: what comes next is not earlier than its end."""
        self._clock_ms = max(self._clock_ms, at_ms + UNIT_MS)

    def plain(self, text: str) -> list[int]:
        """Ids of a user's or a tool's words; none of them is a control token."""
        return self._model.tokens.encode_plain(escape(text))

    def backend(self, text: str) -> list[int]:
        """Ids of a background result in its markup.  Raises :class:`~..base.EngineError` for a checkpoint without."""
        ids = self._model.tokens.ids
        if ids.backend is None or ids.backend_end is None:
            raise EngineError("this checkpoint knows no background results: its tokenizer has no <backend>")
        return [ids.backend, *self.plain(text), ids.backend_end]

    def _ears(self) -> Hearing:
        if self.hearing is None:
            raise EngineError("this checkpoint has no audio encoder: send no audio, or load another checkpoint")
        return self.hearing

    def reset(self) -> None:
        """As new, but for what the hearing's rules keep."""
        self._forget()
        if self.hearing is not None:
            self.hearing.reset()

    def snapshot(self) -> dict[str, Any]:
        """The state, detached from this object."""
        return {
            "hearing": None if self.hearing is None else self.hearing.snapshot(),
            "waiting": list(self.waiting),
            "clock_ms": self._clock_ms,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        if self.hearing is not None and snapshot["hearing"] is not None:
            self.hearing.restore(snapshot["hearing"])
        self.waiting = [int(token) for token in snapshot["waiting"]]
        self._clock_ms = int(snapshot["clock_ms"])
        self._behind_ms = 0
