"""The prompt: what comes in it, and that its beginning stays the same."""

from __future__ import annotations

import itertools
import re
from datetime import datetime, timedelta

import pytest
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.chatml import chatml
from realtime_venus.engines.cascade.honest import all_lines, cannot_look_up
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.engines.cascade.prompt import (
    Brief,
    final_message,
    opening,
    partial_message,
    prompt,
    typed_message,
    user_text,
)

EN, ZH = Language.EN, Language.ZH
AT = datetime.fromisoformat("2026-11-30T15:41:00+01:00")


@pytest.mark.parametrize(
    ("partial", "final"),
    [
        ("what is the", "What is the, um, tallest mountain?"),
        ("So I was at the station,", "so I was at the station. This morning"),
        ("I have 3.5 litres", "I have 3.5 litres, and you?"),
        ("我想买一个蓝色的，", "我想买一个蓝色的 嗯 防水的双肩包。"),
        ("你觉得", "你觉得， 送什么礼物好？"),
    ],
)
def test_a_final_text_begins_like_its_partial(partial: str, final: str) -> None:
    assert user_text(final, final=True).startswith(user_text(partial))


def test_user_text_keeps_what_carries_meaning() -> None:
    assert user_text("it's 3.5%, or $4 at 12:30!") == "It's 3.5% or $4 at 12:30"
    assert user_text("what is 7+5?", final=True) == "What is 7+5?"
    assert user_text("现在几点？", final=True) == "现在几点？"
    assert user_text("  ") == ""


@pytest.mark.parametrize("language", [EN, ZH])
def test_an_open_prompt_is_the_beginning_of_the_final_one(language: Language) -> None:
    before = opening(Brief(), language, AT)
    partial, final = ("how do", "How do magnets work?") if language is EN else ("磁铁为什么", "磁铁为什么有磁性？")
    opened = chatml(prompt(before, [], partial_message(partial)), last_open=True)
    later = AT + timedelta(minutes=7)
    closed = chatml(prompt(opening(Brief(), language, later), [], final_message(final, language, later)))
    assert closed.startswith(opened)


def test_the_time_stands_last_and_only_where_it_is_asked_for() -> None:
    assert final_message("How long until midnight?", EN, AT).content == "How long until midnight?\n(It is 3:41 PM.)"
    assert "3:41" not in final_message("Who wrote Hamlet?", EN, AT).content
    assert typed_message("几点了，该睡了吗？", ZH, AT).content.endswith("(现在是下午3点41分。)")
    assert not any("3:41" in message.content for message in opening(Brief(), EN, AT))


def test_persona_instructions_facts_and_date_are_in_the_system_message() -> None:
    brief = Brief(persona="You are a pirate.", system_prompt="Talk about ships.", facts=("The tide is low",))
    system, *examples = opening(brief, EN, AT, "Earlier in this call: ships;")
    assert system.role == "system"
    for part in ("You are a pirate.", "Talk about ships.", "The tide is low. ", "30 November 2026", "Earlier"):
        assert part in system.content
    assert [message.role for message in examples] == ["user", "assistant"] * 2


def test_example_answers_begin_with_a_short_clause() -> None:
    for language, longest in ((EN, 30), (ZH, 8)):
        for message in opening(Brief(), language, AT):
            if message.role == "assistant":
                first = re.split("[,.，。]", message.content)[0]
                assert len(first) <= longest


def test_an_instruction_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="persona has 2001 characters"):
        Brief(persona="x" * 2001)


def test_an_unanswered_turn_is_joined_with_the_next() -> None:
    turns = [Message("user", "Tell me a story"), Message("assistant", "Once —"), Message("user", "Wait")]
    joined = prompt([], turns, Message("user", "a joke"))
    assert [m.role for m in joined] == ["user", "assistant", "user"]
    assert joined[-1].content == "Wait\na joke"


def test_honest_lines_differ_from_their_neighbours() -> None:
    for language in Language:
        lines = [cannot_look_up(language, turn) for turn in range(6)]
        assert all(a != b for a, b in itertools.pairwise(lines))
        assert set(lines) == set(all_lines(language))
