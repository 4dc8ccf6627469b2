"""What the SDK says is passed on without the token it quotes."""

from __future__ import annotations

import pytest
from livekit import api
from realtime_venus.plugin.rooms.livekit.sdk import redacted


@pytest.mark.parametrize("around", ["wss://x/rtc?access_token={}&v=1", "401 for {} refused", "{}"])
def test_a_token_is_never_quoted(around: str) -> None:
    token = api.AccessToken("key", "a-secret-of-32-letters-for-tests!").with_identity("venus").to_jwt()
    said = redacted(around.format(token))
    assert said == around.format("(the token)")
    assert not any(part in said for part in token.split("."))
