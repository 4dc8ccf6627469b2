"""Text to Kokoro's phonemes: Mandarin through misaki, English through hibari, both inside one utterance."""

from __future__ import annotations

import importlib
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Protocol, cast

from ...base import EngineError

Phonemes = Callable[[str], str]

_GAPS: Final = re.compile(r"\s+")
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_PARTS: Final = re.compile(
    r"(?P<en>[A-Za-zÀ-ÿ]+(?:['’.&-]?[A-Za-zÀ-ÿ]+)*(?:[ ]+[A-Za-zÀ-ÿ]+(?:['’.&-]?[A-Za-zÀ-ÿ]+)*)*)"
    r"|(?P<zh>[\u3400-\u9fff]+)|(?P<number>-?\d+(?:\.\d+)?)|(?P<other>.)",
    re.DOTALL,
)
_POINTS: Final = {
    "，": ", ",
    "、": ", ",
    ",": ", ",
    "。": ". ",
    ".": ". ",
    "！": "! ",
    "!": "! ",
    "？": "? ",
    "?": "? ",
    "：": ": ",
    ":": ": ",
    "；": "; ",
    ";": "; ",
    "…": "… ",
    "—": "— ",
}
_NEUTRAL_MARK: Final = "\u032f"
"""Misaki's sign for a non-syllabic vowel; not in Kokoro's alphabet."""


class _ZhG2P(Protocol):
    def word2ipa(self, w: str) -> str: ...


class _Misaki(Protocol):
    ZHG2P: _ZhG2P


class _Jieba(Protocol):
    def setLogLevel(self, level: int) -> None: ...  # noqa: N802 - jieba's name

    def lcut(self, sentence: str) -> list[str]: ...


class _Cn2an(Protocol):
    def an2cn(self, number: str) -> str: ...


@dataclass(frozen=True, slots=True)
class _Tools:
    word: Callable[[str], str]
    jieba: _Jieba
    cn2an: _Cn2an


_PACKAGES: Final = ("misaki", "jieba", "cn2an")


def has_han(text: str) -> bool:
    """Whether the text has Chinese characters."""
    return _HAN.search(text) is not None


class MandarinPhonemes:
    """Callable: text in Chinese, with English words and numbers inside, to phonemes.  ``english`` does the words.

    Raises :class:`~...base.EngineError` naming misaki where it cannot be had (Python 3.13).
    """

    def __init__(self, english: Phonemes) -> None:
        self._english = english
        self._lock = threading.Lock()
        self._tools: _Tools | None = None
        if any(find_spec(package) is None for package in _PACKAGES):
            raise _unavailable()

    def __call__(self, text: str) -> str:
        with self._lock:
            pieces = [self._piece(match) for match in _PARTS.finditer(text)]
        return _GAPS.sub(" ", "".join(pieces)).replace(" ,", ",").replace(" .", ".").strip()

    def _piece(self, match: re.Match[str]) -> str:
        part = match.group()
        if match.lastgroup == "en":
            return f" {self._english(part)} "
        if match.lastgroup == "zh":
            tools = self._loaded()
            return " ".join(tools.word(word) for word in tools.jieba.lcut(part)).replace(_NEUTRAL_MARK, "")
        if match.lastgroup == "number":
            return f" {self._number(part)} "
        return _POINTS.get(part, part if part == " " else "")

    def _number(self, digits: str) -> str:
        tools = self._loaded()
        try:
            spoken = tools.cn2an.an2cn(digits)
        except ValueError:  # longer than any number word
            spoken = "".join("零一二三四五六七八九"[int(digit)] for digit in digits if digit.isdigit())
        return tools.word(spoken)

    def _loaded(self) -> _Tools:
        """The packages, which take half a second to import: on first use."""
        if self._tools is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # jieba's own source warns when first compiled
                try:
                    misaki = cast(_Misaki, importlib.import_module("misaki.zh"))
                    jieba = cast(_Jieba, importlib.import_module("jieba"))
                    cn2an = cast(_Cn2an, importlib.import_module("cn2an"))
                except ImportError as error:
                    raise _unavailable() from error
            jieba.setLogLevel(logging.CRITICAL)
            self._tools = _Tools(misaki.ZHG2P.word2ipa, jieba, cn2an)
        return self._tools


def _unavailable() -> EngineError:
    version = ".".join(map(str, sys.version_info[:2]))
    return EngineError(
        f"Chinese speech needs the package misaki[zh] 0.9.4, which has no release for every Python "
        f"(this is {version}; 3.11 and 3.12 have it): pip install '.[local]' there"
    )
