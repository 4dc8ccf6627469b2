"""The conversation as the model should remember it: of the agent's words only those that were heard."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ..base import Language
from .parts import Message

FORMAT = 1
CUT = {
    Language.EN: "(The user cut you off there and heard no more of it.)",
    Language.ZH: "（用户在这里打断了你，后面的话没有听到。）",
}
"""Follows a message that the user cut off, as a message of its own: a mark inside it the model would imitate."""
_EARLIER = {Language.EN: "Earlier in this call: ", Language.ZH: "刚才聊过："}
_LONGEST_SUMMARY = 600
_GIST = {Language.EN: 60, Language.ZH: 24}
"""Characters of each side that an extract of a turn keeps."""

Summarise = Callable[[str, Sequence[Message]], str]
"""Gets the summary so far and the turns to add; gives the new summary.  May use the model; runs in idle time."""


def count_tokens(text: str) -> int:
    """A rough, rather too high estimate of the model's tokens; the limits leave room for its error."""
    wide = sum(1 for letter in text if ord(letter) >= 0x2E80)
    return wide * 3 // 4 + (len(text) - wide + 2) // 3 + 5


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond ``tokens`` or ``turns`` the oldest turns are summarised until at most the ``keep_`` figures are left.

    The gap between the two is meant: each cut costs the model's cached prefix, so cuts are few and deep.
    """

    tokens: int = 900
    turns: int = 16
    keep_tokens: int = 450
    keep_turns: int = 6


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange.  ``user`` is what the model was given; ``said`` what it wrote; ``heard`` what was heard of that.

    ``heard`` ``None`` means all of it.  ``open`` while the agent has not finished: an open turn is never summarised.
    """

    user: str
    language: Language
    said: str = ""
    heard: str | None = None
    open: bool = False

    @property
    def cut(self) -> bool:
        return self.heard is not None and self.heard.strip() != self.said.strip()

    def messages(self) -> list[Message]:
        """The turn for the model; an answer of which nothing was heard is left out."""
        messages = [Message("user", self.user)] if self.user else []
        heard = self.said if self.heard is None else self.heard.rstrip()
        if heard:
            messages.append(Message("assistant", heard))
            if self.cut:
                messages.append(Message("system", CUT[self.language]))
        return messages


