"""In which of our languages a text is written, by its script; for typed input and for what a language model wrote."""

from __future__ import annotations

import re
from typing import Final

from ..base import Language


def word_set(words: str) -> frozenset[str]:
    """The words of a list written with spaces."""
    return frozenset(words.split())


_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff]")
_LATIN_WORD: Final = re.compile(r"[A-Za-zÀ-ÖØ-öø-ɏ]+(?:['’\-][A-Za-zÀ-ÖØ-öø-ɏ]+)*")
_HAN_GRAMMAR: Final = re.compile(
    "[的了吗呢吧啊我你您他她它们是怎什么谁哪多少几请帮给把和在有没不这那就也都还会能要想说]"
)
_ENGLISH_GRAMMAR: Final = word_set(
    "a about am an and any are at be but by can could did do does for from give had has have he her his how i i'm if "
    "in is it it's its like me mean my no not of on or our please say she should so some tell than that the their them "
    "there they this to us was we were what what's when where which who why will with would yes you your"
)
_HAN_PER_WORD: Final = 1.6
"""Characters of a Chinese word on average."""


def shares(text: str) -> tuple[float, float, float]:
    """How much of ``text`` is English, Chinese and of another script; in words, names and brands counting half.

    A question such as ``iPhone 15 Pro Max 多少钱`` is Chinese although most of its words are not: words that carry the
    grammar count more than the others.
    """
    words = [word.lower() for word in _LATIN_WORD.findall(text)]
    english = sum(1.0 if word in _ENGLISH_GRAMMAR else 0.5 for word in words)
    chinese = len(_HAN.findall(text)) / _HAN_PER_WORD + 0.5 * len(_HAN_GRAMMAR.findall(text))
    rest = _HAN.sub("", _LATIN_WORD.sub("", text))
    other = sum(character.isalpha() for character in rest) / 3
    return english, chinese, other


def language_of(text: str) -> Language | None:
    """The language of ``text``; ``None`` without letters or when most of it is in a script of another language."""
    english, chinese, other = shares(text)
    if not (english or chinese) or other > max(english, chinese):
        return None
    return Language.ZH if chinese >= english else Language.EN


def is_mostly(text: str, language: Language, share: float = 0.6) -> bool:
    """Whether at least ``share`` of the words of ``text`` are of ``language``; false without letters."""
    english, chinese, other = shares(text)
    total = english + chinese + other
    part = chinese if language is Language.ZH else english
    return total > 0 and part / total >= share
