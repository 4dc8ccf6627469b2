from __future__ import annotations

from realtime_venus.plugin.rooms.livekit.options import LiveKitOptions
from realtime_venus.plugin.rooms.livekit.stay import Stay

OPTIONS = LiveKitOptions(join_s=60, empty_s=20, reconnect_s=30, listener_wait_s=10)


def test_a_room_nobody_comes_to_is_left() -> None:
    stay = Stay(OPTIONS, 0.0)
    assert stay.leave_because(59.0) is None
    assert stay.leave_because(61.0) == "nobody_came"


def test_a_room_that_has_become_empty_is_left() -> None:
    stay = Stay(OPTIONS, 0.0)
    assert stay.company(50.0, there=True)
    assert stay.leave_because(500.0) is None
    assert not stay.company(500.0, there=False)
    assert stay.leave_because(519.0) is None
    assert stay.leave_because(521.0) == "empty"


def test_whoever_comes_back_in_time_keeps_the_room() -> None:
    stay = Stay(OPTIONS, 0.0)
    stay.company(1.0, there=True)
    stay.company(10.0, there=False)
    assert not stay.company(25.0, there=True)
    assert stay.leave_because(100.0) is None


def test_a_connection_that_stays_away_is_given_up() -> None:
    stay = Stay(OPTIONS, 0.0)
    stay.company(0.0, there=True)
    stay.connection(10.0, up=False)
    stay.connection(20.0, up=False)
    assert not stay.connected
    assert stay.leave_because(39.0) is None
    assert stay.leave_because(41.0) == "connection_lost"
    stay.connection(42.0, up=True)
    assert stay.leave_because(500.0) is None


def test_speech_waits_for_a_subscriber_while_there_may_be_one() -> None:
    stay = Stay(OPTIONS, 0.0)
    assert not stay.may_speak(100.0, subscribed=False)
    assert stay.may_speak(100.0, subscribed=True)
    stay.company(100.0, there=True)
    assert not stay.may_speak(109.0, subscribed=False)
    assert stay.may_speak(111.0, subscribed=False)
    stay.connection(112.0, up=False)
    assert not stay.may_speak(113.0, subscribed=True)
