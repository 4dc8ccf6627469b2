from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.clauses import ClauseCutter, ClauseOptions
from realtime_venus.engines.cascade.spoken import spoken

EN, ZH = Language.EN, Language.ZH


def cut(text: str, language: Language, size: int | None = None, options: ClauseOptions | None = None) -> list[str]:
    """The clauses of ``text`` fed in pieces of ``size`` characters (whole when ``None``)."""
    cutter = ClauseCutter(language, options)
    out: list[str] = []
    for at in range(0, len(text), size or len(text)):
        out += cutter.feed(text[at : at + (size or len(text))])
    rest = cutter.finish()
    return [*out, rest] if rest else out


def tokens(text: str) -> list[str]:
    """Pieces as a language model gives them: a word with the space before it, single signs and characters."""
    return re.findall(r"\s?[A-Za-z]+|\s?\d|\s?[^\sA-Za-z\d]|\s", text)


def cut_tokens(text: str, language: Language) -> list[str]:
    cutter = ClauseCutter(language)
    out: list[str] = []
    for piece in tokens(text):
        out += cutter.feed(piece)
    return [*out, cutter.finish()]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("The Pacific is the largest ocean, and it covers a third of the Earth.", "The Pacific is the largest ocean,"),
        ("Yes, you can do that for them with a spoon.", "Yes, you can do that for them "),
        ("There are one hundred and twenty minutes in two hours.", "There are one hundred and twenty minutes "),
        ("Leonardo painted the Mona Lisa in Florence around 1503.", "Leonardo painted the Mona Lisa "),
        ("Sure! I will tell you about it.", "Sure!"),
        ("Pi is 3.14159 and it never ends at all.", "Pi is 3.14159 and it never ends "),
        ("It costs 1,000 dollars. Not cheap.", "It costs 1,000 dollars."),
        ("It starts at 10:30. Be there.", "It starts at 10:30."),
        ("Dr. Smith is here. Come in.", "Dr. Smith is here."),
        ("Use fruit, e.g. apples, today please.", "Use fruit,"),
        ("On July 4, 1776, it was signed.", "On July 4, 1776,"),
        ("See https://a.b/c?d=1,2.3 now. Then go.", "See https://a.b/c?d=1,2.3 now."),
        ("**This, here, now** is bold. Next.", "**This, here, now** is bold."),
        ("See [the docs, now](https://a.b/c) today. Next.", "See [the docs, now](https://a.b/c) today."),
        ("(laughs, then sighs) Hello there, my friend.", "(laughs, then sighs) Hello there,"),
        ("1. First item\n2. Second item", "1. First item\n"),
        ("- apples and pears\n- plums", "- apples and pears\n"),
        ('He said "Stop!" to them. They stopped.', 'He said "Stop!"'),
        ("The U.S. is large. So is Canada.", "The U.S. is large."),
        ("It is about 25 percent of the total.", "It is about 25 percent "),
    ],
)
def test_first_english_clause(text: str, first: str) -> None:
    assert cut_tokens(text, EN)[0] == first


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("太平洋是世界上最大的海洋，占地球三分之一。", "太平洋是世界上"),
        ("好的，我来告诉你怎么做。", "好的，"),
        ("好。我来了。", "好。"),
        ("是蓝鲸，它是最大的动物。", "是蓝鲸，"),
        ("价格是3.14元，不贵。", "价格是3.14元，"),
        ("上午10：30开始，别迟到。", "上午10：30开始，"),
        ("（笑，叹气）你好，朋友。", "（笑，叹气）你好，"),
        ("**重点，在这里**，请看。", "**重点，在这里**，"),
        ("看https://a.b/c?d=1，然后再说。", "看https://a.b/c?d=1，"),
    ],
)
def test_first_chinese_clause(text: str, first: str) -> None:
    assert cut_tokens(text, ZH)[0] == first


ZH_REPLY = (
    "彩虹是阳光照到空气中的小水滴时发生折射和反射形成的，不同颜色的光弯曲的角度不一样，所以颜色总是按照同样的顺序排列。"
    "二零二六年十一月三十日北京大学的研究人员在太平洋西部发现了一种全新的深海鱼类。"
)
EN_REPLY = (
    "A rainbow appears when sunlight enters tiny drops of water in the air and bends as it passes through them, "
    "and because every color bends at a slightly different angle, the colors always come in the same order. "
    "You will see it best in the late afternoon when the sun stands low behind you and the rain falls in front of you."
)


@pytest.mark.parametrize("limit", [4, 8])
def test_the_first_chinese_clause_is_short_and_ends_at_a_word(limit: int) -> None:
    first = cut(ZH_REPLY, ZH, 1, ClauseOptions(first_chars=limit))[0]
    assert 2 <= len(first) <= limit


