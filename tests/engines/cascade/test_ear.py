from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from realtime_venus.engines.base import FloatPcm
from realtime_venus.engines.cascade.ear import PATIENCE_MS, PRE_ROLL_MS, Ear

from ...kit.talk import LoudIsSpeech


def tone(ms: int, level: float = 0.3) -> FloatPcm:
    return (level * np.sin(np.arange(ms * 16) * 0.2)).astype(np.float32)


def quiet(ms: int) -> FloatPcm:
    return np.full(ms * 16, 1e-4, np.float32)


def test_nothing_is_heard_in_silence_and_only_the_pre_roll_is_kept() -> None:
    ear = Ear(LoudIsSpeech())
    for _ in range(50):
        sound = ear.take(quiet(100))
    assert sound.start_ms == sound.last_speech_ms == sound.last_sound_ms == -1  # pyright: ignore[reportPossiblyUnboundVariable]
    assert not ear.sound().speaking
    assert ear.now_ms == 5000
    samples, start_ms, end_ms = ear.audio()
    assert end_ms == 5000
    assert end_ms - start_ms <= PRE_ROLL_MS + 100
    assert len(samples) == (end_ms - start_ms) * 16


def test_speech_begins_after_two_windows_and_keeps_the_audio_before_it() -> None:
    ear = Ear(LoudIsSpeech())
    for _ in range(10):
        ear.take(quiet(100))
    first = ear.take(tone(100))
    assert first.speaking
    assert first.began
    assert first.start_ms == pytest.approx(1000, abs=32)
    assert ear.audio()[1] <= 1000 - 200


def test_quiet_is_measured_in_frames_of_20_ms_and_speech_in_windows_of_32_ms() -> None:
    ear = Ear(LoudIsSpeech())
    ear.take(tone(640))
    sound = ear.take(np.concatenate([tone(60), quiet(40)]))
    assert sound.last_sound_ms == 700
    assert sound.quiet_ms == 40
    assert sound.last_speech_ms == pytest.approx(704, abs=32)


def test_a_pause_inside_the_turn_keeps_its_start_and_reports_the_return() -> None:
    ear = Ear(LoudIsSpeech())
    ear.take(tone(500))
    start = ear.sound().start_ms
    for _ in range(8):
        assert not ear.take(quiet(100)).began
    assert not ear.sound().speaking
    back = ear.take(tone(100))
    assert back.began
    assert back.start_ms == start
    assert back.resumed_ms > start + 1200


def test_forget_begins_a_new_turn_and_forget_until_goes_on_with_the_old_one() -> None:
    ear = Ear(LoudIsSpeech())
    ear.take(tone(1000))
    ear.forget(until_ms=600)
    assert ear.audio()[1:] == (600, 1000)
    assert ear.sound().start_ms >= 0
    ear.forget()
    assert ear.sound().start_ms == -1
    assert not ear.sound().speaking


@pytest.mark.parametrize("size", [1, 7, 160, 333, 1600, 5000])
def test_the_result_does_not_depend_on_how_the_audio_is_cut(size: int) -> None:
    audio = np.concatenate([quiet(300), tone(700), quiet(250), tone(400), quiet(350)])
    whole, cut = Ear(LoudIsSpeech()), Ear(LoudIsSpeech())
    expected = whole.take(audio)
    for begin in range(0, len(audio), size):
        cut.take(audio[begin : begin + size])
    got = cut.sound()
    assert (got.start_ms, got.last_speech_ms, got.last_sound_ms) == (
        expected.start_ms,
        expected.last_speech_ms,
        expected.last_sound_ms,
    )
    assert got.quiet_ms == expected.quiet_ms


def test_a_very_long_turn_keeps_only_the_newest_audio() -> None:
    ear = Ear(LoudIsSpeech(), longest_s=2)
    for _ in range(50):
        ear.take(tone(100))
    samples, start_ms, end_ms = ear.audio()
    assert (start_ms, end_ms) == (3000, 5000)
    assert len(samples) == 32_000


class Told(LoudIsSpeech):
    """A voice detector that finds speech where it is told, in stretches of so many windows, however quiet it is."""

    def __init__(self, stretches: list[int]) -> None:
        super().__init__()
        self._speech = [index % 2 for index, length in enumerate(stretches) for _ in range(length)]
        self.windows = 0

    def push(self, samples: FloatPcm) -> list[float]:
        found = range(self.windows, self.windows + len(super().push(samples)))
        self.windows = found.stop
        return [float(self._speech[index]) if index < len(self._speech) else 0.0 for index in found]


def noise(ms: int, seed: int = 0) -> FloatPcm:
    return (1e-3 * np.random.default_rng(seed).standard_normal(ms * 16)).astype(np.float32)


@settings(deadline=None)
@given(
    stretches=st.lists(st.integers(1, 40), max_size=8),
    units=st.lists(
        st.tuples(st.sampled_from(["noise", "noise", "noise", "tone"]), st.booleans(), st.sampled_from([0, 0, 0, 100])),
        min_size=1,
        max_size=50,
    ),
)
def test_a_patient_ear_finds_the_same_and_late_only_what_does_not_stand_out(
    stretches: list[int], units: list[tuple[str, bool, int]]
) -> None:
    eager, patient = Ear(Told(stretches)), Ear(Told(stretches))
    began: list[tuple[bool, bool]] = []
    late_ms = at_ms = 0
    for number, (kind, may_wait, missed_ms) in enumerate([*units, ("noise", False, 0)]):
        at_ms += missed_ms
        audio = noise(100, number) if kind == "noise" else tone(100)
        expected, got = eager.take(audio, at_ms), patient.take(audio, at_ms, patient=may_wait)
        at_ms += 100
        began.append((expected.began, got.began))
        late_ms = late_ms + 100 if replace(got, began=False) != replace(expected, began=False) else 0
        assert (got.now_ms, got.last_sound_ms, got.quiet_ms) == (at_ms, expected.last_sound_ms, expected.quiet_ms)
        assert late_ms < PATIENCE_MS
        if kind == "tone" or not may_wait or got.start_ms >= 0:
            assert late_ms == 0
    assert any(first for first, _ in began) == any(second for _, second in began)
    assert np.array_equal(patient.audio()[0], eager.audio()[0])
    assert patient.audio()[1:] == eager.audio()[1:]


def test_a_patient_ear_lets_the_detector_run_over_more_at_once_in_noise_and_never_while_somebody_speaks() -> None:
    detector = Told([])
    ear = Ear(detector)
    ran: list[bool] = []
    for number in range(50):
        before = detector.windows
        ear.take(noise(100, number), patient=True)
        ran.append(detector.windows > before)
    assert sum(ran) == 10
    for _ in range(3):
        ear.take(tone(100), patient=True)
        assert detector.windows == ear.now_ms // 32
