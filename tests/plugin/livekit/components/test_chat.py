from __future__ import annotations

from itertools import pairwise

import pytest
from livekit.agents import llm
from realtime_venus.engines.base import EngineError, Language
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.plugin.livekit.components.chat import Line, fitted, has_pictures, last_language, lines_of


def words(text: str) -> int:
    return len(text.split())


def line(role: str, text: str) -> Line:
    return Line(Message(role, text), pinned=role == "system")


def talk(turns: int, length: int = 10) -> list[Line]:
    lines = [line("system", "be kind " * 5)]
    for turn in range(turns):
        lines.append(line("user", f"question{turn} " * length))
        lines.append(line("assistant", f"answer{turn} " * length))
    return lines


def test_roles_become_those_of_the_model() -> None:
    context = llm.ChatContext.empty()
    context.add_message(role="system", content="Be kind.")
    context.add_message(role="user", content="Hello.")
    context.add_message(role="assistant", content="Hi.")
    context.add_message(role="developer", content="Be brief.")
    assert [(one.message.role, one.message.content, one.pinned) for one in lines_of(context)] == [
        ("system", "Be kind.", True),
        ("user", "Hello.", False),
        ("assistant", "Hi.", False),
        ("system", "Be brief.", True),
    ]


def test_neighbours_of_one_side_are_joined_and_empty_messages_are_left_out() -> None:
    context = llm.ChatContext.empty()
    context.add_message(role="system", content="Be kind.")
    context.add_message(role="developer", content="Be brief.")
    context.add_message(role="user", content=["What is", "this?"])
    context.add_message(role="assistant", content="  ")
    context.add_message(role="user", content="Hello?")
    assert [one.message for one in lines_of(context)] == [
        Message("system", "Be kind.\nBe brief."),
        Message("user", "What is\nthis?\nHello?"),
    ]


def test_what_a_tool_gave_can_be_read_and_the_call_leaves_no_trace() -> None:
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="Weather?")
    context.items.append(llm.FunctionCall(call_id="1", name="weather", arguments="{}"))
    context.items.append(llm.FunctionCallOutput(call_id="1", name="weather", output="sunny", is_error=False))
    assert [one.message for one in lines_of(context)] == [Message("user", "Weather?\n(weather: sunny)")]


def test_pictures_are_noticed() -> None:
    context = llm.ChatContext.empty()
    context.add_message(role="user", content=["Look"])
    assert not has_pictures(context)
    context.add_message(role="user", content=["Look", llm.ImageContent(image="https://example.com/a.jpg")])
    assert has_pictures(context)
    assert lines_of(context)[-1].message.content == "Look\nLook"


def test_the_language_is_that_of_the_newest_words() -> None:
    assert last_language([line("user", "Hello"), line("user", "你好，你是谁？"), line("user", "123")]) is Language.ZH
    assert last_language([line("system", "你是助手"), line("user", "Hello there")]) is Language.EN
    assert last_language([]) is Language.EN


def test_what_fits_stays_as_it_is() -> None:
    lines = talk(3)
    assert fitted(lines, 100, words) == [one.message for one in lines]


def test_the_oldest_go_and_the_instructions_stay() -> None:
    messages = fitted(talk(40), 200, words)
    assert messages[0].role == "system"
    assert messages[-1].content.startswith("answer39 ")
    assert sum(words(message.content) for message in messages) <= 200
    assert "question0 " not in "".join(message.content for message in messages)


def test_a_growing_talk_is_cut_at_the_same_place_for_many_turns() -> None:
    firsts = [fitted(talk(turns), 200, words)[1].content for turns in range(1, 60)]
    changes = sum(one != other for one, other in pairwise(firsts))
    assert changes < 15


def test_instructions_anywhere_are_kept() -> None:
    lines = [*talk(40), line("system", "now say goodbye")]
    assert fitted(lines, 200, words)[-1] == Message("system", "now say goodbye")


def test_a_last_message_that_is_too_long_loses_its_beginning() -> None:
    lines = [line("system", "be kind"), line("user", " ".join(f"w{number}" for number in range(500)))]
    system, last = fitted(lines, 100, words)
    assert system.content == "be kind"
    assert last.content.endswith("w498 w499")
    assert 90 <= words(last.content) <= 98


def test_instructions_that_leave_no_room_are_refused_with_what_to_do() -> None:
    with pytest.raises(EngineError, match="VENUS_CASCADE__CONTEXT_TOKENS"):
        fitted([line("system", "word " * 90), line("user", "Hello")], 100, words)
