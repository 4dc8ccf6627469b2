"""What is said when a question needs the world: honest, short, in the user's language, not always the same."""

from __future__ import annotations

from ..base import Language

_LINES: dict[Language, tuple[str, ...]] = {
    Language.EN: (
        "I can't look that up here. I can explain how it works in general, if you like.",
        "Sorry, that's not something I can check from here. Anything else I can help with?",
        "I don't have live information here. I'd rather not guess, but ask me something general.",
        "I can't check that, I'm offline here. Shall we talk it through without the exact details?",
        "That I can't see from here. A quick search on your phone would tell you for sure.",
    ),
    Language.ZH: (
        "这个我查不到，我这里没有联网。要不我说说一般的情况？",
        "抱歉，这个我没法查。还有别的想聊的吗？",
        "我看不到实时信息，不想乱猜。你可以问我一些常识。",
        "这个查不了，我现在是离线的。我们可以聊聊大概的思路。",
        "这个我不清楚，你用手机搜一下会更准。",
    ),
}


def cannot_look_up(language: Language, turn: int) -> str:
    """The line for the ``turn``-th such question of a session (0 for the first): neighbours differ."""
    lines = _LINES[language]
    return lines[turn % len(lines)]


def all_lines(language: Language) -> tuple[str, ...]:
    """Every line, for voicing them beforehand."""
    return _LINES[language]
