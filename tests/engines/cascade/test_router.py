"""What the router lets the model answer, and what it does not; the 80 questions of tests/kits/knowledge."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.facts import clock_answer
from realtime_venus.engines.cascade.router import COVERED, Embedder, FactRouter, Head, plain, substance

ROOT = Path(__file__).resolve().parents[3]
TRAINING = ROOT / "engines" / "cascade" / "data" / "router_train.jsonl"
SETS = ROOT / "tests" / "kits" / "knowledge"
THRESHOLD = 0.5
NOON = datetime.fromisoformat("2026-11-30T12:00:00+01:00")


def rows(path: Path) -> list[dict[str, Any]]:
    return [cast(dict[str, Any], json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder()


@pytest.fixture(scope="module")
def head() -> Head:
    return Head.shipped()


def test_the_head_belongs_to_the_training_set(head: Head) -> None:
    assert head.trained_on == hashlib.sha256(TRAINING.read_bytes()).hexdigest()


def test_no_question_of_the_sets_is_in_the_training_set() -> None:
    asked = {plain(row["question"]) for name in ("answerable", "unanswerable") for row in rows(SETS / f"{name}.jsonl")}
    for path in (ROOT / "tests" / "kits" / "duplex" / "samples").glob("*.json"):
        sample = cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        asked |= {plain(event["text"]) for event in sample["events"] if event.get("text")}
    trained = {plain(row["text"]) for row in rows(TRAINING)}
    assert len(trained) >= 400
    assert not asked & trained


def test_the_sets_are_half_chinese() -> None:
    for name in ("answerable", "unanswerable"):
        languages = [row["language"] for row in rows(SETS / f"{name}.jsonl")]
        assert languages.count("zh") == languages.count("en") == 20


def test_the_eighty_questions(embedder: Embedder, head: Head) -> None:
    missed = [
        row["question"]
        for row in rows(SETS / "unanswerable.jsonl")
        if FactRouter(embedder, head).needs_world(row["question"]) < THRESHOLD
    ]
    refused = [
        row["question"]
        for row in rows(SETS / "answerable.jsonl")
        if clock_answer(row["question"], Language(row["language"]), NOON) is None
        and FactRouter(embedder, head, row["facts"]).needs_world(row["question"]) >= THRESHOLD
    ]
    assert len(missed) <= 2, missed
    assert len(refused) <= 4, refused


@pytest.mark.parametrize("text", ["Is it raining outside right now?", "今天猪肉多少钱一斤？", "Who wrote Hamlet?"])
def test_marks_and_case_change_nothing(embedder: Embedder, head: Head, text: str) -> None:
    router = FactRouter(embedder, head)
    bare = text.lower().replace("?", "").replace("？", "")
    assert router.needs_world(text) == pytest.approx(router.needs_world(bare))


def test_a_given_fact_makes_its_question_answerable(embedder: Embedder, head: Head) -> None:
    router = FactRouter(embedder, head)
    question = "How much is the blue backpack?"
    assert router.needs_world(question) >= THRESHOLD
    router.set_facts(["The blue backpack costs 49 dollars."])
    assert router.covered(question) >= COVERED
    assert router.needs_world(question) < THRESHOLD
    assert router.needs_world("How much is the train to Boston?") >= THRESHOLD


def test_without_words_nothing_is_needed(embedder: Embedder, head: Head) -> None:
    assert FactRouter(embedder, head).needs_world(" ?! ") == 0.0


def test_the_cache_gives_the_same_and_stays_small(embedder: Embedder) -> None:
    first = embedder.question("once")
    for n in range(300):
        embedder.question(f"filler {n % 3}")
    assert embedder.question("once") is first


def test_words_of_substance() -> None:
    assert substance("what is the price of the shoes") == {"price", "shoe"}
    assert substance("前台在几楼") == {"前", "台", "楼"}


@pytest.mark.parametrize(
    "text",
    [
        "Good morning. How are you doing today?",
        "Which languages are spoken in Austria? Wait, I meant Australia.",
    ],
)
def test_a_greeting_or_a_correction_makes_no_question_of_the_world(text: str) -> None:
    assert FactRouter(Embedder(), Head.shipped()).needs_world(text) < 0.5


def test_a_question_of_the_world_after_a_greeting_is_still_one() -> None:
    assert FactRouter(Embedder(), Head.shipped()).needs_world("Hi there. What's the weather like tomorrow?") >= 0.5
