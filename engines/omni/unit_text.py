"""The text of a unit: decision, words and terminator, token by token.

Only the token that was sampled comes to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .behaviour import Decoding, Rules
from .draws import Draws
from .model import OmniModel
from .pieces import TextPiece, Work, forward
from .sampler import checked, sample
from .thinker import Step
from .upload import download
from .words import Words, control_names

Steer = Callable[[Tensor], Tensor]
"""From the raw logits ``float32[vocab]`` to those that are sampled from."""


@dataclass(slots=True)
class Said:
    """What a unit's decoding gave."""

    terminator: int
    is_listen: bool = False
    end_of_turn: bool = False
    in_turn: bool = False
    """A turn was open in the unit, before or after it."""
    text: str = ""
    ids: list[int] = field(default_factory=list[int])
    """Every id that was fed, in order."""
    spoken: list[int] = field(default_factory=list[int])
    """Those that condition the talker."""
    hidden: list[Tensor] = field(default_factory=list[Tensor])
    """The thinker's hidden state at each of them, ``[hidden]``."""
    private: bool = False
    """Something in the unit was private."""
    ends_private: bool = False
    """The unit ends inside something private."""


class UnitText:
    """Decodes the units of one session.

    State: the ids sampled so far (as far as a penalty looks back), whether a turn is open, and the words of the turn.
    """

    def __init__(self, model: OmniModel, rules: Rules) -> None:
        self._model = model
        self._rules = rules
        self._ids = model.tokens.ids
        self._ends = {self._ids.listen, self._ids.chunk_eos, self._ids.chunk_tts_eos}
        self._controls = {*control_names(self._ids), self._ids.tts_bos}
        forbidden = torch.zeros(model.config.vocab_size, dtype=torch.bool)
        forbidden[list(model.tokens.forbidden)] = True
        self._forbidden = forbidden.to(model.device)
        self.words = Words(model.tokens)
        self.history: list[int] = []
        self.turn_open = False
        self.lost = 0
        """Words that stood where the decision belongs, and were neither shown nor spoken."""

    def force_listen(self) -> Work[Said]:
        """Listen without asking the model; an open turn is closed in the context first."""
        said = Said(self._ids.listen, is_listen=True)
        if self.turn_open:
            yield from forward(self._embed(self._ids.turn_eos))
            said.ids.append(self._ids.turn_eos)
            self.turn_open = False
            if self._rules.private_spans:
                yield from self.words.abandon()
        return said

    def decode(
        self, step: Step, decoding: Decoding, draws: Draws, steer: Steer | None, stopped: Callable[[], bool]
    ) -> Work[Said]:
        """Decode a unit whose decision is taken from ``step``."""
        said = Said(self._ids.chunk_eos, in_turn=self.turn_open)
        for index in range(decoding.max_tokens - 1):
            if stopped():
                break
            token = self._choose(step.logits[0], decoding, draws, steer)
            if token == self._ids.listen and self.turn_open:
                token = self._ids.tts_bos
            if token in self._ends:
                said.terminator = token
                break
            self.turn_open = said.in_turn = True
            if index > 0 and self._too_long([*said.spoken, token], decoding.max_characters):
                break
            voiced = yield from self._show(token, said, first=index == 0)
            step = yield from forward(self._embed(token))
            said.ids.append(token)
            said.end_of_turn = token == self._ids.turn_eos
            self.turn_open = not said.end_of_turn
            if index > 0 and voiced:
                said.spoken.append(token)
                said.hidden.append(step.hidden[0])
        said.ends_private = self.words.private
        said.is_listen = said.terminator == self._ids.listen
        if said.is_listen and said.end_of_turn:
            # the model can only fall silent by ending its turn: this is a turn that was said to its end
            said.is_listen = not self._rules.listen_after_turn_ends_it
        if said.is_listen:
            said.end_of_turn = False
            said.text = ""
        elif not self._rules.private_spans:
            said.text = self._model.tokens.decode(said.spoken)
            if said.text:
                yield TextPiece(said.text)
        return said

    def _choose(self, raw: Tensor, decoding: Decoding, draws: Draws, steer: Steer | None) -> int:
        settings = decoding.sampler
        logits = raw if steer is None else steer(raw)
        chosen = sample(logits, self.history, settings, self._ids, self._forbidden, draws.text())
        token, recorded = download(chosen)
        checked(token, self._model.dtype)
        if recorded:
            self.history.append(token)
            del self.history[: -max(settings.repetition_window, _REMEMBERED)]
        return token

    def _show(self, token: int, said: Said, *, first: bool) -> Work[bool]:
        """Give out what ``token`` lets be shown; whether it is to be voiced."""
        self.lost += first and token not in self._controls
        if not self._rules.private_spans:
            return True
        before = self.words.private
        for piece in self.words.push(token, lost=first):
            if isinstance(piece, TextPiece):
                said.text += piece.text
            yield piece
        hidden = before or self.words.private
        said.private = said.private or hidden
        return token == self._ids.turn_eos or not (hidden or token in (self._ids.delegate_end, self._ids.backend_end))

    def _too_long(self, ids: list[int], limit: int | None) -> bool:
        return limit is not None and len(self._model.tokens.decode(ids)) >= limit

    def _embed(self, token: int) -> Tensor:
        return self._model.thinker.embed([token])[None]

    def reset(self) -> None:
        """As new."""
        self.words.reset()
        self.history = []
        self.turn_open = False
        self.lost = 0

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "words": self.words.snapshot(),
            "history": list(self.history),
            "turn_open": self.turn_open,
            "lost": self.lost,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.words.restore(snapshot["words"])
        self.history = [int(token) for token in snapshot["history"]]
        self.turn_open = bool(snapshot["turn_open"])
        self.lost = int(snapshot["lost"])


_REMEMBERED = 512
"""Ids that are kept whatever the present window, as a later one may be longer."""
