from __future__ import annotations

import pytest
from realtime_venus.plugin.session.words import Span, heard_text, join_words

ENGLISH = [Span("Hello there,", 0, 1200), Span("my good friend.", 1200, 2700)]


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        (0, ""),
        (100, ""),
        (600, "Hello"),
        (1000, "Hello"),
        (1200, "Hello there,"),
        (1500, "Hello there, my"),
        (2500, "Hello there, my good"),
        (2700, "Hello there, my good friend."),
        (9999, "Hello there, my good friend."),
    ],
)
def test_whole_words_that_were_heard(heard: int, text: str) -> None:
    assert heard_text(ENGLISH, heard) == text


def test_chinese_is_cut_between_characters() -> None:
    assert heard_text([Span("今天天气很好。", 0, 700)], 350) == "今天天"


def test_mixed_pieces_are_joined_as_one_would_write_them() -> None:
    assert join_words(["Hello", "world. ", "Good", " day"]) == "Hello world. Good day"
    assert join_words(["你好", "，", "世界"]) == "你好，世界"
    assert join_words(["我用", "Python", "写"]) == "我用Python写"
    assert join_words([]) == ""


def test_a_span_without_length_counts_when_it_is_reached() -> None:
    assert heard_text([Span("a", 0, 0), Span("b", 100, 100)], 99) == "a"
