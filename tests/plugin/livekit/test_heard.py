from __future__ import annotations

from realtime_venus.plugin.livekit.heard import Heard


def generation(heard: Heard, first: int, frames: int) -> None:
    for number in range(first, first + frames):
        heard.captured(number, 0.02)


def test_nothing_is_heard_before_playback_begins() -> None:
    heard = Heard()
    generation(heard, 0, 50)
    assert heard.now(100.0) == -1


def test_the_clock_says_what_is_heard_but_never_more_than_was_captured() -> None:
    heard = Heard()
    generation(heard, 0, 10)
    heard.started(100.0)
    assert heard.now(100.1) == 4
    assert heard.now(105.0) == 9


def test_an_interruption_says_exactly_how_much() -> None:
    heard = Heard()
    generation(heard, 0, 50)
    heard.started(100.0)
    assert heard.now(100.2) == 9
    assert heard.finished(0.5) == 24


def test_the_next_generation_begins_anew() -> None:
    heard = Heard()
    generation(heard, 0, 10)
    heard.started(100.0)
    heard.finished(0.1)
    generation(heard, 40, 10)
    assert heard.now(200.0) == 4, "not playing yet"
    heard.started(200.0)
    assert heard.now(200.1) == 44
    assert heard.finished(0.2) == 49


def test_a_run_that_ran_dry_goes_on_later() -> None:
    heard = Heard()
    generation(heard, 0, 5)
    heard.started(100.0)
    generation(heard, 5, 10)
    assert heard.progressed(0.0, 0.1, 101.0) == 4
    assert heard.now(101.1) == 9


def test_frames_of_somebody_else_take_time_and_have_no_number() -> None:
    heard = Heard()
    heard.captured(None, 0.1)
    heard.captured(7, 0.02)
    heard.started(100.0)
    assert heard.now(100.1) == -1
    assert heard.now(100.13) == 7
