"""The model remembers what was heard, in whole turns, within limits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.history import CUT, History, Limits
from realtime_venus.engines.cascade.parts import Message

EN, ZH = Language.EN, Language.ZH


def exchange(history: History, user: str, said: str, language: Language = EN) -> None:
    history.user(user, language)
    history.agent(said, language)
    history.finished()


def test_a_whole_answer_is_remembered_word_for_word() -> None:
    history = History()
    exchange(history, "Who wrote it?", "Shakespeare, around 1600.")
    assert history.messages() == [Message("user", "Who wrote it?"), Message("assistant", "Shakespeare, around 1600.")]


@pytest.mark.parametrize(
    ("language", "said", "heard"),
    [
        (EN, "First the flour, then the water.", "First the flour, "),
        (ZH, "先把豆子泡一夜，再磨成浆。", "先把豆子泡一夜，"),
    ],
)
def test_of_an_interrupted_answer_only_what_was_heard(language: Language, said: str, heard: str) -> None:
    history = History()
    history.user("q", language)
    history.agent(said, language)
    history.heard(heard)
    history.finished()
    assert history.turns[-1].cut
    assert history.messages()[1:] == [Message("assistant", heard.strip()), Message("system", CUT[language])]


def test_an_answer_heard_to_its_end_is_not_cut() -> None:
    history = History()
    exchange(history, "q", "All of it.")
    history.heard("All of it. ")
    assert not history.turns[-1].cut
    assert history.messages()[-1].content == "All of it."


def test_an_answer_of_which_nothing_was_heard_is_left_out() -> None:
    history = History()
    history.user("one", EN)
    history.agent("Never heard.", EN)
    history.heard("")
    history.user("two", EN)
    assert history.messages() == [Message("user", "one\ntwo")]


def test_a_turn_taken_back_is_forgotten() -> None:
    history = History()
    exchange(history, "a", "b")
    history.user("I would like", EN)
    assert history.take_back() == "I would like"
    assert [turn.user for turn in history.turns] == ["a"]
    history.take_back()
    assert history.take_back() == ""


def test_the_agent_may_speak_by_itself() -> None:
    history = History()
    history.agent("Hello.", EN)
    history.finished()
    exchange(history, "hi", "How are you?")
    assert [message.role for message in history.messages()] == ["assistant", "user", "assistant"]


def test_older_turns_go_into_an_extract_and_the_newest_stay_whole() -> None:
    history = History(Limits(turns=4, keep_turns=2))
    for n in range(5):
        exchange(history, f"question {n}", f"answer {n}")
    assert history.compact()
    assert [turn.user for turn in history.turns] == ["question 3", "question 4"]
    assert "question 0" in history.summary()
    assert "answer 2" in history.summary()
    assert not history.compact()


def test_a_summary_can_be_written_by_a_model() -> None:
    seen: list[tuple[str, int]] = []

    def summarise(before: str, turns: Sequence[Message]) -> str:
        seen.append((before, len(turns)))
        return "They talked about bread."

    history = History(Limits(turns=2, keep_turns=1))
    for n in range(3):
        exchange(history, f"q{n}", f"a{n}")
    history.compact(summarise)
    assert seen == [("", 4)]
    assert history.summary() == "Earlier in this call: They talked about bread."


def test_tokens_limit_it_too() -> None:
    history = History(Limits(tokens=60, keep_tokens=30), tokens=len)
    exchange(history, "a" * 20, "b" * 20)
    assert not history.compact()
    exchange(history, "c" * 20, "d" * 20)
    assert history.compact()
    assert [turn.user for turn in history.turns] == ["c" * 20]


def test_an_open_turn_is_never_cut() -> None:
    history = History(Limits(turns=1, keep_turns=0, tokens=1, keep_tokens=0))
    history.user("still going", EN)
    history.agent("answering", EN)
    assert not history.compact()
    assert history.turns[0].open


ways = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.text(min_size=1, max_size=40)),
        st.tuples(st.just("agent"), st.text(max_size=40)),
        st.tuples(st.just("heard"), st.text(max_size=40)),
        st.tuples(st.sampled_from(["finished", "back", "compact"]), st.just("")),
    ),
    max_size=60,
)


@given(ways)
def test_whatever_happens_roles_alternate_limits_hold_and_a_snapshot_is_the_same(steps: list[tuple[str, str]]) -> None:
    history = History(Limits(tokens=120, turns=5, keep_tokens=60, keep_turns=2))
    for what, text in steps:
        match what:
            case "user":
                history.user(text, ZH)
            case "agent":
                history.agent(text, EN)
            case "heard":
                history.heard(text)
            case "finished":
                history.finished()
            case "back":
                history.take_back()
            case _:
                history.compact()
                assert len(history.turns) <= 5 or any(turn.open for turn in history.turns)
        roles = [message.role for message in history.messages()]
        assert all(a != b for a, b in itertools.pairwise(roles))
    again = History()
    again.load(history.dump())
    assert again.turns == history.turns
    assert again.summary() == history.summary()


@pytest.mark.parametrize(
    "dumped",
    [
        "",
        "[]",
        "{}",
        '{"format": 99}',
        '{"format": 1, "turns": 3, "summary": "", "language": "en"}',
        '{"format": 1, "turns": [{}], "summary": "", "language": "en"}',
        '{"format": 1, "turns": [], "summary": "", "language": "fr"}',
        '{"format": 1, "turns": [], "summary": 5, "language": "en"}',
    ],
)
def test_what_is_no_snapshot_is_refused_and_changes_nothing(dumped: str) -> None:
    history = History()
    exchange(history, "a", "b")
    before = history.dump()
    with pytest.raises(ValueError, match=r".+"):
        history.load(dumped)
    assert history.dump() == before


def test_a_snapshot_is_json_with_a_format() -> None:
    assert json.loads(History().dump())["format"] == 1
