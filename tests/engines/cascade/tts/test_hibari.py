"""The English voice: understood, trimmed, the same every time."""

from __future__ import annotations

import re

import numpy as np
import pytest
import soxr
from realtime_venus.engines.base import Int16Pcm, Language
from realtime_venus.engines.cascade.asr import WhisperRecogniser
from realtime_venus.engines.cascade.tts.hibari import HibariVoice
from realtime_venus.engines.store import Store

from ....kit.speech import error_rate


@pytest.fixture(scope="module")
def voice() -> HibariVoice:
    voice = HibariVoice()
    voice.warm()
    return voice


def spoken(voice: HibariVoice, text: str) -> Int16Pcm:
    return np.concatenate([piece.pcm for piece in voice.synthesize(text)])


@pytest.mark.models
def test_what_it_says_is_understood(voice: HibariVoice, models: Store) -> None:
    recogniser = WhisperRecogniser(models.path("whisper-base/model.bin").parent)
    wrong = words = 0.0
    for text in (
        "The capital of France is Paris.",
        "Plants drink water through their roots.",
        "Sure, I can help you with that,",
        "Water boils at one hundred degrees.",
        "She painted the old wooden fence last summer.",
    ):
        audio = soxr.resample(spoken(voice, text).astype(np.float32) / 32768, 24_000, 16_000)
        heard = recogniser.transcribe(audio, Language.EN)
        assert heard is not None
        rate, size = error_rate(text, re.sub("100", "one hundred", heard.text))
        wrong, words = wrong + rate * size, words + size

    assert wrong / words < 0.1


def test_it_begins_at_once_and_ends_in_a_short_pause(voice: HibariVoice) -> None:
    for text, tail_ms in (("The capital of France is Paris.", 280), ("Well, I think,", 120)):
        loud = np.flatnonzero(np.abs(spoken(voice, text)) > 200)
        assert loud[0] < 0.03 * 24_000
        assert abs(len(spoken(voice, text)) - loud[-1] - tail_ms * 24) < 0.03 * 24_000


def test_the_same_text_gives_the_same_samples(voice: HibariVoice) -> None:
    np.testing.assert_array_equal(spoken(voice, "Six thick thistles."), spoken(voice, "Six thick thistles."))


def test_a_piece_per_sentence_and_one_is_the_last(voice: HibariVoice) -> None:
    pieces = list(voice.synthesize("Hello there. I found three flights. The first leaves at nine."))

    assert [piece.last for piece in pieces] == [False, False, True]
    assert all(piece.pcm.dtype == np.int16 and len(piece.pcm) > 10_000 for piece in pieces)


@pytest.mark.parametrize("text", ["", "   ", "...", "😀", "你好", "?!"])
def test_nothing_to_say_is_one_empty_piece(voice: HibariVoice, text: str) -> None:
    (piece,) = voice.synthesize(text)

    assert piece.last
    assert len(piece.pcm) == 0


def test_a_very_long_text_without_any_break(voice: HibariVoice) -> None:
    first = next(voice.synthesize("many words " * 300))

    assert 0 < len(first.pcm) < 24_000 * 30


def test_other_voices_and_languages_are_refused(voice: HibariVoice) -> None:
    with pytest.raises(ValueError, match="'heart' only"):
        voice.synthesize("Hello.", "emma")
    with pytest.raises(ValueError, match="'heart' only"):
        voice.synthesize("你好。", language=Language.ZH)
