"""Train the router's head: ``python benchmarks/train_router.py [--check]``.

Reads ``engines/cascade/data/router_train.jsonl``, writes ``router_head.npz`` beside it and prints the cross-validated
accuracy.  ``--check`` only says whether the stored head belongs to the training set.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import sklearn.linear_model
import sklearn.model_selection
from realtime_venus.engines.cascade.router import Embedder, Head, plain

DATA = Path(__file__).resolve().parents[1] / "engines" / "cascade" / "data"
FOLDS = 10
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0)
"""Inverse regularisation strengths tried."""

Floats = npt.NDArray[np.float64]


class _Model(Protocol):
    coef_: Floats
    intercept_: Floats

    def fit(self, x: npt.NDArray[np.float32], y: npt.NDArray[np.bool_]) -> _Model: ...


@dataclass(frozen=True, slots=True)
class Example:
    text: str
    language: str
    world: bool


def read(path: Path) -> list[Example]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Example(**cast(dict[str, str | bool], json.loads(line))) for line in lines]  # pyright: ignore[reportArgumentType] - the file is ours


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def model(strength: float) -> _Model:
    return cast(_Model, sklearn.linear_model.LogisticRegression(C=strength, max_iter=5000, class_weight="balanced"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    source = DATA / "router_train.jsonl"
    if options.check:
        fits = Head.shipped().trained_on == digest(source)
        print(
            "the head belongs to the training set" if fits else "the head is older than the training set: train again"
        )
        return 0 if fits else 1

    examples = read(source)
    embedder = Embedder()
    x = np.array([embedder.question(plain(example.text)) for example in examples], dtype=np.float32)
    y = np.array([example.world for example in examples])
    english = np.array([example.language == "en" for example in examples])
    print(f"{len(examples)} lines, {int(y.sum())} of them need the world, {int(english.sum())} English")

    best = (0.0, STRENGTHS[0])
    folds = sklearn.model_selection.StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for strength in STRENGTHS:
        score = cast(
            Floats,
            sklearn.model_selection.cross_val_predict(model(strength), x, y, cv=folds, method="predict_proba"),
        )[:, 1]
        right = (score >= 0.5) == y
        missed, refused = float((~right)[y].mean()), float((~right)[~y].mean())
        print(f"C={strength:g}: right {right.mean():.3f}, missed {missed:.3f}, refused {refused:.3f}")
        if float(right.mean()) > best[0]:
            best = (float(right.mean()), strength)
            wrong = [(examples[i].text, float(score[i])) for i in np.flatnonzero(~right)]
    for text, p in wrong:
        print(f"  {p:.2f} {text}")

    fitted = model(best[1]).fit(x, y)
    np.savez(
        DATA / "router_head.npz",
        weights=fitted.coef_[0].astype(np.float32),
        bias=np.float32(fitted.intercept_[0]),
        trained_on=digest(source),
    )
    print(f"wrote router_head.npz (C={best[1]:g})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
