from __future__ import annotations

from realtime_venus.plugin.session.watchdog import Stall, Watchdog


def test_nothing_expected_means_nothing_stalls() -> None:
    assert Watchdog(10).check(1e6) is None


def test_a_unit_that_is_never_done() -> None:
    dog = Watchdog(10)
    dog.pushed(0, 0.0)
    dog.pushed(1, 1.0)
    dog.done(0, 9.0)
    assert dog.check(18.9) is None
    assert dog.check(19.0) == Stall("engine", 10.0)
    dog.engine_restarted()
    assert dog.check(100.0) is None


def test_an_utterance_that_neither_goes_on_nor_ends() -> None:
    dog = Watchdog(10)
    dog.utterance("u", 0.0)
    dog.utterance("u", 5.0)
    assert dog.check(14.0) is None
    assert dog.check(15.0) == Stall("engine", 10.0)
    dog.utterance_over("u")
    assert dog.check(99.0) is None


def test_speech_that_nobody_pulls() -> None:
    dog = Watchdog(10)
    for second in range(5):
        dog.playout(second * 50, second, wanted=True)
    for second in range(5, 14):
        dog.playout(200, second, wanted=True)
    assert dog.check(13.9) is None
    assert dog.check(14.0) == Stall("playout", 10.0)
    assert dog.check(15.0) is None
    dog.playout(200, 30.0, wanted=False)
    assert dog.check(30.0) is None
