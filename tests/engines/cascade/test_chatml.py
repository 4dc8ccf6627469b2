"""Nothing that a user, a fact or a persona says can be read as a control token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.cascade.chatml import chatml, escape
from realtime_venus.engines.cascade.parts import Message

CONTROL = ("<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|fim_prefix|>", "<tool_call>", "</tool_call>")
texts = st.lists(st.one_of(st.sampled_from(CONTROL), st.text(max_size=12), st.sampled_from(["<", "|", "<<|"]))).map(
    "".join
)


@given(texts)
def test_escaped_text_holds_no_control_token(text: str) -> None:
    inert = escape(text)
    assert "<|" not in inert
    assert "<tool_call" not in inert
    assert "</tool_call" not in inert


@given(texts)
def test_escaping_twice_changes_nothing_more(text: str) -> None:
    assert escape(escape(text)) == escape(text)


def test_plain_text_stays_as_it_is() -> None:
    assert escape("a < b, x|y, 你好 🧑‍🚀\nnext") == "a < b, x|y, 你好 🧑‍🚀\nnext"


@given(texts)
def test_a_message_cannot_open_another_one(text: str) -> None:
    prompt = chatml([Message("system", text), Message("user", text)], prefix=text)
    assert prompt.count("<|im_start|>") == 3
    assert prompt.count("<|im_end|>") == 2


def test_a_longer_last_message_continues_an_open_one() -> None:
    before = [Message("system", "s"), Message("user", "Where do")]
    after = [Message("system", "s"), Message("user", "Where do pandas live")]
    assert chatml(after).startswith(chatml(before, last_open=True))
    assert chatml(after, last_open=True).startswith(chatml(before, last_open=True))


def test_a_prefix_continues_the_assistants_message() -> None:
    assert chatml([Message("user", "hi")], prefix="Hello").endswith("<|im_start|>assistant\nHello")


def test_unknown_roles_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown role"):
        chatml([Message("tool", "x")])
