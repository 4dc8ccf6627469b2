from __future__ import annotations

import pytest
from livekit.agents import APIError, APITimeoutError
from realtime_venus.engines.base import MissingExtra, NotEnoughMemory
from realtime_venus.plugin.livekit.components.bases import api_errors


def test_our_errors_become_livekits_and_are_not_tried_again() -> None:
    with pytest.raises(APIError, match="close other programs") as raised, api_errors("speaking"):
        raise NotEnoughMemory("close other programs")
    assert not raised.value.retryable
    assert isinstance(raised.value.__cause__, NotEnoughMemory)


def test_what_takes_too_long_says_what_it_was() -> None:
    with (
        pytest.raises(APITimeoutError, match="recognising speech took too long") as raised,
        api_errors("recognising speech"),
    ):
        raise TimeoutError
    assert not raised.value.retryable


def test_a_missing_extra_and_what_nobody_foresaw_stay_what_they_are() -> None:
    with pytest.raises(MissingExtra, match=r"realtime-venus\[local\]"), api_errors("speaking"):
        raise MissingExtra(__name__, "local")
    with pytest.raises(ZeroDivisionError), api_errors("speaking"):
        raise ZeroDivisionError
