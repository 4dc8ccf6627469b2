"""What may be stated as fact beyond settled knowledge: the local date and time, and statements set from outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from ..base import Language

Clock = Callable[[], datetime]
"""Gives the local date and time, with the time zone of the machine."""

LONGEST_FACT = 400
"""Characters kept of one fact."""
MOST_FACTS = 40

_DAYS_EN = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS_EN = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_DAYS_ZH = "一二三四五六日"

_TIME_EN = re.compile(
    r"\b(what(?:'s| is)? (?:the )?(?:current )?time\b|time is it|time now|current time|right now|clock"
    r"|(?:how (?:long|many hours|many minutes|much time)).*\b(?:until|till|left|before)\b"
    r"|what hour|this late|so late|good (?:morning|afternoon|evening)|midnight|noon)",
    re.IGNORECASE,
)
_TIME_ZH = re.compile(
    r"几点|现在.{0,4}(?:时间|时候)|(?:时间|时候).{0,2}(?:现在|了)|多少点|什么时间了|离.{1,8}还有多久|还有多(?:久|长时间)|半夜|中午了|早上好|晚上好|下午好"
)
_CLOCK_ONLY_EN = re.compile(
    r"(?:(?:hey|hi|hello|so|and|ok|okay|please|excuse me|can you tell me|could you tell me|tell me|do you know"
    r"|do you have|by the way)\s+)*"
    r"(?:(?P<time>what(?:'s| is) the time|what time is it|what time it is|the time|what time do you have|what time)"
    r"|(?P<date>what(?:'s| is) (?:the date|today's date|the day)(?: today)?|what date is it|what day is it"
    r"|what day it is"
    r"|what day is today|which day is it|today's date|what(?:'s| is) today|what day of the week is it))"
    r"(?:\s+(?:now|right now|today|please|here|currently|at the moment|venus))*",
    re.IGNORECASE,
)
_CLOCK_ONLY_ZH = re.compile(
    r"(?:请问|那|那么|你好|嗨|喂|告诉我|请告诉我|你知道|能告诉我|麻烦问一下|可以告诉我)*"
    r"(?:(?P<time>现在(?:是)?几点(?:钟)?|(?:现在)?几点(?:钟)?|现在(?:是)?什么时间|现在的时间(?:是多少)?)"
    r"|(?P<date>今天(?:是)?(?:几月)?几号|今天(?:是)?(?:星期|周|礼拜)几|今天(?:是)?什么日子|今天(?:的)?日期(?:是多少)?"
    r"|今天(?:是)?几月几[号日](?:星期几)?|今天几号星期几))"
    r"(?:了|呢|啊|呀|吗|钟)*",
)
_NOT_WORDS = re.compile(r"[^\w\s']")


def local_clock() -> datetime:
    """Now, in the machine's time zone."""
    return datetime.now().astimezone()


def clean_facts(facts: tuple[str, ...]) -> tuple[str, ...]:
    """The facts on one line each, without empty and repeated ones, at most :data:`MOST_FACTS` of them.

    Raises ``ValueError`` for a fact longer than :data:`LONGEST_FACT` characters or too many of them, rather than state
    half of what it was told.
    """
    lines = tuple(dict.fromkeys(line for fact in facts if (line := " ".join(fact.split()))))
    if len(lines) > MOST_FACTS:
        raise ValueError(f"at most {MOST_FACTS} facts, not {len(lines)}")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_FACT:
            raise ValueError(f"a fact has at most {LONGEST_FACT} characters; fact {number} has {len(line)}")
    return lines


def date_line(now: datetime, language: Language) -> str:
    """The date as a statement: "Today is Monday, 30 November 2026."."""
    if language is Language.ZH:
        return f"今天是{now.year}年{now.month}月{now.day}日，星期{_DAYS_ZH[now.weekday()]}。"
    return f"Today is {_DAYS_EN[now.weekday()]}, {now.day} {_MONTHS_EN[now.month - 1]} {now.year}."


def time_line(now: datetime, language: Language) -> str:
    """The time as a statement: "It is 3:41 PM.".  Minutes are exact."""
    if language is Language.ZH:
        part = _part_of_day_zh(now.hour)
        hour = now.hour if now.hour <= 12 else now.hour - 12
        minute = "整" if now.minute == 0 else f"{now.minute}分"
        return f"现在是{part}{hour}点{minute}。"
    hour = now.hour % 12 or 12
    return f"It is {hour}:{now.minute:02d} {'AM' if now.hour < 12 else 'PM'}."


def _part_of_day_zh(hour: int) -> str:
    for until, part in ((5, "凌晨"), (8, "早上"), (12, "上午"), (13, "中午"), (18, "下午")):
        if hour < until:
            return part
    return "晚上"


def concerns_time(text: str, language: Language) -> bool:
    """Whether an answer to ``text`` may need the time of day."""
    return bool((_TIME_ZH if language is Language.ZH else _TIME_EN).search(text))


def clock_answer(text: str, language: Language, now: datetime) -> str | None:
    """The answer when ``text`` asks for nothing but the local time or date, else ``None``.

    A clock needs no language model: this answer is immediate and cannot be wrong.
    """
    if language is Language.ZH:
        asked = _CLOCK_ONLY_ZH.fullmatch(_NOT_WORDS.sub("", text).replace(" ", ""))
    else:
        asked = _CLOCK_ONLY_EN.fullmatch(" ".join(_NOT_WORDS.sub(" ", text.replace("’", "'")).split()))
    if asked is None:
        return None
    return time_line(now, language) if asked.group("time") else date_line(now, language)
