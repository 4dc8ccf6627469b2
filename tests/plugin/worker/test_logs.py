from __future__ import annotations

import json
import logging

import pytest
from livekit import api
from realtime_venus.plugin.worker.logs import JsonLines, Lines


def record(message: str, **extra: object) -> logging.LogRecord:
    return logging.getLogger("venus.test").makeRecord(
        "venus.test", logging.WARNING, __file__, 1, message, (), None, extra=extra
    )


@pytest.mark.parametrize("style", [Lines(), JsonLines()])
def test_what_varies_is_in_the_line_and_what_users_said_is_not(style: logging.Formatter) -> None:
    line = style.format(record("a job was refused", reason="full", private="my password", job={"metadata": "mine"}))
    assert "a job was refused" in line
    assert "full" in line
    assert "password" not in line
    assert "mine" not in line
    assert "\n" not in line


def test_json_lines_are_json_whatever_is_in_them() -> None:
    content = json.loads(JsonLines().format(record("bad\nline", thing=object(), text="语音", number=3)))
    assert (content["message"], content["level"], content["logger"]) == ("bad\nline", "warning", "venus.test")
    assert (content["text"], content["number"]) == ("语音", 3)
    assert content["thing"].startswith("<object")
    assert content["time"].endswith("Z")


@pytest.mark.parametrize("style", [Lines(), JsonLines()])
def test_an_exception_is_told_whole(style: logging.Formatter) -> None:
    error = ValueError("out of order")
    one = record("it failed")
    one.exc_info = (ValueError, error, None)
    assert "ValueError: out of order" in style.format(one)


@pytest.mark.parametrize("style", [Lines(), JsonLines()])
def test_a_token_is_in_no_line(style: logging.Formatter) -> None:
    token = api.AccessToken("key", "a-secret-of-32-letters-for-tests!").with_identity("venus").to_jwt()
    one = record(f"signal failed: wss://x/rtc?access_token={token}&v=1", url=f"wss://x?access_token={token}")
    one.exc_info = (ValueError, ValueError(token), None)
    line = style.format(one)
    assert line.count("(the token)") == 3
    assert not any(part in line for part in token.split("."))
