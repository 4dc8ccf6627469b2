"""Date, time and given facts."""

from __future__ import annotations

from datetime import datetime

import pytest
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.facts import (
    LONGEST_FACT,
    MOST_FACTS,
    clean_facts,
    clock_answer,
    concerns_time,
    date_line,
    local_clock,
    time_line,
)

EN, ZH = Language.EN, Language.ZH
AT = datetime.fromisoformat("2026-11-30T15:41:00+01:00")


def test_the_local_clock_knows_its_zone() -> None:
    assert local_clock().tzinfo is not None


def test_date_lines() -> None:
    assert date_line(AT, EN) == "Today is Monday, 30 November 2026."
    assert date_line(AT, ZH) == "今天是2026年11月30日，星期一。"


@pytest.mark.parametrize(
    ("hour", "minute", "english", "chinese"),
    [
        (0, 5, "It is 12:05 AM.", "现在是凌晨0点5分。"),
        (7, 0, "It is 7:00 AM.", "现在是早上7点整。"),
        (12, 30, "It is 12:30 PM.", "现在是中午12点30分。"),
        (15, 41, "It is 3:41 PM.", "现在是下午3点41分。"),
        (23, 59, "It is 11:59 PM.", "现在是晚上11点59分。"),
    ],
)
def test_time_lines(hour: int, minute: int, english: str, chinese: str) -> None:
    now = AT.replace(hour=hour, minute=minute)
    assert time_line(now, EN) == english
    assert time_line(now, ZH) == chinese


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What time is it?", EN),
        ("Hey, can you tell me what time it is right now?", EN),
        ("what's the time please", EN),
        ("现在几点了？", ZH),
        ("请问，现在是几点钟？", ZH),
    ],
)
def test_the_time_alone_is_answered_by_the_clock(text: str, language: Language) -> None:
    assert clock_answer(text, language, AT) == time_line(AT, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [("What day is it today?", EN), ("what's today’s date", EN), ("今天星期几？", ZH), ("今天是几月几号", ZH)],
)
def test_the_date_alone_is_answered_by_the_clock(text: str, language: Language) -> None:
    assert clock_answer(text, language, AT) == date_line(AT, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What time is it in Tokyo?", EN),
        ("What time is the next train?", EN),
        ("What day is Christmas?", EN),
        ("", EN),
        ("东京现在几点", ZH),
        ("火车几点开", ZH),
        ("明天星期几", ZH),
    ],
)
def test_anything_more_is_not(text: str, language: Language) -> None:
    assert clock_answer(text, language, AT) is None


def test_questions_that_need_the_time_of_day() -> None:
    assert concerns_time("How many hours until midnight?", EN)
    assert concerns_time("离下班还有多久", ZH)
    assert not concerns_time("Who painted the Mona Lisa?", EN)
    assert not concerns_time("世界上最高的山是哪一座", ZH)


def test_facts_are_cleaned_and_kept_in_order() -> None:
    assert clean_facts(("  The shop\nopens at nine ", "", "b", "b")) == ("The shop opens at nine", "b")


def test_a_fact_too_long_or_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 400 characters"):
        clean_facts(("x" * (LONGEST_FACT + 1),))
    with pytest.raises(ValueError, match="at most 40 facts"):
        clean_facts(tuple(str(n) for n in range(MOST_FACTS + 1)))
