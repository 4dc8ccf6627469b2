from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.utterance import Utterance


def english() -> Utterance:
    said = Utterance("u1", Language.EN)
    said.add(24_000, "The cheetah runs fast, ", True)
    said.add(12_000, "very ", False)
    said.add(12_000, None, True)
    return said


def test_spans_are_exact_once_their_clause_is_voiced() -> None:
    said = english()
    assert [(s.first, s.end, s.exact) for s in said.spans] == [(0, 24_000, True), (24_000, 48_000, True)]


def test_a_clause_in_progress_has_an_estimated_end_beyond_what_is_voiced() -> None:
    said = Utterance("u1", Language.ZH)
    span = said.add(4800, "今天天气很好，", False)
    assert span is not None
    assert span.end > 4800
    assert not span.exact


def test_what_was_heard_ends_at_a_word_in_english_and_a_character_in_chinese() -> None:
    said = english()
    said.on_heard(12_000)
    assert said.heard_text == "The cheetah "
    chinese = Utterance("u2", Language.ZH)
    chinese.add(40_000, "今天天气很好啊真", True)
    chinese.on_heard(20_000)
    assert chinese.heard_text == "今天天气"


def test_everything_heard_is_everything_said_and_nothing_heard_is_nothing() -> None:
    said = english()
    assert said.heard_text == ""
    said.on_heard(48_000)
    assert said.heard_text == said.text == "The cheetah runs fast, very "


@given(st.lists(st.integers(-10, 60_000), max_size=8))
def test_heard_never_goes_back_or_beyond_what_was_voiced(reports: list[int]) -> None:
    said = english()
    before = 0
    for samples in reports:
        said.on_heard(samples)
        assert before <= said.heard <= said.samples
        before = said.heard
        assert said.text.startswith(said.heard_text)
