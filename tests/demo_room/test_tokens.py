from __future__ import annotations

import pytest
from realtime_venus.demo_room.tokens import FAILURES, WINDOW_S, Door, TooManyTries, WrongKey, new_token


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert min(map(len, tokens)) == 43


def test_an_open_door_lets_everybody_in() -> None:
    door = Door(None, Clock())
    door.check("")
    door.check("anything")
    assert not door.locked


def test_only_the_key_opens() -> None:
    door = Door("schlüssel", Clock())
    door.check("schlüssel")
    for wrong in ("", "schlusse", "schlüssel ", "SCHLÜSSEL"):
        with pytest.raises(WrongKey):
            door.check(wrong)
    assert door.locked


@pytest.mark.parametrize("key", ["schl\udcfcssel", "\ud800", "\udfff\ud800"])
def test_a_key_that_is_no_text_is_wrong(key: str) -> None:
    door = Door("schlüssel", Clock())
    with pytest.raises(WrongKey):
        door.check(key)


def test_guessing_shuts_the_door_for_a_while() -> None:
    clock = Clock()
    door = Door("schlüssel", clock)
    for _ in range(FAILURES):
        with pytest.raises(WrongKey):
            door.check("guess")
    with pytest.raises(TooManyTries):
        door.check("schlüssel")
    clock.now = WINDOW_S
    door.check("schlüssel")
