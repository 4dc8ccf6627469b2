from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from livekit import rtc
from livekit.agents import APIError, function_tool, llm, metrics
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.plugin.livekit.components import LLM
from realtime_venus.plugin.livekit.components.parts import PromptTooLong, Usage, shared

from ....kit.cascade import Gate
from .fakes import Writes, parts_of, told


def context(*said: str, system: str | None = "Be kind.") -> llm.ChatContext:
    made = llm.ChatContext.empty()
    if system is not None:
        made.add_message(role="system", content=system)
    for index, text in enumerate(said):
        made.add_message(role="assistant" if index % 2 else "user", content=text)
    return made


def text_of(chunks: list[llm.ChatChunk]) -> str:
    return "".join(chunk.delta.content or "" for chunk in chunks if chunk.delta)


@function_tool
async def look_up(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def test_a_reply_comes_piece_by_piece_with_honest_numbers() -> None:
    component = LLM(parts=parts_of(model=Writes("Hel", "lo", ".")))
    metrics_told = told(component, "metrics_collected", metrics.LLMMetrics)
    async with component.chat(chat_ctx=context("Hi.")) as stream:
        chunks = [chunk async for chunk in stream]
    assert [chunk.delta.content for chunk in chunks if chunk.delta] == ["Hel", "lo", "."]
    assert len({chunk.id for chunk in chunks}) == 1
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.prompt_cached_tokens, usage.completion_tokens) == (20, 15, 3)
    assert usage.total_tokens == 23
    assert (metrics_told[0].prompt_tokens, metrics_told[0].completion_tokens, metrics_told[0].cancelled) == (
        20,
        3,
        False,
    )
    await component.aclose()


async def test_the_model_gets_the_context_and_nothing_else() -> None:
    model = Writes("Hi.")
    component = LLM(parts=parts_of(model=model))
    await component.chat(chat_ctx=context("Hello.", "Hi.", "Who are you?")).collect()
    assert [(message.role, message.content) for message in model.asked[0]] == [
        ("system", "Be kind."),
        ("user", "Hello."),
        ("assistant", "Hi."),
        ("user", "Who are you?"),
    ]
    await component.aclose()


async def test_without_instructions_it_gets_those_of_the_cascade_in_the_language_spoken() -> None:
    model = Writes("Hi.")
    component = LLM(parts=parts_of(model=model, settings=CascadeSettings(persona="你叫小星。")))
    await component.chat(chat_ctx=context("你是谁？", system=None)).collect()
    system, *_, last = model.asked[0]
    assert system.role == "system"
    assert "语音助手" in system.content
    assert "你叫小星。" in system.content
    assert last.content == "你是谁？"
    await component.aclose()


async def test_a_reply_is_as_long_as_the_settings_or_the_option_say() -> None:
    model = Writes("Hi.")
    parts = parts_of(model=model, settings=CascadeSettings(max_tokens=90))
    for component in (LLM(parts=parts), LLM(max_tokens=7, parts=parts)):
        await component.chat(chat_ctx=context("Hi.")).collect()
        await component.aclose()
    assert model.most == [90, 7]
    with pytest.raises(ValueError, match="max_tokens"):
        LLM(max_tokens=0)


async def test_tools_are_left_aside_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    component = LLM(parts=parts_of())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tools: list[llm.Tool] = [look_up]
            answer = await component.chat(chat_ctx=context("Weather?"), tools=tools, tool_choice="required").collect()
            assert answer.text == "Hello."
            assert answer.tool_calls == []
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "cannot call any" in warnings[0].message
    await component.aclose()


async def test_pictures_and_extra_arguments_are_warned_about_once_each(caplog: pytest.LogCaptureFixture) -> None:
    component = LLM(parts=parts_of())
    seen = context("Look.")
    frame = rtc.VideoFrame(2, 2, rtc.VideoBufferType.RGB24, bytes(12))
    seen.add_message(role="user", content=[llm.ImageContent(image=frame)])
    extra: dict[str, Any] = {"top_p": 0.5}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await component.chat(chat_ctx=seen, extra_kwargs=extra).collect()
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2
    await component.aclose()


