from __future__ import annotations

from realtime_venus.plugin.session.latency import LatencyMeter
from realtime_venus.plugin.timeline.events import Latency


def meter(last_sound_ms: int = 1000) -> LatencyMeter:
    found = LatencyMeter()
    found.user_spoke()
    found.last_sound_ms = last_sound_ms
    return found


def test_from_the_last_sound_to_the_first_sample() -> None:
    it = meter()
    it.speech("u", 0, 4800, opener=False)
    assert it.sent("u", 0, 960, 1700) == Latency(at_ms=1700, utterance_id="u", edge_ms=700)
    assert it.sent("u", 960, 1920, 1740) is None


def test_an_opener_is_measured_apart() -> None:
    it = meter()
    it.speech("u", 0, 2400, opener=True)
    it.speech("u", 2400, 4800, opener=False)
    assert it.sent("u", 0, 1920, 1300) is None
    found = it.sent("u", 1920, 2880, 1380)
    assert found == Latency(at_ms=1400, utterance_id="u", edge_ms=400, opener_ms=300)


def test_an_answer_already_under_way_is_no_answer_to_what_comes_then() -> None:
    it = meter()
    it.speech("u", 0, 48000, opener=False)
    assert it.sent("u", 0, 480, 1700) is not None
    it.user_spoke()
    it.last_sound_ms = 2000
    assert it.sent("u", 4800, 5280, 2100) is None
    it.speech("v", 0, 480, opener=False)
    assert it.sent("v", 0, 480, 2500) == Latency(at_ms=2500, utterance_id="v", edge_ms=500)


def test_what_nobody_asked_for_by_voice_is_not_measured() -> None:
    it = meter()
    it.cancel()
    it.speech("u", 0, 480, opener=False)
    assert it.sent("u", 0, 480, 1500) is None
    silent = LatencyMeter()
    silent.user_spoke()
    assert silent.sent("u", 0, 480, 1500) is None
