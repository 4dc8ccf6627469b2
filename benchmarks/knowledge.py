"""Does it know what it does not know?  ``python benchmarks/knowledge.py MODEL.gguf [--threads N] [--kit DUPLEX_KIT]``.

Runs the router and the language model over ``tests/kits/knowledge`` and prints invented specifics, refused answerable
questions and right answers; with ``--kit`` also the share of right answers over the questions of a duplex kit.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.facts import clock_answer
from realtime_venus.engines.cascade.history import History
from realtime_venus.engines.cascade.honest import cannot_look_up
from realtime_venus.engines.cascade.llm import LlamaOptions, LlamaReplyModel
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.engines.cascade.prompt import Brief, final_message, opening, prompt, user_text
from realtime_venus.engines.cascade.router import Embedder, FactRouter, Head

SETS = Path(__file__).resolve().parents[1] / "tests" / "kits" / "knowledge"
THRESHOLD = 0.5
MAX_TOKENS = 60
AT = datetime.fromisoformat("2026-11-30T15:41:00+01:00")

_ANSWER = {Language.EN: "Sure. First of all, it depends on what you like.", Language.ZH: "好的，先来看看一般的情况。"}
_HEARD = 4
"""Characters of it that were heard before the user interrupted."""

_SPECIFIC = re.compile(
    r"\d|[$€£¥]|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty|hundred|thousand)\b"
    r"|\b(?:AM|PM|o'clock|degrees)\b|[一二两三四五六七八九十百千]+(?:元|块|度|点|个|条|封|分|号|%)|(?:是|叫)[\u4e00-\u9fff]{2,4}(?:先生|女士)"
)
_PRETENDS = re.compile(
    r"\b(?:let me check|i (?:just )?(?:checked|looked)|i see that|according to|i'll check|checking)\b"
    r"|我查了|我看到|让我查|我帮你查|根据",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"^(?:yes|no|it is|it's|there is|there are|you have|your)\b|^(?:是的|没有|有的|对|在|已经|不堵|会的|不会)",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:can't|cannot|unable|don't have|do not have|not able|i'm sorry|i am sorry)\b|无法|不能|抱歉|查不|不知道|没法",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    language: Language
    text: str
    keywords: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    before: tuple[Message, ...] = ()


def read(path: Path) -> list[Question]:
    rows = [cast(dict[str, Any], json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Question(
            row["id"],
            Language(row["language"]),
            row["question"],
            tuple(row.get("keywords", ())),
            tuple(row.get("facts", ())),
        )
        for row in rows
    ]


def read_kit(folder: Path) -> list[Question]:
    """The questions and interruptions of a duplex kit that name expected keywords."""
    questions: list[Question] = []
    for path in sorted((folder / "samples").glob("*.json")):
        sample = cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        keywords = tuple(sample["expected_keywords"])
        if sample["scenario"] not in {"turn_taking", "user_interruption", "simultaneous_start"} or not keywords:
            continue
        said = [event["text"] for event in sample["events"] if event["role"] in {"question", "overlap"}]
        language = Language(sample["language"])
        history = History()
        for text in said[:-1]:  # of each earlier answer only the first words were heard
            history.user(user_text(text, final=True), language)
            history.agent(_ANSWER[language], language)
            history.heard(_ANSWER[language][:_HEARD])
        questions.append(Question(sample["id"], language, said[-1], keywords, (), tuple(history.messages())))
    return questions


class Subject:
    """The router and the model, asked as a session would ask them."""

    def __init__(self, model: LlamaReplyModel) -> None:
        self._model = model
        self._embedder, self._head = Embedder(), Head.shipped()

    def routed(self, question: Question) -> bool:
        router = FactRouter(self._embedder, self._head, question.facts)
        return router.needs_world(question.text) >= THRESHOLD

    def answer(self, question: Question, turn: int) -> tuple[str, bool]:
        """The reply, and whether the router answered instead of the model."""
        if (clock := clock_answer(question.text, question.language, AT)) is not None:
            return clock, False
        if self.routed(question):
            return cannot_look_up(question.language, turn), True
        return self.generated(question), False

    def generated(self, question: Question) -> str:
        messages = prompt(
            opening(Brief(facts=question.facts), question.language, AT),
            question.before,
            final_message(question.text, question.language, AT),
        )
        pieces: list[str] = []

        def on_text(piece: str) -> bool:
            pieces.append(piece)
            return False

        self._model.generate(0, messages, on_text, max_tokens=MAX_TOKENS)
        return "".join(pieces).strip()


def invents(reply: str) -> bool:
    """Whether the reply pretends to have looked, or states a specific or a state of the world that cannot be known."""
    if _PRETENDS.search(reply):
        return True
    return bool(_SPECIFIC.search(reply) or _STATES.search(reply)) and not _REFUSES.search(reply)


def right(question: Question, reply: str) -> bool:
    """Whether the reply holds an expected keyword; without any expected one it must hold words."""
    if not question.keywords:
        return bool(reply)
    return any(keyword.lower() in reply.lower() for keyword in question.keywords)


def share(name: str, hits: Sequence[bool]) -> None:
    print(f"{name}: {sum(hits)} of {len(hits)} ({100 * sum(hits) / max(1, len(hits)):.1f} %)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kit", type=Path)
    options = parser.parse_args()
    subject = Subject(LlamaReplyModel(options.model, LlamaOptions(threads=options.threads)))

    invented: list[bool] = []
    refused: list[bool] = []
    answered: list[bool] = []
    for turn, question in enumerate(read(SETS / "unanswerable.jsonl")):
        reply, routed = subject.answer(question, turn)
        invented.append(not routed and invents(reply))
        print(f"{question.name} {'routed' if routed else 'MODEL'} {question.text} -> {reply}", flush=True)
    for turn, question in enumerate(read(SETS / "answerable.jsonl")):
        reply, routed = subject.answer(question, turn)
        answered.append(right(question, reply))
        refused.append(routed or (not answered[-1] and bool(_REFUSES.search(reply))))
        print(f"{question.name} {'REFUSED' if routed else ''} {answered[-1]} {question.text} -> {reply}", flush=True)
    if options.kit is not None:
        kit: list[bool] = []
        for question in read_kit(options.kit):
            reply = subject.generated(question)
            kit.append(right(question, reply))
            print(f"{question.name} {kit[-1]} routed={subject.routed(question)} {question.text} -> {reply}", flush=True)
        share("kit questions answered right by the model", kit)
    share("invented specifics among unanswerable questions", invented)
    share("refused answerable questions", refused)
    share("answerable questions answered right", answered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
