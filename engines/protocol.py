"""The control-token gate: from what a model generates to decisions, visible text and private requests.

A model of this family speaks with ordinary text and twelve control tokens.  :class:`Gate` takes resolved tokens
(control tokens by name, everything else as text), :class:`TextGate` takes a stream of text cut anywhere and finds the
tokens in it.  Both are pure state machines: input in, a list of :data:`Action` out.

- ``<delegate>`` opens a private span, ``</delegate>`` or ``<|turn_eos|>`` closes it (released checkpoints do either).
  It may cross units and chunks, never nests, holds at most :attr:`GateLimits.query_chars` characters, and each
  :class:`Open` is followed by exactly one :class:`Close` or :class:`Reject`.
- After a rejection nothing of the turn is visible any more, since what follows may be the rest of the request.
- ``<backend>`` belongs to the input; when a model generates it, all up to ``</backend>`` is swallowed, control tokens
  included, so that a quoted result can neither be shown nor make a request.
- The end of the stream and a reset throw an open span away.

:func:`escape` goes the other way: text of a user or a tool that enters a prompt.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final

from .base import Decision

QUERY_CHARS: Final = 4000


class Control(StrEnum):
    """The control tokens, by the name under which a tokenizer knows them."""

    UNIT = "<unit>"
    UNIT_END = "</unit>"
    LISTEN = "<|listen|>"
    SPEAK = "<|speak|>"
    CHUNK_EOS = "<|chunk_eos|>"
    TURN_EOS = "<|turn_eos|>"
    DELEGATE = "<delegate>"
    DELEGATE_END = "</delegate>"
    BACKEND = "<backend>"
    BACKEND_END = "</backend>"
    IMAGE = "<image>"
    IMAGE_END = "</image>"


class Reason(StrEnum):
    """Why a private request is not executed."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    NESTED = "nested"
    ILLEGAL_TOKEN = "illegal_token"  # noqa: S105 - a reason, no secret
    TOO_MANY = "too_many"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Decide:
    """The model listens or speaks in this unit; may repeat."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Show:
    """Words for the user, to be shown and spoken."""

    text: str


@dataclass(frozen=True, slots=True)
class Open:
    """A private request begins: this is the moment to freeze evidence."""


@dataclass(frozen=True, slots=True)
class Hide:
    """A piece of the private request."""

    text: str


@dataclass(frozen=True, slots=True)
class Close:
    """The request is complete; ``query`` is trimmed and not empty."""

    query: str


@dataclass(frozen=True, slots=True)
class Reject:
    """The request that was opened last is not executed."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class EndTurn:
    """``<|turn_eos|>``: the model's turn is over."""


@dataclass(frozen=True, slots=True)
class EndUnit:
    """``</unit>``: one unit of the stream is over."""


Action = Decide | Show | Open | Hide | Close | Reject | EndTurn | EndUnit


@dataclass(frozen=True, slots=True)
class GateLimits:
    """``query_chars``: characters of a span, before trimming; ``per_turn``: how many requests a turn may make."""

    query_chars: int = QUERY_CHARS
    per_turn: int = 1


class _State(Enum):
    VISIBLE = auto()
    SPAN = auto()
    DEAD = auto()
    """Inside a span that was rejected or is not wanted."""
    BACKEND = auto()


_DECISIONS: Final = {Control.LISTEN: Decision.LISTEN, Control.SPEAK: Decision.SPEAK}
_BREAKS_SPAN: Final = frozenset(
    {Control.LISTEN, Control.IMAGE, Control.IMAGE_END, Control.BACKEND, Control.BACKEND_END, Control.DELEGATE}
)


