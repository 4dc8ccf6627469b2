from __future__ import annotations

from realtime_venus.plugin.livekit.pacing import Pacer


def pulls(pacer: Pacer, now_s: float, *, eager: bool) -> int:
    count = 0
    while pacer.wants(now_s, eager=eager):
        pacer.pulled()
        count += 1
    return count


def test_idle_it_pulls_one_frame_every_20_ms() -> None:
    pacer = Pacer(100)
    assert [pulls(pacer, 5 + step * 0.02, eager=False) for step in range(10)] == [1] * 10


def test_speech_is_pulled_ahead_up_to_the_lead_and_then_at_real_time() -> None:
    pacer = Pacer(100)
    assert [pulls(pacer, step * 0.02, eager=True) for step in range(5)] == [5, 1, 1, 1, 1]
    assert pacer.ahead_ms(0.08) == 100


def test_a_lead_is_used_up_while_there_is_no_speech_to_pull() -> None:
    pacer = Pacer(100)
    pulls(pacer, 0, eager=True)
    assert [pulls(pacer, step * 0.02, eager=False) for step in range(1, 8)] == [0, 0, 0, 0, 1, 1, 1]


def test_late_it_skips_time_instead_of_pulling_a_burst() -> None:
    pacer = Pacer(100)
    pulls(pacer, 0, eager=False)
    assert pulls(pacer, 0.1, eager=False) == 5
    assert pulls(pacer, 3.0, eager=False) == 1
    assert pacer.skipped_ms == 2880


def test_after_a_restart_the_next_frame_is_due_at_once() -> None:
    pacer = Pacer(200)
    pulls(pacer, 0, eager=True)
    pacer.restart(0.02)
    assert pulls(pacer, 0.02, eager=False) == 1
