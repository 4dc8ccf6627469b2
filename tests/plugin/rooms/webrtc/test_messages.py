from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Changes, Language
from realtime_venus.plugin.rooms.base import Configure, Interrupt, Say, TypeText
from realtime_venus.plugin.rooms.messages import MAX_BYTES
from realtime_venus.plugin.rooms.webrtc.messages import (
    AckRtp,
    BadMessage,
    Bye,
    Incoming,
    Ping,
    Pong,
    parse,
)


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ({"type": "ping"}, Ping(type="ping")),
        ({"type": "pong"}, Pong(type="pong")),
        ({"type": "bye"}, Bye(type="bye")),
        ({"type": "ack", "rtp": 2**32 - 1}, AckRtp(type="ack", rtp=2**32 - 1)),
        ({"type": "type", "text": "你好"}, TypeText("你好")),
        ({"type": "say", "text": "hello"}, Say("hello")),
        ({"type": "interrupt"}, Interrupt()),
        ({"type": "configure", "language": "zh"}, Configure(Changes(language=Language.ZH))),
        ({"type": "configure", "voice": "auto"}, Configure(Changes(voice="auto"))),
        ({"type": "configure", "language": "auto", "voice": "v"}, Configure(Changes(language="auto", voice="v"))),
    ],
)
def test_every_message_has_its_meaning(message: dict[str, Any], meaning: Incoming) -> None:
    assert parse(json.dumps(message)) == meaning
    assert parse(json.dumps(message).encode()) == meaning


@pytest.mark.parametrize(
    "message",
    [
        "",
        "null",
        "[]",
        "{",
        '"ping"',
        '{"type": "unknown"}',
        '{"type": "ack"}',
        '{"type": "ack", "rtp": -1}',
        '{"type": "ack", "rtp": 4294967296}',
        '{"type": "ack", "rtp": "1; drop"}',
        '{"type": "type", "text": ""}',
        '{"type": "type", "text": 5}',
        '{"type": "configure", "language": "fr"}',
        '{"type": "ping", "more": 1}',
        '{"type": "type", "text": "' + "a" * 4001 + '"}',
        '{"type": "say", "text": "' + "a" * MAX_BYTES + '"}',
    ],
)
def test_what_means_nothing_is_refused(message: str) -> None:
    with pytest.raises(BadMessage):
        parse(message)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_parse_or_be_refused(raw: bytes) -> None:
    with contextlib.suppress(BadMessage):
        parse(raw)
