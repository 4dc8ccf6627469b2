from __future__ import annotations

from livekit.agents import llm
from realtime_venus.plugin.livekit.context import opening, typed_texts


def conversation() -> llm.ChatContext:
    context = llm.ChatContext.empty()
    context.add_message(role="system", content="The shop closes at six.")
    context.add_message(role="user", content="Hello")
    context.add_message(role="assistant", content="Hi, how can I help?")
    context.items.append(llm.FunctionCall(call_id="1", name="look", arguments="{}"))
    return context


def test_an_earlier_conversation_is_told_line_by_line() -> None:
    told = opening(conversation().items)
    assert told == "The shop closes at six.\nUser: Hello\nYou: Hi, how can I help?"
    assert opening([]) == ""


def test_a_long_conversation_loses_its_beginning() -> None:
    assert opening(conversation().items, limit=40) == "User: Hello\nYou: Hi, how can I help?"


def test_only_the_users_messages_are_typed() -> None:
    assert typed_texts(conversation().items) == (["Hello"], 2)


def test_a_message_without_text_is_none() -> None:
    context = llm.ChatContext.empty()
    context.add_message(role="user", content=[])
    assert typed_texts(context.items) == ([], 0)
