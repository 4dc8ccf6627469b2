"""From the ids a model generates to the words a user may see, and to what may be voiced.

Bytes of a character may be spread over several tokens, so text leaves when its last character is whole.  The gate of
the protocol decides what is private; this file only tells it which ids are control tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..protocol import Action, Close, Control, EndTurn, Gate, Hide, Open, Reject, Show
from .pieces import PrivatePiece, TextPiece
from .tokens import ProtocolIds, Tokens

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
_LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8: of more tokens than that the oldest is no part of an unfinished character."""


def control_names(ids: ProtocolIds) -> dict[int, Control]:
    """The tokens of the gate by id."""
    named = {
        ids.unit: Control.UNIT,
        ids.unit_end: Control.UNIT_END,
        ids.listen: Control.LISTEN,
        ids.speak: Control.SPEAK,
        ids.chunk_eos: Control.CHUNK_EOS,
        ids.turn_eos: Control.TURN_EOS,
        ids.delegate: Control.DELEGATE,
        ids.delegate_end: Control.DELEGATE_END,
        ids.backend: Control.BACKEND,
        ids.backend_end: Control.BACKEND_END,
        ids.image: Control.IMAGE,
        ids.image_end: Control.IMAGE_END,
    }
    return {token: control for token, control in named.items() if token is not None}


class Characters:
    """Text of ids as soon as its characters are whole."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._ids: list[int] = []
        self._given = 0

    def push(self, token: int) -> str:
        """The text that ``token`` completes."""
        self._ids.append(token)
        text = self._tokens.decode(self._ids)
        whole = text.rstrip(_INCOMPLETE)
        if len(text) - len(whole) >= _LONGEST_CHARACTER:
            whole = text
        piece = whole[self._given :]
        if whole == text:
            self._clear()
        else:
            self._given = max(self._given, len(whole))
        return piece

    def flush(self) -> str:
        """What is left; an unfinished character becomes U+FFFD."""
        piece = self._tokens.decode(self._ids)[self._given :]
        self._clear()
        return piece

    def _clear(self) -> None:
        self._ids = []
        self._given = 0


class Words:
    """The gate over the ids of a session.

    State: what was generated in the turn so far (:attr:`turn`), from which everything else follows.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._controls = control_names(tokens.ids)
        self.reset()

    def reset(self) -> None:
        """Begin a new stream."""
        self._gate = Gate()
        self._characters = Characters(self._tokens)
        self.turn: list[int] = []

    @property
    def private(self) -> bool:
        """Whether what comes now is not for the user."""
        return self._gate.private

    def push(self, token: int, *, lost: bool = False) -> list[TextPiece | PrivatePiece]:
        """Take a generated id.

        ``lost`` marks the first id of a unit, which by training is a control token: as text it is only taken inside a
        private span, whose body may go on there.
        """
        actions: list[Action] = []
        control = self._controls.get(token)
        if control is None:
            if lost and not self.private:
                return []
            actions += self._gate.text(self._characters.push(token))
        else:
            if control is not Control.SPEAK:
                # a unit that goes on speaking may go on with a character
                actions += self._gate.text(self._characters.flush())
            actions += self._gate.control(control)
        self.turn.append(token)
        if any(isinstance(action, EndTurn) for action in actions):
            self.turn = []
        return list(_pieces(actions))

    def abandon(self) -> list[TextPiece | PrivatePiece]:
        """The turn is cut off from outside: an open request is thrown away."""
        actions = self._gate.reset()
        self._characters.flush()
        self.turn = []
        return list(_pieces(actions))

    def snapshot(self) -> dict[str, Any]:
        """The ids of the turn."""
        return {"turn": list(self.turn)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.reset()
        for token in snapshot["turn"]:
            self.push(int(token))


def _pieces(actions: Iterable[Action]) -> Iterable[TextPiece | PrivatePiece]:
    for action in actions:
        if isinstance(action, Show):
            yield TextPiece(action.text)
        elif isinstance(action, Open | Hide | Close | Reject):
            yield PrivatePiece(action)
