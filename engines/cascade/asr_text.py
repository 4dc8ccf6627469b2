"""What may leave the recogniser as text: no markup, no looping, no words made out of noise.  Pure functions."""

from __future__ import annotations

import re
from typing import Final

from ..base import Language

_MARKUP: Final = re.compile(r"<[^<>]*>|[<>]|\[[^\]]*(?:\]|$)|\([^)]*(?:\)|$)|（[^）]*(?:）|$)|[♪♫].*|[\])）*{}|_~^\\�]")
_SPACE: Final = re.compile(r"\s+")
_SPOKEN: Final = re.compile(r"\w")
_UNIT: Final = re.compile(r"[\u3400-\u9fff]|[^\W_]+(?:['’][^\W_]+)*")
"""A Chinese character, or a word (with its apostrophes)."""
_CJK_PUNCTUATION: Final = str.maketrans({",": "，", "?": "？", "!": "！", ";": "；", ":": "："})
_BESIDE_CJK: Final = re.compile(r"(?<=[\u3400-\u9fff])\s*[,?!;:]|[,?!;:](?=[\u3400-\u9fff])")
_CJK_STOP: Final = re.compile(r"(?<=[\u3400-\u9fff])\.(?!\w)")
_CJK_GAP: Final = re.compile(r"(?<=[\u3400-\u9fff，。？！；：])\s+(?=[\u3400-\u9fff，。？！；：])")

_FILLER: Final = re.compile(r"h?m+|mhm+|u[hm]+|ah+|oh+|huh|yeah|[嗯啊哦噢喔唔呃对對是]")
"""Short sounds of a listener; the model is unsure of them by nature."""

_INVENTED: Final = frozenset(
    (
        "you",
        "thank you",
        "thank you very much",
        "thank you for watching",
        "thanks for watching",
        "thanks",
        "bye",
        "bye bye",
        "the",
        "so",
        "i",
        "谢谢",
        "谢谢大家",
        "谢谢观看",
        "谢谢收看",
        "请不吝点赞",
    )
)
"""What Whisper says when there is nothing to hear."""
_CREDITS: Final = re.compile(
    r"amara\.?org|字幕(?:由|by|制作|志愿者|提供)|明镜|点点栏目|请不吝点赞|subscribe to my channel", re.IGNORECASE
)

# Measured on the duplex kit and on synthetic noise: noise has a no-speech probability of 0.71 to 0.92 with a mean log
# probability of -1.04 to -4.4; spoken hums up to 0.57 at -1.9, and down to -4.1 at 0.47; words at most 0.13.
_NOBODY: Final = ((0.6, -1.0), (0.2, -1.2))
"""Above such a no-speech probability and below such a score, nobody spoke."""
_NO_SPEECH_FILLER: Final = 0.68
_HOPELESS: Final = -3.0
_NO_SPEECH_INVENTED: Final = 0.4
_UNSURE_INVENTED: Final = -1.2


def units(text: str) -> list[str]:
    """The text as lower-case words and single Chinese characters, without punctuation."""
    return _UNIT.findall(text.lower())


def clean(text: str) -> str:
    """The spoken words alone: markup, control tokens, annotations and broken characters removed."""
    text = _SPACE.sub(" ", _MARKUP.sub(" ", text)).strip()
    return text if _SPOKEN.search(text) else ""


def chinese_punctuation(text: str) -> str:
    """Full-width punctuation beside Chinese characters, and no spaces between these."""
    text = _BESIDE_CJK.sub(lambda match: match.group().strip().translate(_CJK_PUNCTUATION), text)
    return _CJK_GAP.sub("", _CJK_STOP.sub("。", text))


def hurried(text: str, seconds: float, language: Language) -> bool:
    """Whether the text has more words or characters than anybody says in that time."""
    return len(units(text)) / max(seconds, 0.5) > (5 if language is Language.EN else 8)


def without_restart(text: str) -> str:
    """The text up to where it starts again from its beginning; the text itself when it does not."""
    found = list(_UNIT.finditer(text))
    words = [match.group().lower() for match in found]
    for period in range(3, len(words) - 1):
        if all(words[index] == words[index - period] for index in range(period, len(words))):
            return text[: found[period].start()].rstrip()
    return text


def without_loop(text: str) -> str:
    """The text with what its end says four times over or more said once; the text itself when it does not."""
    found = list(_UNIT.finditer(text))
    words = [match.group().lower() for match in found]
    for size in range(1, len(words) // 4 + 1):
        start = len(words) - size
        while start >= size and words[start - size : start] == words[-size:]:
            start -= size
        if len(words) - start >= 4 * size:
            return text[: found[start + size - 1].end()]
    return text


def is_speech(text: str, score: float, no_speech: float) -> bool:
    """Whether the text was heard rather than made up.

    ``score`` is the mean log probability of its tokens, ``no_speech`` the model's probability that nobody spoke.
    """
    words = units(text)
    if not words:
        return False
    if all(_FILLER.fullmatch(word) for word in words):
        return no_speech < _NO_SPEECH_FILLER
    if score < _HOPELESS or any(no_speech > silent and score < unsure for silent, unsure in _NOBODY):
        return False
    if _CREDITS.search(text):
        return False
    joined = " ".join(words) if words[0].isascii() else "".join(words)
    return not (joined in _INVENTED and (no_speech > _NO_SPEECH_INVENTED or score < _UNSURE_INVENTED))
