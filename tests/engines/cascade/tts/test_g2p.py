"""Phonemes of Mandarin with English inside."""

from __future__ import annotations

import sys

import pytest
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.cascade.tts.g2p import MandarinPhonemes, has_han
from realtime_venus.engines.cascade.tts.hibari import HibariVoice

needs_misaki = pytest.mark.skipif(sys.version_info >= (3, 13), reason="misaki has no release for Python 3.13")


@pytest.fixture(scope="module")
def english() -> HibariVoice:
    return HibariVoice()


@pytest.fixture(scope="module")
def mandarin(english: HibariVoice) -> MandarinPhonemes:
    return MandarinPhonemes(english.phonemes)


@needs_misaki
def test_tones_are_marked(mandarin: MandarinPhonemes) -> None:
    assert mandarin("妈麻马骂").count("a") == 4
    assert [sign for sign in mandarin("妈，麻，马，骂") if sign in "→↗↓↘"] == ["→", "↗", "↓", "↘"]


@needs_misaki
def test_english_words_are_said_in_english(mandarin: MandarinPhonemes, english: HibariVoice) -> None:
    assert english.phonemes("Google Maps") in mandarin("请打开 Google Maps 看一下")
    assert english.phonemes("Python") in mandarin("我用Python写程序")
    assert english.phonemes("don't") in mandarin("他说don't")


@needs_misaki
def test_numbers_are_said_in_chinese(mandarin: MandarinPhonemes) -> None:
    assert mandarin("25个").replace(" ", "") == mandarin("二十五个").replace(" ", "")
    assert mandarin("3.5").strip() == mandarin("三点五").replace(" ", "")
    assert mandarin("9" * 40).count("→") + mandarin("9" * 40).count("↓") >= 40


@needs_misaki
def test_punctuation_becomes_pauses(mandarin: MandarinPhonemes) -> None:
    assert mandarin("好，好。").count(",") == 1
    assert mandarin("好，好。").endswith(".")
    assert mandarin("好吗？").endswith("?")


@needs_misaki
@pytest.mark.parametrize("text", ["", "😀", "（）", "\x00", "※◆"])
def test_what_cannot_be_said_is_left_out(mandarin: MandarinPhonemes, text: str) -> None:
    assert mandarin(text) == ""


def test_without_misaki_the_error_names_it(english: HibariVoice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "misaki", None)
    with pytest.raises(EngineError, match=r"misaki\[zh\]"):
        MandarinPhonemes(english.phonemes)


def test_han_is_told_from_other_scripts() -> None:
    assert has_han("a 猫")
    assert not has_han("cat, Café, 123。")
