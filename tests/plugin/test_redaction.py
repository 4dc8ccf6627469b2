"""What the SDK says is passed on without the token it quotes."""

from __future__ import annotations

import logging

import pytest
from livekit import api
from realtime_venus.plugin.redaction import Redacting, redacted


def token() -> str:
    return api.AccessToken("key", "a-secret-of-32-letters-for-tests!").with_identity("venus").to_jwt()


@pytest.mark.parametrize("around", ["wss://x/rtc?access_token={}&v=1", "401 for {} refused", "{}"])
def test_a_token_is_never_quoted(around: str) -> None:
    made = token()
    said = redacted(around.format(made))
    assert said == around.format("(the token)")
    assert not any(part in said for part in made.split("."))


def test_a_token_stands_in_no_line_wherever_it_came_from() -> None:
    made = token()
    record = logging.LogRecord(
        "livekit", logging.ERROR, __file__, 1, "failed: %s", (f"wss://x?access_token={made}",), None
    )
    record.exc_info = (ValueError, ValueError(made), None)
    lines = Redacting("%(name)s: %(message)s").format(record)
    assert lines == "livekit: failed: wss://x?access_token=(the token)\nValueError: (the token)"
