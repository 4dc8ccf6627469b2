from __future__ import annotations

import numpy as np
import pytest
from realtime_venus.engines.base import OUTPUT_HZ, EngineError, EngineEvent, FloatPcm, Speech, Text, TurnEnded
from realtime_venus.engines.omni.utterances import Utterances, int16


def sound(samples: int) -> FloatPcm:
    return np.full(samples, 0.25, np.float32)


@pytest.fixture
def told() -> list[EngineEvent]:
    return []


@pytest.fixture
def utterances(told: list[EngineEvent]) -> Utterances:
    return Utterances(told.append)


def test_speech_joins_without_a_gap_and_the_end_has_its_length(utterances: Utterances, told: list[EngineEvent]) -> None:
    for at_ms, samples in ((1000, 24_000), (2000, 24_000), (2000, 480)):
        utterances.speech(at_ms, sound(samples))
    utterances.end(3000)
    speech = [one for one in told if isinstance(one, Speech)]
    assert [(one.first_sample, len(one.pcm)) for one in speech] == [(0, 24_000), (24_000, 24_000), (48_000, 480)]
    assert told[-1] == TurnEnded(3000, "u1", 48_480)


def test_samples_that_are_no_numbers_are_an_error(utterances: Utterances, told: list[EngineEvent]) -> None:
    with pytest.raises(EngineError, match="no numbers"):
        utterances.speech(1000, np.array([0.0, np.nan], np.float32))
    assert told == []


def test_words_are_told_with_the_speech_they_are_heard_in(utterances: Utterances, told: list[EngineEvent]) -> None:
    for word in ("Good", " morning", ", to"):
        utterances.text(1000, word)
    utterances.speech(1000, sound(24_000))
    utterances.text(2000, " all.")
    utterances.speech(2000, sound(24_000))
    assert [one for one in told if isinstance(one, Text)] == [
        Text(1000, "u1", "Good morning, ", 0, OUTPUT_HZ),
        Text(2000, "u1", "to all.", OUTPUT_HZ, 2 * OUTPUT_HZ),
    ]


@pytest.mark.parametrize("pieces", [("unbe", "lieva", "ble"), ("Don", "'", "t"), ("caf", "é"), ("well", "-known")])
def test_a_word_is_never_told_in_parts(
    utterances: Utterances, told: list[EngineEvent], pieces: tuple[str, ...]
) -> None:
    for piece in pieces:
        utterances.text(1000, piece)
        utterances.speech(1000, sound(2400))
        utterances.unit_over(1000)
    utterances.end(2000)
    assert [one.text for one in told if isinstance(one, Text)] == ["".join(pieces)]


def test_chinese_characters_are_told_at_once(utterances: Utterances, told: list[EngineEvent]) -> None:
    utterances.text(1000, "你好")
    utterances.speech(1000, sound(2400))
    assert [one.text for one in told if isinstance(one, Text)] == ["你好"]


def test_a_last_word_is_told_before_the_end_and_within_the_speech(
    utterances: Utterances, told: list[EngineEvent]
) -> None:
    utterances.text(1000, "Yes")
    utterances.speech(1000, sound(24_000))
    utterances.end(1000)
    text, end = told[-2:]
    assert isinstance(text, Text)
    assert (text.text, text.end_sample) == ("Yes", 24_000)
    assert 0 <= text.first_sample < text.end_sample
    assert isinstance(end, TurnEnded)


def test_every_utterance_has_a_name_of_its_own_also_after_a_restart(
    utterances: Utterances, told: list[EngineEvent]
) -> None:
    utterances.end(0)
    assert told == []
    for _ in range(2):
        utterances.speech(1000, sound(240))
        utterances.end(1000)
    again = Utterances(told.append)
    again.restore(utterances.snapshot())
    again.speech(2000, sound(240))
    assert (utterances.current, utterances.latest, again.current) == ("", "u2", "u3")
    assert [one.first_sample for one in told if isinstance(one, Speech)] == [0, 0, 0]


def test_loud_speech_is_clipped_and_does_not_wrap() -> None:
    assert int16(np.array([0.0, 1.0, -1.0, 1.5, -2.0], np.float32)).tolist() == [0, 32_767, -32_767, 32_767, -32_768]
