from __future__ import annotations

from pathlib import Path

import pytest
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.store import ModelsSettings, Store
from realtime_venus.plugin.livekit.components import parts
from realtime_venus.plugin.livekit.components.reply_model import SlotChoice, load_model

RULES = "You are a friendly assistant and answer in one short sentence. "


def test_a_prompt_goes_to_the_slot_whose_prompt_it_continues() -> None:
    choice = SlotChoice(2)
    first = choice.choose(RULES + "Ann: hello, how are you today?")
    second = choice.choose(RULES + "Bob: what is the time in Rome now?")
    assert {first, second} == {0, 1}
    assert choice.choose(RULES + "Ann: hello, how are you today? Fine. And") == first
    assert choice.choose(RULES + "Bob: what is the time in Rome now? Noon.") == second


def test_a_new_talk_takes_the_slot_unused_for_longest() -> None:
    choice = SlotChoice(2)
    first = choice.choose(RULES + "Ann: hello, how are you today?")
    second = choice.choose(RULES + "Bob: what is the time in Rome now?")
    choice.choose(RULES + "Ann: hello, how are you today? Fine. And")
    assert choice.choose(RULES + "Eve: I would like to talk about something else entirely, please") == second
    assert first != second


def test_a_model_that_was_not_pulled_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="venus models pull"):
        load_model(CascadeSettings(), Store(ModelsSettings(cache_dir=tmp_path)))


@pytest.mark.models
def test_the_model_tells_what_it_used_and_stops_when_told() -> None:
    model = parts.shared().model()
    asked = [Message("system", "Answer in one word."), Message("user", "Which city is the capital of France?")]
    pieces: list[str] = []
    used = model.answer(asked, lambda piece: bool(pieces.append(piece)), max_tokens=12, cancelled=lambda: False)
    assert "Paris" in "".join(pieces)
    assert used is not None
    assert used.prompt > 15
    assert 1 <= used.completion <= 12
    again = model.answer(asked, lambda _: False, max_tokens=12, cancelled=lambda: False)
    assert again is not None
    assert again.cached > 10
    assert model.answer(asked, lambda _: True, max_tokens=12, cancelled=lambda: False) is None
    assert model.answer(asked, lambda _: False, max_tokens=12, cancelled=lambda: True) is None
    with pytest.raises(parts.PromptTooLong, match="2048"):
        model.answer([Message("user", "word " * 4000)], lambda _: False, max_tokens=4, cancelled=lambda: False)
