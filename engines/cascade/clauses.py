"""Cutting a reply into clauses while it is being written, so that it can be spoken before it is finished.

The first clause is short, since nothing is heard before it exists; later ones are longer, since they sound better
whole.  The recipe (where and how short) is the one measured on the question stems of the duplex kit: English at
punctuation after two words, else before a preposition or conjunction from the fifth word on; Chinese at punctuation,
else at a word boundary within eight characters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from pydantic import BaseModel, ConfigDict, Field

from ..base import Language, MissingExtra
from .script import shares, word_set

try:
    import jieba  # pyright: ignore[reportMissingTypeStubs]
except ImportError as error:
    raise MissingExtra(__name__, "local") from error


class ClauseOptions(BaseModel):
    """How long clauses are: in words for English, in characters for Chinese (a Latin word counts as a few)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_words: int = Field(default=4, ge=2)
    """After so many words the first English clause may end before a preposition or conjunction."""
    first_words_most: int = Field(default=7, ge=3)
    """After so many it ends anyway, unless a number or a word that hangs stands there."""
    words: int = Field(default=12, ge=4)
    words_most: int = Field(default=16, ge=6)
    first_chars: int = Field(default=8, ge=2)
    """The first Chinese clause without punctuation is at most this long (4 is quicker and sounds choppier)."""
    chars: int = Field(default=16, ge=4)
    protected_chars: int = Field(default=80, ge=20)
    """A bold span, bracket or inline code longer than this is not kept whole."""
    link_chars: int = Field(default=400, ge=20)
    """The same for a link and its address."""
    most_chars: int = Field(default=2000, ge=200)
    """A reply that gives no place to cut (a code block, a word without end) is cut after so many characters anyway."""


_EN_BREAK: Final = word_set(
    "and but or because when which to in of by for with from as if so where while into on at who than after "
    "before until since although though unless between through during"
)
_EN_HANG: Final = word_set(
    "the a an to of with and or but for in on at my your his her its our their this that these those um uh so "
    "because which if from then as by than very more most is are was were be been not no i you he she it we they "
    "some any"
)
_EN_NUMBERS: Final = word_set(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion "
    "point minus half"
)
_EN_VERB: Final = frozenset(
    "is are was were has have had can will would should could does did".split()  # noqa: SIM905
)
_SUBJECT_WORDS: Final = 3
_PLAIN: Final = re.compile(r"[a-z'’-]+")
_ABBREVIATIONS: Final = word_set(
    "dr mr mrs ms prof st mt vs etc eg ie jr sr no fig approx dept inc ltd co gen gov rev capt sgt lt col ave "
    "blvd al a.m p.m e.g i.e u.s u.k cf est min max tel jan feb mar apr jun jul aug sep sept oct nov dec"
)
_ZH_PUNCTUATION: Final = frozenset("，。！？；：、…")
_ZH_STOP: Final = frozenset("。！？；…")
_ZH_CLITIC: Final = frozenset("的了吗呢吧啊呀嘛们着过得地里上下中边儿")
_ZH_HANG: Final = frozenset("把被在从给对向和跟与及或是很最更太不没也都就还而但因为如果虽然为以让使比按用")
_ZH_HANG_END: Final = frozenset("在得给对向把被和跟与是于到成")
_ZH_NUMERAL: Final = frozenset("零〇一二两三四五六七八九十百千万亿点第")
_CLOSERS: Final = frozenset("”’」』）)]】》\"'")
_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_WORD: Final = re.compile(r"\S+")
_ADDRESS: Final = re.compile(r"(?:[a-z]{2,8}://|www\.|[\w.+-]+@)[!-~]*$", re.IGNORECASE)
_LIST_MARK: Final = re.compile(r"^\s*\d{1,2}[.)]$")
_FENCE: Final = re.compile(r"```|~~~")
_BRACKETS: Final = {"(": ")", "（": "）", "【": "】", "《": "》"}

_jieba_words = cast("Callable[[str], list[str]]", jieba.lcut)  # pyright: ignore[reportUnknownMemberType]


def warm_up() -> None:
    """Load the word list of the Chinese segmenter (about a second), so that the first clause need not wait for it."""
    jieba.setLogLevel(logging.WARNING)  # pyright: ignore[reportUnknownMemberType]
    _jieba_words("你好")


@dataclass(frozen=True, slots=True)
class _Limits:
    first: bool
    options: ClauseOptions