def test_later_clauses_are_longer_but_bounded() -> None:
    chinese = cut(ZH_REPLY, ZH, 2)
    assert all(len(re.sub(r"\W", "", clause)) <= 18 for clause in chinese)
    english = cut_tokens(EN_REPLY, EN)
    assert len(english[0].split()) <= 7
    assert all(len(clause.split()) <= 20 for clause in english)
    assert sum(len(clause.split()) for clause in english[1:-1]) / len(english[1:-1]) >= 6


def test_the_language_may_change_in_mid_reply() -> None:
    clauses = cut_tokens("Sure, here you go. 太平洋是世界上最大的海洋，占地球三分之一。 That is all, I think.", EN)
    assert [clause.strip() for clause in clauses] == [
        "Sure, here you go.",
        "太平洋是世界上最大的海洋，",
        "占地球三分之一。",
        "That is all, I think.",
    ]


def test_a_code_fence_is_one_clause() -> None:
    text = "Try this code: ```py\nprint(1). print(2), ok!\n\nx = 1\n``` It works. Bye."
    clauses = cut_tokens(text, EN)
    assert sum("```" in clause for clause in clauses) == 1
    assert any(spoken(clause, EN).startswith("a piece of code") for clause in clauses)


def test_a_span_that_never_closes_does_not_hold_the_reply_back() -> None:
    assert len(cut("**" + "Word after word, and so on. " * 20, EN, 3)) > 5
    assert len(cut("（" + "一句话又一句话，" * 20, ZH, 3)) > 5


@pytest.mark.parametrize("text", ["x" * 5000, "1" * 5000, "```" + "a b. " * 1000, "[" * 5000])
def test_nothing_is_held_back_without_end(text: str) -> None:
    options = ClauseOptions(most_chars=300)
    assert all(len(clause) <= 350 for clause in cut(text, EN, 50, options))


@pytest.mark.parametrize(
    "whole",
    [
        "3.14159",
        "1,000,000",
        "10:30",
        "https://a.b/c?d=1,2",
        "a.b@c.com",
        "$49.99",
        "2026-11-30",
        "**all, of it**",
        "`a, b`",
    ],
)
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_what_belongs_together_stays_together(whole: str, size: int) -> None:
    english = f"So this is the thing we wanted, {whole}, and nothing else, {whole}. And again it is {whole} in the end."
    chinese = f"这就是我们想要的东西{whole}，没有别的{whole}。再说一遍，最后还是{whole}吧。"
    for text, language in ((english, EN), (chinese, ZH)):
        clauses = cut(text, language, size)
        assert sum(clause.count(whole) for clause in clauses) == 3, clauses


@pytest.mark.parametrize("text", [ZH_REPLY, EN_REPLY])
def test_speaking_clause_by_clause_loses_no_word(text: str) -> None:
    language = ZH if text is ZH_REPLY else EN
    parts = "".join(spoken(clause, language) for clause in cut(text, language, 3))
    assert re.sub(r"\W", "", parts) == re.sub(r"\W", "", spoken(text, language))


piece = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        ["**", "*", "`", "```", "(", ")", "[a](", "https://", ". ", ", ", "，", "。", "\n", "3.14", "Dr. "]
    ),
    st.sampled_from(["hello ", "in ", "the ", "world", "太平洋", "是世界上最大的", "海洋", "你好", " 10 km "]),
)


@given(st.lists(piece, max_size=40), st.sampled_from(Language))
def test_the_clauses_joined_are_the_reply(pieces: list[str], language: Language) -> None:
    cutter = ClauseCutter(language)
    clauses: list[str] = []
    for text in pieces:
        new = cutter.feed(text)
        assert all(clause.strip() for clause in new)
        clauses += new
    assert "".join(clauses) + cutter.finish() == "".join(pieces)


@given(st.lists(piece, max_size=15), st.sampled_from(Language))
def test_a_finished_cutter_begins_anew(pieces: list[str], language: Language) -> None:
    used, fresh = ClauseCutter(language), ClauseCutter(language)
    used.feed("Something else, before that. And")
    used.finish()
    assert [used.feed(text) for text in pieces] == [fresh.feed(text) for text in pieces]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("The fastest land animal is the cheetah.", "The fastest land animal "),
        ("The moon is about 384,400 kilometers away.", "The moon is about 384,400 kilometers "),
        ("All of the 12 are here now.", "All of the 12 are here "),
    ],
)
def test_a_subject_is_a_clause_of_its_own_when_its_verb_follows(text: str, first: str) -> None:
    assert ClauseCutter(Language.EN, ClauseOptions(first_words_most=5)).feed(text + " ")[0] == first
