from __future__ import annotations

from realtime_venus.plugin.rooms.livekit.speakers import SpeakerLog


def talk(log: SpeakerLog, first_ms: int, end_ms: int, **powers: float) -> None:
    for at_ms in range(first_ms, end_ms, 20):
        log.note(at_ms * 16, powers)


def test_the_loudest_of_a_span_spoke() -> None:
    log = SpeakerLog()
    talk(log, 0, 1000, alice=1e-6, bob=1e-6)
    talk(log, 1000, 2000, alice=0.01, bob=1e-6)
    talk(log, 2000, 3000, alice=1e-6, bob=0.004)
    assert log.speaker(1000, 2000) == "alice"
    assert log.speaker(2000, 3000) == "bob"
    assert log.speaker(1500, 3000) == "alice"


def test_nobody_spoke_in_silence_or_where_nothing_is_known() -> None:
    log = SpeakerLog()
    talk(log, 0, 1000, alice=1e-9)
    assert log.speaker(0, 1000) is None
    assert log.speaker(5000, 6000) is None


def test_a_noisy_microphone_does_not_speak() -> None:
    log = SpeakerLog()
    talk(log, 0, 3000, fan=0.01, alice=1e-7)
    talk(log, 3000, 4000, fan=0.01, alice=0.002)
    assert log.speaker(3000, 4000) == "alice"


def test_what_was_said_stays_attributed_when_the_speaker_has_gone() -> None:
    log = SpeakerLog()
    talk(log, 0, 20, alice=1e-7)
    talk(log, 20, 1000, alice=0.01)
    log.forget("alice")
    assert log.speaker(0, 1000) == "alice"


def test_it_remembers_two_minutes() -> None:
    log = SpeakerLog()
    talk(log, 0, 20, alice=1e-7, bob=1e-7)
    talk(log, 20, 1000, alice=0.01, bob=1e-7)
    talk(log, 119_000, 119_020, alice=1e-7)
    assert log.speaker(0, 1000) == "alice"
    talk(log, 122_000, 122_020, alice=1e-7)
    assert log.speaker(0, 1000) is None