class ClauseCutter:
    """Takes the pieces of one reply and gives its clauses; joined together they are the reply, to the letter."""

    def __init__(self, language: Language, options: ClauseOptions | None = None) -> None:
        self._language = language
        self._options = options or ClauseOptions()
        self._buffer = ""
        self._first = True

    def feed(self, piece: str) -> list[str]:
        """Take the next piece of the reply; gives the clauses that are complete with it."""
        self._buffer += piece
        clauses: list[str] = []
        while cut := self._cut():
            clauses.append(self._buffer[:cut])
            self._buffer = self._buffer[cut:]
            self._first = False
        return clauses

    def finish(self) -> str:
        """End the reply; gives what is left of it, possibly nothing."""
        rest, self._buffer = self._buffer, ""
        self._first = True
        return rest

    def _cut(self) -> int:
        """Length of the clause that can be spoken now, or 0."""
        text = self._buffer
        start = len(text) - len(text.lstrip())
        if start == len(text):
            return 0
        guard = _Guard(text, self._options.protected_chars, self._options.link_chars)
        limits = _Limits(self._first, self._options)
        cut = (_cut_chinese if self._is_chinese(text) else _cut_english)(text, start, guard, limits)
        return cut or (len(text) if len(text) >= self._options.most_chars else 0)

    def _is_chinese(self, text: str) -> bool:
        head = text[:60]
        english, chinese, _ = shares(head)
        if english == chinese:
            return self._language is Language.ZH
        return chinese > english


class _Guard:
    """Which positions of a text lie inside something that must stay whole."""

    def __init__(self, text: str, span_most: int, link_most: int) -> None:
        self._text = text
        self._inside = [False] * (len(text) + 1)
        self._mark_fences()
        self._mark_spans(span_most, link_most)

    def allows(self, cut: int) -> bool:
        return not self._inside[cut] and not self._in_address(cut)

    def _mark(self, start: int, end: int) -> None:
        for cut in range(start, end):
            self._inside[cut] = True

    def _mark_fences(self) -> None:
        marks = [found.start() for found in _FENCE.finditer(self._text)]
        for number in range(0, len(marks), 2):
            end = marks[number + 1] + 3 if number + 1 < len(marks) else len(self._text) + 1
            self._mark(marks[number] + 1, end)

    def _mark_spans(self, span_most: int, link_most: int) -> None:
        """Bold, italics, inline code, links and brackets: from the opening sign to the closing one."""
        text = self._text
        at = 0
        while at < len(text):
            end = self._span_end(at)
            if end is None:
                at += 1
                continue
            close = end or len(text) + 1
            if close - at > (link_most if text[at] == "[" else span_most):
                at += 1
                continue
            self._mark(at + 1, close)
            at = close

    def _span_end(self, at: int) -> int | None:
        """End of the span that opens at ``at``: its position, 0 when still open, ``None`` when nothing opens."""
        text = self._text
        character = text[at]
        if character in _BRACKETS:
            return _after(text, _BRACKETS[character], at + 1)
        if character == "[":
            return self._link_end(at)
        for sign in ("**", "~~", "`"):
            if text.startswith(sign, at) and not text.startswith("```", at):
                return _after(text, sign, at + len(sign))
        if character == "*" and self._opens_italics(at):
            return _after(text, "*", at + 1)
        return None

    def _link_end(self, at: int) -> int:
        text = self._text
        closing = text.find("]", at)
        if closing < 0 or closing + 1 == len(text):
            return 0
        return _after(text, ")", closing) if text[closing + 1] == "(" else closing + 1

    def _opens_italics(self, at: int) -> bool:
        text = self._text
        before = text[at - 1] if at else " "
        after = text[at + 1] if at + 1 < len(text) else ""
        return not before.isalnum() and after != "" and not after.isspace() and after != "*"

    def _in_address(self, cut: int) -> bool:
        """Inside a web or mail address; what ends one (a space, a Chinese character) has to be seen first."""
        text = self._text
        head = text[max(0, cut - 200) : cut]
        if _ADDRESS.search(head) is None:
            return False
        return cut == len(text) or "!" <= text[cut] <= "~"


def _after(text: str, sign: str, start: int) -> int:
    found = text.find(sign, start)
    return found + len(sign) if found >= 0 else 0


# -- English --------------------------------------------------------------------------------------------------------


def _cut_english(text: str, start: int, guard: _Guard, limits: _Limits) -> int:
    options = limits.options
    few, most = (options.first_words, options.first_words_most) if limits.first else (options.words, options.words_most)
    words = list(_WORD.finditer(text, start))
    for number, word in enumerate(words):
        soft = number >= few and _soft_english(words, number, most)
        if (soft or (limits.first and _before_verb(words, number))) and guard.allows(word.start()):
            return word.start()
        for at in range(word.start(), word.end()):
            if _ends_english(text, at, number + 1, limits.first) and guard.allows(at + 1):
                return at + 1
        line_end = text.find("\n", word.end(), words[number + 1].start() if number + 1 < len(words) else len(text))
        if line_end >= 0 and guard.allows(line_end + 1) and not _LIST_MARK.match(text[start : word.end()]):
            return line_end + 1
    return 0


