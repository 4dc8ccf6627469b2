from __future__ import annotations

import pytest
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.clauses import ClauseOptions
from realtime_venus.plugin.livekit.components.speaking import Clause, Clauses, Speaker

from ....kit.cascade import Tone
from .fakes import book


def cut(text: str, language: Language | None = None, step: int = 3) -> list[Clause]:
    clauses = Clauses(language, ClauseOptions())
    found = [clause for at in range(0, len(text), step) for clause in clauses.feed(text[at : at + step])]
    return [*found, *clauses.finish()]


@pytest.mark.parametrize(
    "text",
    [
        "The fastest land animal is the cheetah, which runs at 110 km/h. It lives in Africa.",
        "跑得最快的动物是猎豹，它每小时能跑一百一十公里。它生活在非洲。",
        "iPhone 15 现在卖多少钱？大概五千元。",
    ],
)
@pytest.mark.parametrize("step", [1, 4, 1000])
def test_clauses_are_the_text_to_the_letter(text: str, step: int) -> None:
    clauses = cut(text, step=step)
    assert len(clauses) > 1
    assert "".join(clause.text for clause in clauses) == text


def test_the_language_is_that_of_the_script() -> None:
    assert {clause.language for clause in cut("It lives in Africa, where it is warm. Is that clear?")} == {Language.EN}
    assert {clause.language for clause in cut("它生活在非洲，那里很热。明白了吗？")} == {Language.ZH}


def test_a_chinese_reply_that_begins_with_a_name_is_chinese() -> None:
    assert {clause.language for clause in cut("iPhone 15 现在卖五千元。OK，就这样。")} == {Language.ZH}


def test_a_sentence_of_the_other_language_is_spoken_in_it() -> None:
    clauses = cut("好的，我来翻译。The weather is lovely today in the whole country. 就这样。")
    languages = [clause.language for clause in clauses]
    assert languages[0] is Language.ZH
    assert Language.EN in languages
    assert languages[-1] is Language.ZH


def test_a_language_that_is_asked_for_is_kept() -> None:
    assert {clause.language for clause in cut("它生活在非洲。", Language.EN)} == {Language.EN}


def test_text_without_letters_is_spoken_in_what_was_spoken_before() -> None:
    assert cut("12345.")[0].language is Language.EN
    clauses = Clauses(None, ClauseOptions())
    clauses.feed("现在是三点钟。")
    clauses.feed("12:30")
    assert clauses.finish()[0].language is Language.ZH


def test_numbers_and_markup_are_read_out() -> None:
    english, chinese = Tone(), Tone()
    speaker = Speaker(book(english, chinese), None)
    list(speaker.speak(Clause("今天是**2024年**5月6日", Language.ZH)))
    assert chinese.spoken == ["zf: 今天是二零二四年五月六日"]
    list(speaker.speak(Clause("See [this](https://example.com/x).", Language.EN)))
    assert english.spoken == ["heart: See this."]


def test_a_voice_speaks_its_language_and_the_default_the_other() -> None:
    english, chinese = Tone(), Tone()
    speaker = Speaker(book(english, chinese), "clear")
    list(speaker.speak(Clause("Hello.", Language.EN)))
    list(speaker.speak(Clause("你好。", Language.ZH)))
    assert (english.spoken, chinese.spoken) == (["clear: Hello."], ["zf: 你好。"])


def test_nothing_is_spoken_for_a_smile() -> None:
    tone = Tone()
    assert list(Speaker(book(tone), None).speak(Clause("😀", Language.EN))) == []
    assert tone.spoken == []


def test_an_unknown_voice_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'nobody': there are en: heart, clear; zh: zf"):
        Speaker(book(Tone(), Tone()), "nobody")
