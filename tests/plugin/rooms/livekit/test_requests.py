from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Changes, Language
from realtime_venus.plugin.rooms.base import Configure, Interrupt, Say, TypeText
from realtime_venus.plugin.rooms.livekit.requests import (
    METHODS,
    AskState,
    BadRequest,
    Played,
    Request,
    parse,
    typed,
)


@pytest.mark.parametrize(
    ("method", "payload", "meaning"),
    [
        ("venus.ack", '{"stretch": 3, "played_ms": 40.5}', Played(3, 40.5)),
        ("venus.interrupt", "", Interrupt()),
        ("venus.interrupt", "{}", Interrupt()),
        ("venus.say", '{"text": "hi"}', Say("hi")),
        ("venus.type", '{"text": "你好"}', TypeText("你好", "alice")),
        (
            "venus.configure",
            '{"language": "zh", "voice": "anna"}',
            Configure(Changes(language=Language.ZH, voice="anna")),
        ),
        ("venus.configure", '{"language": "auto"}', Configure(Changes(language="auto"))),
        ("venus.state", "{}", AskState()),
    ],
)
def test_every_request_has_its_meaning(method: str, payload: str, meaning: Request) -> None:
    assert parse(method, payload, "alice") == meaning


@pytest.mark.parametrize(
    ("method", "payload", "code", "complaint"),
    [
        ("venus.say", "{}", 400, "text: Field required"),
        ("venus.say", '{"text": "a", "loud": true}', 400, "loud: Extra inputs"),
        ("venus.say", '{"text": "' + "a" * 5000 + '"}', 400, "text: String should have at most"),
        ("venus.say", '{"text": "' + "a" * 17_000 + '"}', 413, "at most 16384 bytes"),
        ("venus.state", "[]", 400, "payload: "),
        ("venus.ack", '{"stretch": 0, "played_ms": Infinity}', 400, "played_ms"),
        ("venus.dance", "{}", 400, "there is no method venus.dance"),
    ],
)
def test_what_means_nothing_is_refused_and_says_why(method: str, payload: str, code: int, complaint: str) -> None:
    with pytest.raises(BadRequest, match=complaint) as refused:
        parse(method, payload, "alice")
    assert refused.value.code == code


@given(st.sampled_from(METHODS), st.text())
def test_no_payload_does_anything_but_parse_or_be_refused(method: str, payload: str) -> None:
    with contextlib.suppress(BadRequest):
        parse(method, payload, "alice")


def test_an_empty_line_of_chat_is_none() -> None:
    assert typed(" \n", "alice") is None
    assert typed("hello", "alice") == TypeText("hello", "alice")
