"""Trimming, joining and cutting, without a model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.cascade.tts.pcm import sentences, to_int16, with_tail, without_lead

MS = 24


def beep(before_ms: int, sound_ms: int, after_ms: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    at = np.arange(sound_ms * MS) / 24_000
    tone = (0.3 * np.cos(2 * np.pi * 220 * at)).astype(np.float32)
    return np.pad(tone, (before_ms * MS, after_ms * MS))


def test_leading_silence_is_cut_to_ten_milliseconds() -> None:
    trimmed = without_lead(beep(300, 100, 50))

    assert len(trimmed) == (10 + 100 + 50) * MS
    assert trimmed[0] == 0


def test_a_sound_at_the_very_start_is_faded_in() -> None:
    trimmed = without_lead(beep(0, 100, 0))

    assert len(trimmed) == 100 * MS
    assert trimmed[0] == 0


def test_silence_alone_is_nothing() -> None:
    assert len(without_lead(np.zeros(5000, np.float32))) == 0
    assert len(without_lead(np.zeros(0, np.float32))) == 0


@pytest.mark.parametrize(
    ("text", "tail_ms"),
    [
        ("Well,", 120),
        ("I think so", 120),
        ("Yes.", 280),
        ("好的。", 280),
        ("真的吗？", 280),
        ("好，", 120),
        ("“No!”", 280),
    ],
)
@pytest.mark.parametrize("after_ms", [0, 50, 900])
def test_the_pause_behind_suits_the_text(text: str, tail_ms: int, after_ms: int) -> None:
    made = with_tail(beep(0, 200, after_ms), text)

    assert abs(len(made) - (200 + tail_ms) * MS) <= 5 * MS


def test_loud_samples_are_clipped_and_not_wrapped() -> None:
    assert to_int16(np.array([2, -2, 0, 0.5], np.float32)).tolist() == [32767, -32767, 0, 16384]


def test_sentences_stand_alone() -> None:
    assert sentences("Hello there. How are you? Fine!") == ["Hello there.", "How are you?", "Fine!"]
    assert sentences("你好。今天怎么样？很好，谢谢。") == ["你好。", "今天怎么样？", "很好，谢谢。"]
    assert sentences("It costs 3.50 in all.") == ["It costs 3.50 in all."]
    assert sentences("  ") == []


def test_a_long_sentence_is_cut_at_its_clauses() -> None:
    parts = sentences("one two three, four five six, seven eight nine, ten.", longest=30)

    assert parts == ["one two three, four five six,", "seven eight nine, ten."]


@given(st.text(alphabet="ab ,.!?。，\n", max_size=300), st.integers(5, 60))
def test_nothing_is_lost_and_nothing_too_long(text: str, longest: int) -> None:
    parts = sentences(text, longest)

    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(len(part) <= longest for part in parts)
