"""The reply model over llama.cpp."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from realtime_venus.engines.base import EngineError, Language
from realtime_venus.engines.cascade.llm import (
    LlamaOptions,
    LlamaReplyModel,
)
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.engines.cascade.prompt import Brief, final_message, opening
from realtime_venus.engines.store import Store

from ...kit.cascade import DEADLINE_S, Gate

FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="venus models pull"):
        LlamaReplyModel(tmp_path / "absent.gguf")


@pytest.mark.parametrize("content", [b"", b"GG", b"not a model at all"])
def test_a_file_that_is_no_model_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineError, match="no GGUF model file"):
        LlamaReplyModel(path)


@pytest.mark.parametrize("rest", [b"", b"\x03\x00\x00\x00" + b"\xff" * 64])
def test_a_truncated_or_damaged_model_is_an_error_and_no_crash(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + rest)
    with pytest.raises(EngineError, match="venus models verify"):
        LlamaReplyModel(path, LlamaOptions(threads=1))


# -- closing while it is busy, with a stand-in for llama.cpp ----------------------------------------------------------


class Busy:
    """Takes a completion, holds still until the gate is opened, and then writes until it is told to stop."""

    def __init__(self, gate: Gate, freed: threading.Event) -> None:
        self._gate, self._freed = gate, freed
        self.given = 0

    def __del__(self) -> None:
        self._freed.set()

    def handle_metrics(self) -> str:
        return ""

    def handle_completions(
        self, request: Mapping[str, object], on_chunk: Callable[[Mapping[str, object]], bool]
    ) -> None:
        self._gate.hold()
        for _ in range(100):
            self.given += 1
            if on_chunk({"choices": [{"text": "word "}]}):
                return


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[LlamaReplyModel, Gate, threading.Event]:
    """A model, the gate that holds its calls, and whether the native part is freed."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    gate, freed = Gate(), threading.Event()

    def params() -> SimpleNamespace:
        return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())

    def server(_: object) -> Busy:
        return Busy(gate, freed)

    library = SimpleNamespace(CommonParams=params, Server=server)
    monkeypatch.setattr("realtime_venus.engines.cascade.llm._xllamacpp", library)
    return LlamaReplyModel(path), gate, freed


def test_closing_waits_no_longer_than_its_deadline_and_the_call_in_progress_frees_the_model(
    busy: tuple[LlamaReplyModel, Gate, threading.Event], caplog: pytest.LogCaptureFixture
) -> None:
    model, gate, freed = busy
    pieces: list[str] = []
    call = threading.Thread(target=ask, args=(model, "Tell me a story."), kwargs={"pieces": pieces})
    call.start()
    gate.reached()
    with caplog.at_level(logging.WARNING):
        model.close(0.0)
    assert "freed when its call has ended" in caplog.text
    assert not freed.is_set()
    gate.open()
    call.join(DEADLINE_S)
    assert freed.wait(DEADLINE_S)
    assert pieces == []
    with pytest.raises(EngineError, match="closed"):
        ask(model, "And then?")
    model.close()


def test_a_prefill_that_nobody_wants_is_no_error_when_the_model_is_closed(
    busy: tuple[LlamaReplyModel, Gate, threading.Event],
) -> None:
    model, _, freed = busy
    model.close()
    assert freed.is_set()
    model.prefill(0, [Message("user", "Hello")], lambda: True)
    with pytest.raises(EngineError, match="closed"):
        model.prefill(0, [Message("user", "Hello")], lambda: False)


# -- with the real model ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(models: Store) -> Iterator[LlamaReplyModel]:
    loaded = LlamaReplyModel(models.path(FILE), LlamaOptions(slots=2, context_tokens=512, threads=1))
    yield loaded
    loaded.close()


def ask(
    model: LlamaReplyModel,
    text: str,
    *,
    slot: int = 0,
    max_tokens: int = 12,
    prefix: str = "",
    pieces: list[str] | None = None,
) -> list[str]:
    pieces = [] if pieces is None else pieces

    def on_text(piece: str) -> bool:
        pieces.append(piece)
        return False

    model.generate(slot, [Message("user", text)], on_text, max_tokens=max_tokens, prefix=prefix)
    return pieces


