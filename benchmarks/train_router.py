"""Train the router's head: ``python benchmarks/train_router.py [--check]``.

Reads ``engines/cascade/data/router_train.jsonl``, writes ``router_head.npz`` beside it and prints the cross-validated
accuracy.  ``--check`` only says whether the stored head belongs to the training set.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import sklearn.linear_model
import sklearn.model_selection
import sklearn.svm
from realtime_venus.engines.cascade.router import Embedder, Head, features, plain

DATA = Path(__file__).resolve().parents[1] / "engines" / "cascade" / "data"
FOLDS = 10
GRID = tuple((width, cost) for width in (1.0, 2.0, 3.0) for cost in (1.0, 3.0, 10.0))
"""Kernel widths and costs tried."""

Floats = npt.NDArray[np.float32]
Truths = npt.NDArray[np.bool_]


class _Machine(Protocol):
    support_: npt.NDArray[np.int32]
    dual_coef_: npt.NDArray[np.float64]
    intercept_: npt.NDArray[np.float64]

    def fit(self, x: Floats, y: Truths) -> _Machine: ...
    def decision_function(self, x: Floats) -> npt.NDArray[np.float64]: ...


class _Line(Protocol):
    coef_: npt.NDArray[np.float64]
    intercept_: npt.NDArray[np.float64]

    def fit(self, x: npt.NDArray[np.float64], y: Truths) -> _Line: ...


class _Folds(Protocol):
    def split(self, x: Floats, y: Truths) -> Iterable[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]: ...


_support_vectors = cast(Callable[..., object], sklearn.svm.SVC)  # its stub takes no number for gamma


@dataclass(frozen=True, slots=True)
class Example:
    text: str
    language: str
    world: bool


def read(path: Path) -> list[Example]:
    rows = [cast(dict[str, str], json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Example(row["text"], row["language"], bool(row["world"])) for row in rows]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def machine(width: float, cost: float) -> _Machine:
    return cast(_Machine, _support_vectors(C=cost, kernel="rbf", gamma=width / 2, class_weight="balanced"))


def cross_validated(x: Floats, y: Truths, width: float, cost: float) -> npt.NDArray[np.float64]:
    """The margin of every line under a machine that has not seen it."""
    folds = cast(_Folds, sklearn.model_selection.StratifiedKFold(FOLDS, shuffle=True, random_state=0))
    margins = np.zeros(len(y))
    for seen, unseen in folds.split(x, y):
        margins[unseen] = machine(width, cost).fit(x[seen], y[seen]).decision_function(x[unseen])
    return margins


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    source = DATA / "router_train.jsonl"
    if options.check:
        fits = Head.shipped().trained_on == digest(source)
        print("the head belongs to the training set" if fits else "the head is older than the set: train again")
        return 0 if fits else 1

    examples = read(source)
    embedder = Embedder()
    words = [plain(example.text) for example in examples]
    embeddings = np.array([embedder.question(text) for text in words], dtype=np.float32)
    mean = embeddings.mean(axis=0)
    x = np.array([features(*pair, mean) for pair in zip(words, embeddings, strict=True)], dtype=np.float32)
    y = np.array([example.world for example in examples])
    print(f"{len(examples)} lines, {int(y.sum())} of them need the world")

    tried: list[tuple[float, float, float]] = []
    for width, cost in GRID:
        right = (cross_validated(x, y, width, cost) > 0) == y
        print(
            f"width {width:g}, cost {cost:g}: right {right.mean():.3f}, "
            f"missed {(~right)[y].mean():.3f}, refused {(~right)[~y].mean():.3f}"
        )
        tried.append((float(right.mean()), width, cost))
    _, width, cost = max(tried)
    margins = cross_validated(x, y, width, cost)
    for i in np.flatnonzero((margins > 0) != y):
        print(f"  {margins[i]:+.2f} {examples[i].text}")

    scale = cast(_Line, sklearn.linear_model.LogisticRegression(C=100.0)).fit(margins[:, None], y)
    fitted = machine(width, cost).fit(x, y)
    np.savez_compressed(
        DATA / "router_head.npz",
        mean=mean,
        support=x[fitted.support_].astype(np.float16),
        weights=fitted.dual_coef_[0].astype(np.float32),
        width=width,
        bias=fitted.intercept_[0],
        slope=scale.coef_[0, 0],
        offset=scale.intercept_[0],
        trained_on=digest(source),
    )
    print(f"wrote router_head.npz: width {width:g}, cost {cost:g}, {len(fitted.support_)} support vectors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
