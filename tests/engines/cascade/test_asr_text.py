"""What the recogniser's text may contain, without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.asr_text import (
    chinese_punctuation,
    clean,
    hurried,
    is_speech,
    without_loop,
    without_restart,
)


@pytest.mark.parametrize(
    ("raw", "spoken"),
    [
        (" Hello <|endoftext|>there", "Hello there"),
        ("<delegate>buy it</delegate> now", "buy it now"),
        ("a < b and c > d", "a d"),
        ("[♪ OUTRO MUSIC PLAYING [♪ OUTRO", ""),
        ("Well (laughs) yes.", "Well yes."),
        ("♪ la la la", ""),
        ("...", ""),
        ("红色和白色混在一起是什么\ufffd", "红色和白色混在一起是什么"),
        ("It costs $18,000 at 6%.", "It costs $18,000 at 6%."),
    ],
)
def test_only_spoken_words_are_left(raw: str, spoken: str) -> None:
    assert clean(raw) == spoken


@given(st.text(alphabet="<>|/ab delgt_ \n♪[]()", max_size=60))
def test_no_markup_survives_whatever_comes(raw: str) -> None:
    assert not set(clean(raw)) & set("<>|♪[]{}")


def test_a_sentence_begun_again_is_cut_off() -> None:
    assert without_restart("Did you feed the cat? Did you feed") == "Did you feed the cat?"
    assert without_restart("Max, get down. Good boy. Max get down.") == "Max, get down. Good boy."
    assert without_restart("红色和白色是什么？红色和白色是什") == "红色和白色是什么？"


@pytest.mark.parametrize("text", ["", "No, no.", "把红色的给我。", "I think so. I think not."])
def test_ordinary_speech_is_not_cut(text: str) -> None:
    assert without_restart(text) == text
    assert without_loop(text) == text


def test_a_loop_is_said_once() -> None:
    assert without_loop("Turn left and so on and so on and so on and so on") == "Turn left and so on"
    assert without_loop("是，是，是，是，是，是") == "是"


def test_faster_than_anybody_speaks() -> None:
    assert hurried("one two three four five six seven eight", 1.0, Language.EN)
    assert not hurried("one two three", 1.0, Language.EN)
    assert not hurried("今天天气真不错", 1.2, Language.ZH)


def test_chinese_text_has_chinese_punctuation() -> None:
    assert chinese_punctuation("你好, 世界!") == "你好，世界！"
    assert chinese_punctuation("我 要 去 北京.") == "我要去北京。"
    assert chinese_punctuation("用 Python 3.11, 好吗?") == "用 Python 3.11, 好吗？"
    assert chinese_punctuation("Hello, world.") == "Hello, world."


@pytest.mark.parametrize(
    ("text", "score", "no_speech"),
    [
        ("Hmm.", -4.07, 0.47),
        ("Hmm", -1.89, 0.57),
        ("嗯", -2.0, 0.4),
        ("Yeah.", -0.63, 0.01),
        ("OK.", -1.0, 0.01),
        ("Thank you.", -0.3, 0.02),
        ("好的", -0.24, 0.01),
        ("对", -1.15, 0.04),
    ],
)
def test_short_answers_survive(text: str, score: float, no_speech: float) -> None:
    assert is_speech(text, score, no_speech)


@pytest.mark.parametrize(
    ("text", "score", "no_speech"),
    [
        ("", -0.1, 0.0),
        ("...", -4.78, 0.3),
        ("you", -2.58, 0.89),
        ("Thank you.", -1.04, 0.91),
        ("I'm going to put it on the top.", -1.97, 0.87),
        ("The", -6.35, 0.24),
        ("Thanks for watching!", -0.4, 0.5),
        ("字幕由Amara.org社区提供", -0.2, 0.1),
    ],
)
def test_what_noise_turns_into_does_not(text: str, score: float, no_speech: float) -> None:
    assert not is_speech(text, score, no_speech)