@pytest.mark.models
def test_it_answers_in_pieces(model: LlamaReplyModel) -> None:
    pieces = ask(model, "What is the capital of France? One word.")
    assert len(pieces) > 1 or "Paris" in pieces[0]
    assert "Paris" in "".join(pieces)


@pytest.mark.models
def test_a_prefix_is_continued_and_not_repeated(model: LlamaReplyModel) -> None:
    said = "".join(ask(model, "Count from one to five.", prefix="One, two, three,"))
    assert "four" in said.lower()
    assert "one" not in said.lower()


@pytest.mark.models
def test_the_callback_ends_it(model: LlamaReplyModel) -> None:
    pieces: list[str] = []

    def on_text(piece: str) -> bool:
        pieces.append(piece)
        return len(pieces) == 2

    model.generate(1, [Message("user", "Tell me a story.")], on_text, max_tokens=200)
    assert len(pieces) == 2


@pytest.mark.models
def test_a_prefill_changes_no_answer(model: LlamaReplyModel) -> None:
    fresh = ask(model, "Which animal says meow?", slot=0)
    model.prefill(1, [Message("user", "Which animal")], lambda: False)
    assert ask(model, "Which animal says meow?", slot=1) == fresh
    model.prefill(1, [Message("user", "Which")], lambda: True)


@pytest.mark.models
def test_letters_made_of_several_tokens_come_whole(model: LlamaReplyModel) -> None:
    pieces = ask(model, "Repeat exactly: 🎉🧑‍🚀", max_tokens=24)
    assert "�" not in "".join(pieces)
    assert "🎉" in "".join(pieces)


@pytest.mark.models
def test_a_prompt_longer_than_the_context_is_an_error(model: LlamaReplyModel) -> None:
    with pytest.raises(EngineError, match="context"):
        ask(model, "word " * 800)
    assert ask(model, "Say hi.")


@pytest.mark.models
def test_unknown_slots_and_a_closed_model_are_refused(models: Store) -> None:
    short = LlamaReplyModel(models.path(FILE), LlamaOptions(context_tokens=128, threads=1))
    with pytest.raises(ValueError, match="slot 1 of 1"):
        ask(short, "hi", slot=1)
    short.close()
    short.close()
    with pytest.raises(EngineError, match="closed"):
        ask(short, "hi")


@pytest.mark.models
def test_a_model_may_be_closed_at_once(models: Store) -> None:
    for _ in range(3):
        LlamaReplyModel(models.path(FILE), LlamaOptions(context_tokens=128, threads=1)).close()


@pytest.mark.models
def test_nothing_listens_on_the_network(model: LlamaReplyModel) -> None:
    assert ask(model, "hi")
    own = psutil.Process()
    assert not [connection for connection in own.net_connections("inet") if connection.status == psutil.CONN_LISTEN]
    for socket in own.net_connections("unix"):
        assert not (socket.laddr and "llama" in str(socket.laddr) and Path(str(socket.laddr)).exists())


@pytest.mark.models
@pytest.mark.parametrize(
    ("language", "question", "keyword", "facts"),
    [
        (Language.EN, "Which planet is closest to the sun?", "Mercury", ()),
        (Language.EN, "When does the office close?", "six", ("The office closes at six in the evening.",)),
        (Language.ZH, "法国的首都是哪里？", "巴黎", ()),
        (Language.ZH, "前台在几楼？", "三", ("前台在三楼。",)),
    ],
)
def test_it_answers_in_the_users_language_from_what_it_knows_and_is_given(
    model: LlamaReplyModel, language: Language, question: str, keyword: str, facts: tuple[str, ...]
) -> None:
    now = datetime.fromisoformat("2026-11-30T15:41:00+01:00")
    pieces: list[str] = []

    def on_text(piece: str) -> bool:
        pieces.append(piece)
        return False

    messages = [*opening(Brief(facts=facts), language, now), final_message(question, language, now)]
    model.generate(0, messages, on_text, max_tokens=30)
    assert keyword in "".join(pieces)
