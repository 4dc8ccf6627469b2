"""What the language model is given: rules, example turns, facts, the conversation, the user's words.

The order serves the model's prefix cache: what never changes comes first, what changes once a day or by configuration
next, then the conversation, and the time of day last, behind the user's words and only where it is asked for.  A
partial and the final transcript go through the same :func:`user_text`, so that commas and capitals that the recogniser
changes its mind about do not break the shared prefix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..base import Language
from .facts import concerns_time, date_line, time_line
from .parts import Message

LONGEST_INSTRUCTION = 2000
"""Characters of a persona or a system prompt."""

_RULES = {
    Language.EN: (
        "You are Venus, a friendly voice assistant on a live call. Say the answer itself first, in one or two short "
        "spoken sentences. No lists, no repeating the question."
    ),
    Language.ZH: (
        "你是Venus，一个友好的语音助手，正在通话。先说答案本身，用一两句简短的口语，用中文回答，不要列表，不要重复问题。"
    ),
}
_EXAMPLES = {
    Language.EN: (
        ("How do plants drink water", "Through their roots, mostly. The water then rises up the stem to the leaves."),
        ("I am tired today", "Sorry to hear that. A short walk or an early night might help."),
    ),
    Language.ZH: (
        ("植物怎么喝水", "主要靠根，水再沿着茎送到叶子里。"),
        ("我今天有点累", "辛苦了，早点休息，喝杯热水会舒服些。"),
    ),
}
_FACTS = {
    Language.EN: "You know only these changing facts: ",
    Language.ZH: "会变的事情你只知道这些：",
}

_INNER_MARK = re.compile(r"(?!(?<=\d)[.,:](?=\d))[^\w\s'’$€£¥%°+*/=-]|(?<!\w)[-+*/=]+(?!\w)")
_HAN = re.compile(r"[\u3400-\u9fff]")
_BETWEEN_HAN = re.compile(r"(?<=[\u3400-\u9fff])\s+(?=[\u3400-\u9fff])")
_QUESTION = ("?", "？")


@dataclass(frozen=True, slots=True)
class Brief:
    """What a session was opened or configured with, as far as the model should know."""

    persona: str | None = None
    system_prompt: str | None = None
    facts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, text in (("persona", self.persona), ("system_prompt", self.system_prompt)):
            if text is not None and len(text) > LONGEST_INSTRUCTION:
                raise ValueError(f"{name} has {len(text)} characters: at most {LONGEST_INSTRUCTION} are taken")


def user_text(text: str, *, final: bool = False) -> str:
    """The user's words as the model gets them: first letter large, no inner punctuation, no doubled spaces.

    For two transcripts of which one continues the other the results do so too; ``final`` adds the question mark.
    """
    words = " ".join(_INNER_MARK.sub(" ", text).split())
    if _HAN.search(words):
        words = _BETWEEN_HAN.sub("", words)
    words = words[:1].upper() + words[1:]
    if final and words and text.rstrip().endswith(_QUESTION):
        words += "？" if _HAN.search(words) else "?"
    return words


def opening(brief: Brief, language: Language, now: datetime, summary: str = "") -> list[Message]:
    """The messages before the conversation: one system message and two example turns.

    Changes only with the brief, the language, the day and the summary of older turns.
    """
    lines = [_RULES[language]]
    lines += [text.strip() for text in (brief.persona, brief.system_prompt) if text and text.strip()]
    lines.append(_FACTS[language] + " ".join(_sentence(fact) for fact in (*brief.facts, date_line(now, language))))
    if summary:
        lines.append(summary)
    messages = [Message("system", "\n".join(lines))]
    for asked, answered in _EXAMPLES[language]:
        messages += [Message("user", asked), Message("assistant", answered)]
    return messages


def _sentence(fact: str) -> str:
    if fact[-1:] in ".!?。！？":
        return fact
    return fact + ("。" if _HAN.search(fact) else ".")


def partial_message(text: str) -> Message:
    """The last message of a prompt to prefill: the words so far."""
    return Message("user", user_text(text))


def final_message(text: str, language: Language, now: datetime) -> Message:
    """The user's turn; a question about the time is followed by the time."""
    words = user_text(text, final=True)
    if concerns_time(text, language):
        words += f"\n({time_line(now, language)})"
    return Message("user", words)


def typed_message(text: str, language: Language, now: datetime) -> Message:
    """As :func:`final_message`, for typed text, whose punctuation is the user's own."""
    words = " ".join(text.split())
    if concerns_time(text, language):
        words += f"\n({time_line(now, language)})"
    return Message("user", words)


def prompt(before: Sequence[Message], turns: Sequence[Message], last: Message) -> list[Message]:
    """One prompt from :func:`opening`, the conversation and the user's turn.

    A user turn that got no audible answer is joined with the one after it, since the roles must alternate.
    """
    messages = [*before, *turns]
    if turns and turns[-1].role == "user" and last.role == "user":
        joined = f"{messages.pop().content}\n{last.content}"
        return [*messages, Message("user", joined)]
    return [*messages, last]
