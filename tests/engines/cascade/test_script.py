from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.script import is_mostly, language_of

EN, ZH = Language.EN, Language.ZH


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Hello there", EN),
        ("你好", ZH),
        ("What does 你好 mean?", EN),
        ("Explain 人工智能 to me please", EN),
        ("iPhone 15 Pro Max 多少钱", ZH),
        ("我想学 Python", ZH),
        ("帮我翻译 good morning", ZH),
        ("café naïve", EN),
        ("OK", EN),
        ("好", ZH),
        ("", None),
        ("123 + 4?", None),
        ("😀", None),
        ("Привет, как дела?", None),
        ("こんにちはありがとう", None),
        ("안녕하세요", None),
    ],
)
def test_language_of(text: str, language: Language | None) -> None:
    assert language_of(text) is language


def test_every_request_of_the_kit(request: pytest.FixtureRequest) -> None:
    data = Path(__file__).parent / "data" / "lastword.jsonl"
    for line in data.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        assert language_of(item["text"]) is Language(item["language"]), item["text"]


def test_is_mostly() -> None:
    assert is_mostly("今天天气很好", ZH)
    assert not is_mostly("今天天气很好", EN)
    assert is_mostly("The capital of China is 北京.", EN)
    assert not is_mostly("", EN)
    assert not is_mostly("Привет", EN)


@given(st.text())
def test_any_text_gets_an_answer(text: str) -> None:
    language = language_of(text)
    if language is not None:
        assert any(character.isalpha() for character in text)