def _before_verb(words: list[re.Match[str]], number: int) -> bool:
    """Whether word ``number`` is the verb after a subject long enough to be spoken first ("The fastest | is ...")."""
    if number < _SUBJECT_WORDS or words[number].group().lower() not in _EN_VERB:
        return False
    subject = [word.group().lower() for word in words[:number]]
    return all(_PLAIN.fullmatch(word) for word in subject) and subject[-1] not in _EN_HANG | _EN_NUMBERS


def _soft_english(words: list[re.Match[str]], number: int, most: int) -> bool:
    """Whether a clause may end before word ``number`` although there is no punctuation."""
    before = words[number - 1].group().lower()
    word = words[number].group().lower().strip("*`\"'")
    if before in _EN_HANG or before in _EN_NUMBERS or any(character.isdigit() for character in before + word):
        return number >= most + 4
    return word in _EN_BREAK or number >= most


def _ends_english(text: str, at: int, words: int, first: bool) -> bool:
    """Whether the sign at ``at`` ends a clause; signs that may be part of something wait for what follows."""
    sign = text[at]
    following = text[at + 1 : at + 2]
    if sign in _ZH_PUNCTUATION:
        return sign in _ZH_STOP or words >= 2
    if sign in "!?;":
        return following not in {*_CLOSERS, *"!?."} if following else text.count('"', 0, at) % 2 == 0
    if sign in _CLOSERS and at and text[at - 1] in "!?.":
        return following.isspace() and not _is_abbreviation(text, at - 1)
    if sign == ".":
        return following.isspace() and not _is_abbreviation(text, at)
    if sign not in ",:—–":
        return False
    if words < (2 if first else 4):
        return False
    if sign == "," and re.search(r"\d(?:st|nd|rd|th)?$", text[:at]):
        after = text[at + 1 :].lstrip()
        return following.isspace() and after != "" and not after[0].isdigit()
    if sign == ",":
        return not following or following.isspace()
    return following.isspace()


def _is_abbreviation(text: str, at: int) -> bool:
    """Whether the full stop at ``at`` belongs to the word (Dr., e.g., J., 1.) and does not end a sentence."""
    line = text[text.rfind("\n", 0, at) + 1 : at + 1]
    if _LIST_MARK.match(line):
        return True
    word = re.split(r"[\s(\[\"“]", text[:at])[-1].lower().strip("*_`")
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "i")


# -- Chinese --------------------------------------------------------------------------------------------------------


def _cut_chinese(text: str, start: int, guard: _Guard, limits: _Limits) -> int:
    most = limits.options.first_chars if limits.first else limits.options.chars
    weights = _weights(text)
    length = 0.0
    for at in range(start, len(text)):
        within = length <= most or not limits.first
        if within and _ends_chinese(text, at, length, limits.first) and guard.allows(at + 1):
            return at + 1
        length += weights[at]
        if length > most + 1:
            return _soft_chinese(text, start, guard, weights, most)
    return 0


def _weights(text: str) -> list[float]:
    """How many characters' time each character takes: Latin letters a third, signs none."""
    return [1.0 if _HAN.match(c) else 0.34 if c.isalnum() else 0.0 for c in text]


def _ends_chinese(text: str, at: int, length: float, first: bool) -> bool:
    sign = text[at]
    following = text[at + 1 : at + 2]
    if sign == "\n":
        return length > 0 and not _LIST_MARK.match(text[:at])
    if sign in _ZH_STOP:
        return length >= 1 and following not in _CLOSERS | _ZH_STOP if following else length >= 1
    if sign in _ZH_PUNCTUATION:
        if sign == "：" and (not following or following.isdigit()):
            return False
        return length >= (2 if first else 8 if sign == "、" else 4)
    if sign in ",.!?;:" and at and not text[at - 1].isspace():
        return following.isspace() and length >= 2 and not (sign == "." and _is_abbreviation(text, at))
    return False


def _soft_chinese(text: str, start: int, guard: _Guard, weights: list[float], most: int) -> int:
    """The last good word boundary within ``most`` characters, else the last possible one, else the next one after."""
    good = fair = 0
    length = 0.0
    at = start
    for word in _jieba_words(text[start:])[:-1]:
        length += sum(weights[at : at + len(word)])
        at += len(word)
        if length > most and (good or fair):
            break
        if length < 2 or not guard.allows(at) or _splits(text[at - 1], text[at]):
            continue
        fair = at
        hangs = word in _ZH_HANG or word[-1] in _ZH_HANG_END
        if not hangs and text[at] not in _ZH_CLITIC and not text[at].isdigit():
            good = at
    return good or fair


def _splits(left: str, right: str) -> bool:
    """Whether a cut here would part a number, a word or a number from what it counts."""
    if right in _ZH_PUNCTUATION or right in _CLOSERS or right in ",.!?;:%％":
        return True
    if left.isascii() and left.isalnum():
        return right.isalnum() or left.isdigit()
    if left.isascii() and not left.isspace() and right.isascii():
        return True
    return left in _ZH_NUMERAL or (left in "¥￥$€£" and right.isdigit())