async def test_a_stream_that_is_closed_stops_the_model_at_its_next_piece() -> None:
    gate = Gate()
    model = Writes("One", "two", "three", "four", gate=gate, gate_at=1)
    component = LLM(parts=parts_of(model=model))
    stream = component.chat(chat_ctx=context("Count."))
    first = await anext(aiter(stream))
    assert text_of([first]) == "One"
    await asyncio.to_thread(gate.reached)
    await stream.aclose()  # at once, although the model is in the middle of a token
    gate.open()
    await component.aclose()
    assert model.given == 2


async def test_what_fails_is_an_api_error_that_is_not_tried_again() -> None:
    model = Writes("Hel", error=EngineError("the language model failed: no memory"))
    component = LLM(parts=parts_of(model=model))
    heard = told(component, "error", llm.LLMError)
    with pytest.raises(APIError, match="no memory") as raised:
        await component.chat(chat_ctx=context("Hi.")).collect()
    assert not raised.value.retryable
    assert len(model.asked) == 1
    assert [error.recoverable for error in heard] == [False]
    await component.aclose()


async def test_a_model_that_cannot_be_loaded_says_what_to_do() -> None:
    component = LLM(parts=parts_of(model=EngineError("model file x is not there; run: venus models pull")))
    with pytest.raises(APIError, match="venus models pull"):
        await component.chat(chat_ctx=context("Hi.")).collect()
    await component.aclose()


async def test_a_talk_longer_than_the_context_keeps_its_instructions_and_its_end() -> None:
    model = Writes("Hi.", context_tokens=512)
    component = LLM(parts=parts_of(model=model))
    said = [f"This is sentence number {number} of a very long talk about nothing." for number in range(99)]
    await component.chat(chat_ctx=context(*said)).collect()
    system, *rest = model.asked[0]
    assert system.content == "Be kind."
    assert rest[-1].content == said[-1]
    assert len(rest) < 20
    await component.aclose()


async def test_a_context_that_was_estimated_too_short_is_cut_once_more() -> None:
    class Strict(Writes):
        def answer(self, messages: Sequence[Message], *args: Any, **kwargs: Any) -> Usage | None:
            if len("".join(message.content for message in messages)) > 2000:
                self.refused.append(len(messages))
                raise PromptTooLong("request exceeds the available context size")
            return super().answer(messages, *args, **kwargs)

        refused: ClassVar[list[int]] = []

    model = Strict("Hi.")
    component = LLM(parts=parts_of(model=model))
    said = [f"This is sentence number {number} of a very long talk about nothing." for number in range(51)]
    assert (await component.chat(chat_ctx=context(*said)).collect()).text == "Hi."
    assert len(model.refused) == 1
    assert model.asked[0][-1].content == said[-1]
    await component.aclose()


async def test_a_component_that_is_closed_ends_what_is_under_way() -> None:
    gate = Gate()
    component = LLM(parts=parts_of(model=Writes("One", "two", "three", gate=gate, gate_at=1)))
    answering = asyncio.create_task(component.chat(chat_ctx=context("Count.")).collect())
    await asyncio.to_thread(gate.reached)
    closing = asyncio.create_task(component.aclose())
    asyncio.get_running_loop().call_soon(gate.open)  # after the closing has begun
    await closing
    assert (await answering).text == "One"


@pytest.mark.models
async def test_the_real_model_answers() -> None:
    component = LLM()
    assert component.provider == "realtime-venus"
    answer = await component.chat(
        chat_ctx=context("Which city is the capital of France?", system="Answer in one short sentence.")
    ).collect()
    assert "Paris" in answer.text
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 15
    assert component.model == shared().model().name
    await component.aclose()
