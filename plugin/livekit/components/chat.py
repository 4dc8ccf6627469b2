"""From a LiveKit chat context to what the model is given: roles, tool results, and what fits.  Pure functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ....engines.base import EngineError, Language, MissingExtra
from ....engines.cascade.history import count_tokens
from ....engines.cascade.parts import Message
from ....engines.cascade.script import language_of

try:
    from livekit.agents import llm
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

_LEAST_TOKENS: Final = 48
"""Of the last message at least so much must fit beside the instructions."""


@dataclass(frozen=True, slots=True)
class Line:
    """A message; ``pinned`` ones are never left out."""

    message: Message
    pinned: bool = False


def lines_of(context: llm.ChatContext) -> list[Line]:
    """The context's messages in order.

    ``developer`` is ``system`` to this model; both are kept whatever happens.  What a tool gave earlier (called by
    another model) becomes a message that can be read; calls, hand-offs and pictures leave no trace.  Neighbours of the
    same side are joined, since the model was trained on sides that alternate.
    """
    lines: list[Line] = []
    for item in context.items:
        line = _line(item)
        if line is None:
            continue
        if lines and lines[-1].message.role == line.message.role:
            joined = f"{lines.pop().message.content}\n{line.message.content}"
            line = replace(line, message=Message(line.message.role, joined))
        lines.append(line)
    return lines


def has_pictures(context: llm.ChatContext) -> bool:
    """Whether there is something in it that this model cannot see."""
    return any(isinstance(part, llm.ImageContent) for message in context.messages() for part in message.content)


def last_language(lines: Sequence[Line]) -> Language:
    """The language of the newest words that have one; English without any."""
    found = (language_of(line.message.content) for line in reversed(lines) if not line.pinned)
    return next((language for language in found if language is not None), Language.EN)


def fitted(lines: Sequence[Line], room: int, tokens: Callable[[str], int] = count_tokens) -> list[Message]:
    """The messages that fit into ``room`` tokens: all that is pinned, the last, and of the others the newest.

    When they do not fit, the oldest go until only half the room is taken: each cut costs the model's cached prefix, so
    cuts are few and deep, and a context that grows is cut at the same place until the next one is due.
    A last message that is too long by itself loses its beginning.  Raises :class:`~....engines.base.EngineError` when
    the pinned ones leave no room.
    """
    left = room - sum(tokens(line.message.content) for line in lines if line.pinned)
    if left < _LEAST_TOKENS:
        raise EngineError(
            f"the instructions take all but {max(0, left)} of the {room} tokens that the language model reads: "
            "shorten them, or set VENUS_CASCADE__CONTEXT_TOKENS higher"
        )
    kept: deque[tuple[int, int]] = deque()
    total = 0
    for index, line in enumerate(lines):
        if line.pinned:
            continue
        kept.append((index, tokens(line.message.content)))
        total += kept[-1][1]
        if total > left:
            while len(kept) > 1 and total > left // 2:
                total -= kept.popleft()[1]
    shown = {index for index, _ in kept}
    messages = [line.message for index, line in enumerate(lines) if line.pinned or index in shown]
    if total > left and kept:
        place = [index for index, line in enumerate(lines) if line.pinned or index in shown].index(kept[-1][0])
        messages[place] = _newest(messages[place], left, tokens)
    return messages


def _newest(message: Message, room: int, tokens: Callable[[str], int]) -> Message:
    """The longest end of the message that fits."""
    text = message.content
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if tokens(text[middle:]) > room:
            low = middle + 1
        else:
            high = middle
    return Message(message.role, text[low:])


def _line(item: llm.ChatItem) -> Line | None:
    match item:
        case llm.ChatMessage():
            text = _text(item)
            if not text.strip():
                return None
            pinned = item.role in ("system", "developer")
            return Line(Message("system" if pinned else item.role, text), pinned)
        case llm.FunctionCallOutput():
            return Line(Message("user", f"({item.name or 'tool'}: {item.output})"))
        case _:
            return None


def _text(message: llm.ChatMessage) -> str:
    parts: list[str] = []
    for part in message.content:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, llm.AudioContent) and part.transcript:
            parts.append(part.transcript)
    return "\n".join(parts)
