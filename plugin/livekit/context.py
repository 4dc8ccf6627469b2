"""What LiveKit's chat items mean to an engine."""

from __future__ import annotations

from collections.abc import Sequence

from livekit.agents import llm

LONGEST_OPENING = 1500
"""Characters of an earlier conversation that a new session is told of; the oldest are left out."""

_SPEAKERS = {"user": "User", "assistant": "You"}


def opening(items: Sequence[llm.ChatItem], limit: int = LONGEST_OPENING) -> str:
    """What was said before the session began, as an instruction; empty when there was nothing.

    Messages of the system and of developers are instructions themselves.
    """
    lines: list[str] = []
    for item in items:
        text = _text(item)
        if isinstance(item, llm.ChatMessage) and text:
            speaker = _SPEAKERS.get(item.role)
            lines.append(f"{speaker}: {text}" if speaker else text)
    kept: list[str] = []
    for line in reversed(lines):
        limit -= len(line) + 1
        if limit < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def typed_texts(items: Sequence[llm.ChatItem]) -> tuple[list[str], int]:
    """The user's messages among ``items``, and how many of the others are new to the engine.

    What the assistant said is not: the engine said it.
    """
    texts: list[str] = []
    others = 0
    for item in items:
        text = _text(item)
        if isinstance(item, llm.ChatMessage) and item.role == "assistant":
            continue
        if isinstance(item, llm.ChatMessage) and item.role == "user":
            if text:
                texts.append(text)
        else:
            others += 1
    return texts, others


def _text(item: llm.ChatItem) -> str:
    return (item.text_content or "").strip() if isinstance(item, llm.ChatMessage) else ""