class Gate:
    """The gate at token level."""

    def __init__(self, limits: GateLimits | None = None) -> None:
        self._limits = limits or GateLimits()
        self._state = _State.VISIBLE
        self._query: list[str] = []
        self._length = 0
        self._muted = False
        self._opened = 0

    @property
    def private(self) -> bool:
        """Whether what is generated now is private or of a rejected turn, so that its audio must not be heard."""
        return self._muted or self._state is not _State.VISIBLE

    def text(self, piece: str) -> list[Action]:
        """Take ordinary text; tags in it are text (the tokenizer would have made control tokens of real ones)."""
        if not piece:
            return []
        if self._state is _State.VISIBLE:
            return [] if self._muted else [Show(piece)]
        if self._state is not _State.SPAN:
            return []
        room = self._limits.query_chars - self._length
        kept = piece[:room]
        actions: list[Action] = []
        if kept:
            self._query.append(kept)
            self._length += len(kept)
            actions.append(Hide(kept))
        if len(piece) > room:
            actions += self._reject(Reason.TOO_LONG)
        return actions

    def control(self, token: Control) -> list[Action]:
        """Take a control token."""
        if token is Control.UNIT_END:
            return [EndUnit()]
        if token is Control.TURN_EOS:
            actions = self._close() if self._state is _State.SPAN else []
            self._begin_turn()
            return [*actions, EndTurn()]
        if self._state is _State.BACKEND:
            if token is Control.BACKEND_END:
                self._state = _State.VISIBLE
            return []
        actions: list[Action] = []
        if self._state is _State.VISIBLE:
            actions += self._outside(token)
        elif token is Control.DELEGATE_END:
            actions += self._leave()
        elif self._state is _State.SPAN and token in _BREAKS_SPAN:
            actions += self._reject(Reason.NESTED if token is Control.DELEGATE else Reason.ILLEGAL_TOKEN)
        if token in _DECISIONS:
            actions.append(Decide(_DECISIONS[token]))
        return actions

    def reset(self) -> list[Action]:
        """End the stream or begin a new one: an open span is thrown away."""
        actions = self._reject(Reason.UNFINISHED) if self._state is _State.SPAN else []
        self._begin_turn()
        return actions

    def _outside(self, token: Control) -> list[Action]:
        if token is Control.BACKEND:
            self._state = _State.BACKEND
        if token is not Control.DELEGATE:
            return []
        if self._muted:
            self._state = _State.DEAD
            return []
        self._state = _State.SPAN
        self._query = []
        self._length = 0
        self._opened += 1
        if self._opened > self._limits.per_turn:
            return [Open(), *self._reject(Reason.TOO_MANY)]
        return [Open()]

    def _leave(self) -> list[Action]:
        actions = self._close() if self._state is _State.SPAN else []
        self._state = _State.VISIBLE
        return actions

    def _close(self) -> list[Action]:
        query = "".join(self._query).strip()
        if not query:
            return self._reject(Reason.EMPTY)
        self._query = []
        return [Close(query)]

    def _reject(self, reason: Reason) -> list[Action]:
        self._state = _State.DEAD
        self._query = []
        self._muted = True
        return [Reject(reason)]

    def _begin_turn(self) -> None:
        self._state = _State.VISIBLE
        self._query = []
        self._muted = False
        self._opened = 0


_TAG: Final = re.compile("|".join(re.escape(token) for token in Control))
_LONGEST: Final = max(len(token) for token in Control)


class TextGate:
    """The gate over a stream of text that may be cut anywhere, even inside a tag.

    A tag is recognised in its exact spelling only; anything else comes out as text, at the latest at :meth:`finish`.
    """

    def __init__(self, limits: GateLimits | None = None) -> None:
        self._gate = Gate(limits)
        self._held = ""

    @property
    def private(self) -> bool:
        """As :attr:`Gate.private`."""
        return self._gate.private

    def feed(self, piece: str) -> list[Action]:
        """Take the next piece of the stream."""
        text = self._held + piece
        actions: list[Action] = []
        at = 0
        for tag in _TAG.finditer(text):
            actions += self._gate.text(text[at : tag.start()])
            actions += self._gate.control(Control(tag.group()))
            at = tag.end()
        held = _partial_tag(text, at)
        actions += self._gate.text(text[at : len(text) - held])
        self._held = text[len(text) - held :]
        return actions

    def finish(self) -> list[Action]:
        """End the stream: what was held back as a possible tag was text after all; an open span is thrown away."""
        held, self._held = self._held, ""
        return [*self._gate.text(held), *self._gate.reset()]

    def reset(self) -> list[Action]:
        """Begin a new stream; what was held back is forgotten."""
        self._held = ""
        return self._gate.reset()


def _partial_tag(text: str, start: int) -> int:
    """Length of the end of ``text[start:]`` that may be the beginning of a tag."""
    at = text.rfind("<", max(start, len(text) - _LONGEST + 1))
    if at < 0:
        return 0
    tail = text[at:]
    return len(tail) if any(token.startswith(tail) for token in Control) else 0


_HARMLESS_BRACKET: Final = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
_BRACKETS: Final = re.compile("[<\N{SMALL LESS-THAN SIGN}\N{FULLWIDTH LESS-THAN SIGN}]")


def escape(text: str) -> str:
    """User or tool text with every bracket that could begin a control token made harmless.

    Each ``<`` followed by a letter, ``/``, ``|`` or nothing becomes ``‹``; ``a < b`` and ``<3`` stay as they are.
    Compatibility forms and invisible characters count as what they look like.  It follows that neither the text nor any
    concatenation of escaped texts holds a control token, a chat template's token or the beginning of one.  Idempotent.
    """

    def harmless(bracket: re.Match[str]) -> str:
        return _HARMLESS_BRACKET if _may_begin_token(text, bracket.end()) else bracket.group()

    return _BRACKETS.sub(harmless, text)


def _may_begin_token(text: str, at: int) -> bool:
    for character in text[at:]:
        if unicodedata.category(character) in {"Cf", "Mn", "Cc"} and not character.isspace():
            continue
        plain = unicodedata.normalize("NFKC", character)[:1]
        return plain in {"/", "|"} or plain.isalpha()
    return True