class History:
    """The turns of one session.  Pure: no clock, no threads, no model but the callable given to :meth:`compact`."""

    def __init__(self, limits: Limits | None = None, tokens: Callable[[str], int] = count_tokens) -> None:
        self.limits = limits or Limits()
        self._tokens = tokens
        self._turns: list[Turn] = []
        self._summary = ""
        self._summary_language = Language.EN

    # -- what happens -----------------------------------------------------------------------------------------------

    def user(self, text: str, language: Language) -> None:
        """The user's turn begins; ``text`` exactly as the model was given it."""
        self._close_last()
        self._turns.append(Turn(text, language, open=True))

    def agent(self, text: str, language: Language) -> None:
        """What the agent has written so far in answer to the open turn, or by itself."""
        if not self._turns or not self._turns[-1].open:
            self._turns.append(Turn("", language, open=True))
        self._turns[-1] = replace(self._turns[-1], said=text)

    def heard(self, text: str) -> None:
        """The listener has heard this much of the last answer (a beginning of it)."""
        if self._turns and self._turns[-1].said:
            self._turns[-1] = replace(self._turns[-1], heard=text)

    def finished(self) -> None:
        """The agent's utterance is over: whatever was not heard of it by now was never heard."""
        self._close_last()

    def take_back(self) -> str:
        """The last turn did not count (its answer was hardly heard): forget it and give the user's words."""
        return self._turns.pop().user if self._turns else ""

    def _close_last(self) -> None:
        if self._turns and self._turns[-1].open:
            self._turns[-1] = replace(self._turns[-1], open=False)

    # -- what the model gets ----------------------------------------------------------------------------------------

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self._turns)

    @property
    def language(self) -> Language | None:
        """The language of the last turn."""
        return self._turns[-1].language if self._turns else None

    def messages(self) -> list[Message]:
        """The conversation, roles alternating, beginning with the user."""
        messages: list[Message] = []
        for message in (message for turn in self._turns for message in turn.messages()):
            if messages and messages[-1].role == message.role:
                joined = Message(message.role, f"{messages[-1].content}\n{message.content}")
                messages[-1] = joined
            else:
                messages.append(message)
        return messages

    def summary(self) -> str:
        """The older turns in a sentence or two for the system message, or an empty text."""
        return _EARLIER[self._summary_language] + self._summary if self._summary else ""

    def size(self) -> int:
        """Estimated tokens of turns and summary."""
        return sum(self._tokens(message.content) for message in self.messages()) + self._tokens(self._summary)

    # -- limits -----------------------------------------------------------------------------------------------------

    def needs_compaction(self) -> bool:
        """Whether :meth:`compact` would do something."""
        return len(self._turns) > self.limits.turns or self.size() > self.limits.tokens

    def compact(self, summarise: Summarise | None = None) -> bool:
        """Move the oldest whole turns into the summary when a limit is passed; true when something moved.

        Without ``summarise`` the summary is an extract: the beginning of what each side said.  The newest turn stays
        whole.
        """
        if not self.needs_compaction():
            return False
        moved: list[Turn] = []
        while len(self._turns) > 1 and not self._turns[0].open and self._too_much_to_keep():
            moved.append(self._turns.pop(0))
        while moved and self._turns and not self._turns[0].user:  # what is left must begin with the user
            if self._turns[0].open or len(self._turns) == 1:
                break
            moved.append(self._turns.pop(0))
        if not moved:
            return False
        self._summary_language = moved[-1].language
        if summarise is None:
            new = " ".join(filter(None, [self._summary, *(_gist(turn) for turn in moved)]))
        else:
            new = summarise(self._summary, [message for turn in moved for message in turn.messages()])
        self._summary = _newest(" ".join(new.split()))
        return True

    def _too_much_to_keep(self) -> bool:
        return len(self._turns) > self.limits.keep_turns or self.size() > self.limits.keep_tokens

    # -- keeping ----------------------------------------------------------------------------------------------------

    def dump(self) -> str:
        """Everything as JSON."""
        turns = [
            {"user": t.user, "language": t.language.value, "said": t.said, "heard": t.heard, "open": t.open}
            for t in self._turns
        ]
        return json.dumps(
            {"format": FORMAT, "turns": turns, "summary": self._summary, "language": self._summary_language.value},
            ensure_ascii=False,
        )

    def load(self, dumped: str) -> None:
        """Go on from :meth:`dump`.  Raises ``ValueError`` and changes nothing when it is not one."""
        try:
            data = cast(object, json.loads(dumped))
        except json.JSONDecodeError as error:
            raise ValueError(f"not a history: {error}") from error
        summary, language, turns = _parse(data)
        self._turns, self._summary, self._summary_language = turns, summary, language


def _gist(turn: Turn) -> str:
    width = _GIST[turn.language]
    heard = turn.said if turn.heard is None else turn.heard
    sides = [side[:width].rstrip() + ("…" if len(side) > width else "") for side in (turn.user, heard) if side]
    return " → ".join(" ".join(side.split()) for side in sides) + ";"


def _newest(summary: str) -> str:
    if len(summary) <= _LONGEST_SUMMARY:
        return summary
    rest = summary[-_LONGEST_SUMMARY:]
    return "…" + rest[rest.find(";") + 1 :].lstrip() if ";" in rest[:-1] else "…" + rest


def _parse(data: object) -> tuple[str, Language, list[Turn]]:
    fields = _fields(data)
    if fields.get("format") != FORMAT:
        raise ValueError(f"a history of format {fields.get('format')!r}; this version reads format {FORMAT}")
    listed = fields.get("turns")
    if not isinstance(listed, list):
        raise ValueError("not a history: no list of turns")  # noqa: TRY004
    return _text(fields, "summary"), _language(fields), [_turn(entry) for entry in cast(list[object], listed)]


def _turn(data: object) -> Turn:
    fields = _fields(data)
    heard = _text(fields, "heard") if fields.get("heard") is not None else None
    is_open = fields.get("open")
    if not isinstance(is_open, bool):
        raise ValueError("not a history: 'open' is no truth value")  # noqa: TRY004
    return Turn(_text(fields, "user"), _language(fields), _text(fields, "said"), heard, is_open)


def _fields(data: object) -> dict[str, object]:
    if not isinstance(data, dict):
        raise ValueError("not a history: an object was expected")  # noqa: TRY004 - the contract of restore is ValueError
    return cast(dict[str, object], data)


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"not a history: {name!r} is no text")  # noqa: TRY004
    return value


def _language(fields: dict[str, object]) -> Language:
    return Language(_text(fields, "language"))
