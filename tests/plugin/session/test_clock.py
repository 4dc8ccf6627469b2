from __future__ import annotations

from realtime_venus.plugin.session.clock import MediaClock


def test_samples_define_time_and_the_wall_fills_in() -> None:
    clock = MediaClock(100.0, fast=False)
    assert clock.now_ms(100.0) == 0
    assert clock.now_ms(100.5) == 500
    clock.arrived(16000, 101.0)
    assert clock.now_ms(101.25) == 1250


def test_it_never_runs_backwards() -> None:
    clock = MediaClock(0.0, fast=False)
    assert clock.now_ms(2.0) == 2000
    clock.arrived(16000, 2.0)  # the room is a second behind
    assert clock.now_ms(2.1) == 2000
    assert clock.now_ms(3.5) == 2500


def test_in_fast_mode_it_stands_still() -> None:
    clock = MediaClock(0.0, fast=True)
    clock.arrived(3200, 0.0)
    assert clock.now_ms(1000.0) == 200
