"""What is said of what a language model wrote.

:func:`spoken` takes one clause as it was written (clauses are never cut inside a number, a link or a bold span, see
``clauses``) and gives what a person would say for it: no markup, no addresses, no emoji, no stage directions, no
control tokens, and numbers, dates, prices and units in words where the voice would not find them by itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from ..base import Language
from .spoken_en import read_english
from .spoken_zh import read_chinese


def spoken(text: str, language: Language) -> str:
    """The words to speak for ``text``; empty when there is nothing to say.

    English keeps the figures that the English voices read correctly; Chinese has no Arabic digit left.  Words of the
    other language stay as they are, set off by a space.
    """
    words = _WORDS[language]
    read = read_chinese if language is Language.ZH else read_english
    text = "".join(read(stretch) for stretch in _stretches(_without_markup(text, words)))
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r" +([,.;:!?，。！？；：、）])", r"\1", text)
    text = _LEADING.sub("", text).strip()
    return text if any(character.isalnum() for character in text) else ""


def _stretches(text: str) -> list[str]:
    """``text`` in stretches of a few hundred characters: the rules look far ahead, so their cost must stay bounded."""
    most = f".{{1,{_STRETCH}}}"
    return re.findall(rf"{most}(?:[。！？；，]|[.!?;,]\s|\Z)|{most}\s|{most}", text, re.DOTALL)


_STRETCH: Final = 300
_LEADING: Final = re.compile(
    r"^[\s,.;:!?，。！？；：、)）\]】”’」』…*_~|\-–—]+(?![\d.])|^[\s,;:!?，。！？；：、)）\]】”’」』…*_~|]+"
)


class _Words:
    """How things that are not read out are called."""

    def __init__(self, link: str, mail: str, code: str, stop: str, dot: str, comma: str) -> None:
        self.link = link
        self.mail = mail
        self.code = code
        self.stop = stop
        self.dot = dot
        self.comma = comma


_WORDS: Final = {
    Language.EN: _Words("a link", "an e-mail address", "a piece of code", ". ", " dot ", ", "),
    Language.ZH: _Words("链接", "邮箱地址", "一段代码", "。", " 点 ", "，"),
}

_PRIVATE: Final = re.compile(r"<(delegate|backend|think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL)
_CHAT_TOKEN: Final = re.compile(r"<\|[^|<>\n]{0,40}\|>|\[/?INST\]|<<?/?SYS>?>")
_BREAK_TAG: Final = re.compile(r"<(?:br|/p|/li|/div)\s*/?>", re.IGNORECASE)
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]{0,80}>")
_FENCE: Final = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_IMAGE_OR_LINK: Final = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+\"[^\"]*\")?\)")
_REFERENCE: Final = re.compile(r"\[\^?\d{1,3}\](?!\()|【\d{1,3}[^】]*】")
_MAIL: Final = re.compile(
    r"<?(?<![A-Za-z0-9._%+-])(?:mailto:)?[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}>?"
)
_URL: Final = re.compile(
    r"<?(?:[a-z][a-z0-9+.-]{0,15}://|(?<![A-Za-z0-9])www\.)[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*[A-Za-z0-9/=&#_\-]>?",
    re.IGNORECASE,
)
_DOMAIN: Final = re.compile(
    r"(?<![A-Za-z0-9@._-])((?:[A-Za-z0-9-]+\.)+(?:com|org|net|edu|gov|io|ai|dev|app|cn|uk|de|eu|info))(/[A-Za-z0-9\-._~/?=&%#]*)?"
    r"(?![A-Za-z0-9-])"
)
_EMOJI_PARTS: Final = frozenset("\ufe0e\ufe0f\u200d\u20e3")
_KEPT_SYMBOLS: Final = frozenset("°℃℉№")
_FORMAT_CHARACTERS: Final = frozenset({"Cf", "Cc", "Cs", "Co"})

_RULE: Final = re.compile(
    r"^[ \t]*(?:(?:[-*_=][ \t]*){3,}|\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*)$", re.MULTILINE
)
_LINE_MARK: Final = re.compile(
    r"^[ \t]*(?:#{1,6}\s+|>\s?|[-*+•·‣▪]\s+(?:\[[ xX]\]\s+)?|\d{1,2}[.)、]\s+)+", re.MULTILINE
)
_TABLE_ROW: Final = re.compile(r"^[ \t]*\|(.+?)\|?[ \t]*$", re.MULTILINE)

_DIRECTION_WORD: Final = (
    r"laugh|chuckl|giggl|sigh|paus|smil|grin|cough|clear|whisper|gasp|nod|shrug|wink|breath|inhal|exhal|sniff|yawn|sing|hum"
    r"|cheer|clap|applau|music|silence|beat|soft|gentl|excit|thought|warm|playful|sad"
)
_DIRECTION_ZH: Final = (
    r"(?:轻声|微微|轻轻|哈哈|大|苦|偷)?"
    r"(?:笑|微笑|叹气|叹息|停顿|沉默|咳嗽|清嗓子|低声|小声|点头|摇头|耸肩|眨眼|鼓掌|掌声|音乐|深呼吸|思考|温柔|开心|激动)"
)
_DIRECTION: Final = re.compile(
    rf"\(\s*(?:{_DIRECTION_WORD})\w*(?:\s+\w+){{0,4}}\s*\)|\*\s*(?:{_DIRECTION_WORD})\w*(?:\s+\w+){{0,5}}\s*\*"
    rf"|[（(*]\s*{_DIRECTION_ZH}[^（）()*。]{{0,6}}[）)*]",
    re.IGNORECASE,
)
_SQUARE: Final = re.compile(r"\[[^\[\]\n]{0,60}\]|【[^【】\n]{0,30}】")


def _without_markup(text: str, words: _Words) -> str:
    text = re.sub(r"[^\S\n]+", " ", text)
    text = _PRIVATE.sub(" ", text)
    text = _CHAT_TOKEN.sub(" ", text)
    text = _FENCE.sub(f" {words.code} ", text)
    text = _IMAGE_OR_LINK.sub(lambda m: " " + m.group(1) + " " if m.group(1).strip() else words.link, text)
    text = _REFERENCE.sub("", text)
    text = _MAIL.sub(f" {words.mail} ", text)
    text = _URL.sub(f" {words.link} ", text)
    text = _DOMAIN.sub(lambda m: words.link if m.group(2) else m.group(1).replace(".", words.dot), text)
    text = _BREAK_TAG.sub("\n", text)
    text = _TAG.sub("", text)
    text = _DIRECTION.sub(" ", text)
    text = _RULE.sub("", text)
    text = _TABLE_ROW.sub(
        lambda m: words.comma.join(cell.strip() for cell in m.group(1).split("|") if cell.strip()), text
    )
    text = _LINE_MARK.sub("", text)
    text = _SQUARE.sub(" ", text)
    text = _emphasis(text)
    text = "".join(" " if _is_pictorial(character) else character for character in text)
    return _joined_lines(text, words.stop)


def _emphasis(text: str) -> str:
    text = text.replace("`", "")
    text = re.sub(r"\\([*_#\[\]()~`>+\-.!|])", r"\1", text)
    text = re.sub(r"\*\*\*?|__+|~~", "", text)
    text = re.sub(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])", r"\1", text)
    text = re.sub(r"(?<=[\u4e00-\u9fff])\*([^*\n]+?)\*", r"\1", text)
    text = re.sub(r"(?<!\w)_(?=\S)([^_\n]+?)(?<=\S)_(?!\w)", r"\1", text)
    return re.sub(r"(?<=[A-Za-z])_(?=[A-Za-z])", " ", text)


def _is_pictorial(character: str) -> bool:
    if character in _EMOJI_PARTS or character in "\u200b\ufeff":
        return True
    if character in _KEPT_SYMBOLS or character.isspace():
        return False
    category = unicodedata.category(character)
    return category in _FORMAT_CHARACTERS or category == "So" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _joined_lines(text: str, stop: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    out = ""
    for line in lines:
        if not line:
            continue
        if out and out[-1] not in ",.;:!?，。！？；：、":
            out += stop
        elif out:
            out += " "
        out += line
    return out
