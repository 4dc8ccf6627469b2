from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.spoken import spoken

EN, ZH = Language.EN, Language.ZH


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("# Head\n- one\n- two\n1. three", "Head. one. two. three"),
        ("> quoted\n\n---\n* [x] done", "quoted. done"),
        ("**Bold** and *it* and __so__ and `code`", "Bold and it and so and code"),
        ("~~old~~ new", "old new"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a, b. 1, 2"),
        ("[docs](https://x.y/z_(1)) here", "docs here"),
        ("![a cat](cat.png) sits", "a cat sits"),
        ("As shown [1] and [^2].", "As shown and."),
        ("```py\nprint(1)\n```", "a piece of code"),
        ("see https://example.com/x?y=1, then", "see a link, then"),
        ("see <https://example.com>.", "see a link."),
        ("www.foo.com", "a link"),
        ("see 1https://a.b/c now", "see 1 a link now"),
        ("visit example.com today", "visit example dot com today"),
        ("mail me at a.b@c.com.", "mail me at an e-mail address."),
        ("😀 Hi 👋🏽 there 👨‍👩‍👧", "Hi there"),
        ("5️⃣ stars ⭐", "5 stars"),
        ("(laughs softly) Hello", "Hello"),
        ("*sighs* Well", "Well"),
        ("[pause] Yes", "Yes"),
        ("It is (about 5 km) away", "It is (about 5 km) away"),
        ("This is *really* good", "This is really good"),
        ("Hello<|im_end|><|im_start|>", "Hello"),
        ("<|speak|>Hi<|chunk_eos|>", "Hi"),
        ("</s>Hi[/INST]", "Hi"),
        ("<b>bold</b> text<br>more", "bold text. more"),
        ("<think>hmm, pay?</think>Yes", "Yes"),
        ("<delegate>pay</delegate>ok", "ok"),
        ("ok <backend>secret", "ok"),
        ("a < b", "a < b"),
        (", and then", "and then"),
        ("...", ""),
        ("**", ""),
        ("😀", ""),
        ("snake_case", "snake case"),
        ("He said 你好today", "He said 你好 today"),
        ("  two   spaces ", "two spaces"),
    ],
)
def test_english_markup(written: str, said: str) -> None:
    assert spoken(written, EN) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("**重点**：今天`30`度", "重点：今天三十度"),
        ("# 标题\n- 第一项\n- 第二项", "标题。第一项。第二项"),
        ("看https://example.com/a?b=1，然后", "看链接，然后"),
        ("[官网](https://x.com)上有", "官网上有"),
        ("发邮件到a.b@c.com。", "发邮件到邮箱地址。"),
        ("😀你好👋", "你好"),
        ("（笑）你好", "你好"),
        ("*微笑* 你好", "你好"),
        ("【1】你好", "你好"),
        ("你好<|im_end|>", "你好"),
        ("```\nx\n```", "一段代码"),
        ("|a|b|\n|---|---|\n|1|2|", "a，b。一，二"),
        ("我用Python写代码", "我用 Python 写代码"),
        ("你好  world 你好", "你好 world 你好"),
        ("，然后", "然后"),
        ("。", ""),
    ],
)
def test_chinese_markup(written: str, said: str) -> None:
    assert spoken(written, ZH) == said


def test_long_texts_are_read_whole() -> None:
    assert spoken("It is 5 m. " * 200, EN) == ("It is 5 meters. " * 200).strip()
    assert spoken("有5km。" * 300, ZH) == "有五公里。" * 300


def test_endless_digits_are_read_one_by_one() -> None:
    assert spoken("1" * 40, ZH) == "一" * 40
    assert spoken("1" * 40, EN) == " ".join("1" * 40)


pieces = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(["**", "*", "`", "```", "# ", "- ", "|", "[a](b)", "https://a.b/c", "<|im_end|>", "😀", "\n"]),
        st.sampled_from(
            ["3.14", "1,000", "14:35", "2026-11-30", "$5", "¥3.5万", "25°C", "-7", "1/2", "2/0", "m²", "%"]
        ),
        st.sampled_from(["٣", "๕", "５", "①", "Ⅷ", "½", "²", "98765432109876543210", "2024年", "第3", "10^8", "99:99"]),
    ),
    max_size=12,
).map("".join)


@given(pieces)
def test_chinese_has_no_arabic_digit_left(text: str) -> None:
    assert not re.search(r"[0-9０-９]", spoken(text, ZH))


@given(pieces, st.sampled_from(Language))
def test_no_markup_is_ever_spoken(text: str, language: Language) -> None:
    said = spoken(text, language)
    assert "://" not in said
    assert "<|im_end|>" not in said
    assert "**" not in said
    assert "`" not in said
    assert "😀" not in said
    assert "\n" not in said
    assert said == said.strip()
    assert not said or any(c.isalnum() for c in said)
