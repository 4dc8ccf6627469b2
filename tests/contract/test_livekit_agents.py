"""What plugin/livekit relies on, or goes round, observed on livekit-agents 1.8.9 with scripted models, in virtual time.

The adapter is tried by itself here; a whole ``AgentSession`` in ``test_livekit_session.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, cast

import pytest
from livekit.agents import llm

from ..plugin.livekit.agent_io import on, passed, run_agent
from .scripted_duplex import ScriptedModel, ScriptedSession

VERSION = metadata.version("livekit-agents")


def holds(condition: object, what: str) -> None:
    """Assert something about LiveKit."""
    assert condition, f"livekit-agents {VERSION} (observed: 1.8.9): {what}"


@dataclass
class Generation:
    """What one ``generation_created`` brought."""

    user_initiated: bool
    text: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    messages: int = 0


@dataclass
class Adapter:
    """LiveKit's adapter around a scripted session."""

    realtime: llm.RealtimeSession[Any]
    duplex: ScriptedSession
    generations: list[Generation] = field(default_factory=list[Generation])
    readers: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def created(self, event: llm.GenerationCreatedEvent) -> None:
        made = Generation(event.user_initiated)
        self.generations.append(made)
        self.readers.add(asyncio.create_task(self._read(event, made)))

    async def _read(self, event: llm.GenerationCreatedEvent, made: Generation) -> None:
        async for message in event.message_stream:
            made.messages += 1
            async for frame in message.audio_stream:
                made.seconds += frame.duration
            async for text in message.text_stream:
                made.text.append(text)

    @property
    def texts(self) -> list[str]:
        """The words of each generation so far."""
        return ["".join(one.text) for one in self.generations]

    async def settle(self) -> None:
        """Let everything be taken in that was handed out."""
        await passed(0.01)


def adapted(model: llm.DuplexModel) -> llm.RealtimeSession[Any]:
    """LiveKit's session around one of ``model``."""
    return cast("llm.RealtimeSession[Any]", llm.DuplexRealtimeAdapter(model).session())  # pyright: ignore[reportUnknownMemberType]  # generic


@asynccontextmanager
async def adapter(*, tagged: bool = True) -> AsyncGenerator[Adapter]:
    model = ScriptedModel(tagged=tagged)
    realtime = adapted(model)
    made = Adapter(realtime, model.sessions[-1])
    on(realtime, "generation_created", made.created)
    try:
        yield made
    finally:
        await realtime.aclose()
        if made.readers:
            await asyncio.wait(made.readers, timeout=5)


def test_what_the_adapter_says_it_can_do() -> None:
    capabilities = llm.DuplexRealtimeAdapter(ScriptedModel()).capabilities
    holds(capabilities.turn_detection, "the model owns the turns")
    holds(capabilities.supports_overlapping_speech, "the user's speech over the agent's is left alone")
    holds(not capabilities.supports_say, "session.say() cannot reach the model, hence Attachment.say")
    holds(not capabilities.message_truncation, "what was not heard is not taken back, hence the Tap")
    holds(not capabilities.manual_function_calls, "calls cannot be resumed")
    holds(not capabilities.per_response_tool_choice, "tools are the session's")


def test_a_generation_lasts_while_the_models_own_gate_is_open() -> None:
    async def main() -> None:
        async with adapter() as made:
            made.duplex.give(1.0, loud=True)
            made.duplex.give(0.02, loud=False)
            made.duplex.give(0.5, loud=True)
            made.duplex.give(0.02, loud=False)
            await made.settle()
            seconds = [round(one.seconds, 2) for one in made.generations]
            holds(seconds == [1.0, 0.5], f"one closed frame splits, and is not played: {seconds}")

    run_agent(main())


def test_a_generation_is_announced_while_its_first_frame_is_taken_in() -> None:
    async def main() -> None:
        async with adapter() as made:
            waiting: list[int] = []

            def created(_event: object) -> None:
                waiting.append(made.duplex.waiting)

            on(made.realtime, "generation_created", created)
            made.duplex.give(0.06, loud=True)
            await made.settle()
            holds(waiting == [2], "generation_created comes before the second frame is asked for")

    run_agent(main())


def test_silence_of_eight_tenths_ends_a_generation() -> None:
    async def main() -> None:
        async with adapter() as made:
            made.duplex.give(0.1, loud=True)
            await passed(0.7)
            made.duplex.give(0.1, loud=True)
            await passed(0.95)
            made.duplex.give(0.1, loud=True)
            await made.settle()
            holds(len(made.generations) == 2, "no frame for 0.8 s closes, 0.7 s do not")

    run_agent(main())


def test_the_default_gate_keeps_half_a_second_of_silence() -> None:
    async def main() -> None:
        async with adapter(tagged=False) as made:
            await made.duplex.stream(1.0, loud=False)
            await made.duplex.stream(4.0, loud=True)
            await made.duplex.stream(2.0, loud=False)
            (one,) = made.generations
            holds(4.4 <= one.seconds <= 4.6, f"4.0 s of speech are reported as {one.seconds:.2f} s")

    run_agent(main())


def test_the_default_gate_judges_a_frame_of_a_second_as_a_whole() -> None:
    async def main() -> None:
        async with adapter(tagged=False) as made:
            await made.duplex.stream(2.0, loud=False, frame_ms=1000)
            await made.duplex.stream(1.0, loud=True, frame_ms=1000)
            await made.duplex.stream(1.0, loud=False, frame_ms=1000)
            await made.duplex.stream(1.0, loud=True, frame_ms=1000)
            await made.duplex.stream(1.0, loud=False, frame_ms=1000)
            holds([one.seconds for one in made.generations] == [1.0, 1.0], "one silent frame of 1 s closes")

    run_agent(main())


def test_words_are_attached_when_the_audio_comes_within_300_ms_of_them() -> None:
    async def main() -> None:
        async with adapter() as made:
            made.duplex.write("one", 0, 400)
            made.duplex.write(" two", 1000, 1400)
            made.duplex.give(0.6, loud=True)
            await made.settle()
            made.duplex.give(0.02, loud=False)
            await made.settle()
            holds(made.texts == ["one"], "words that the audio does not reach wait")
            made.duplex.give(0.1, loud=True)
            made.duplex.give(0.02, loud=False)
            await made.settle()
            holds(made.texts[1] == " two", "...and are given to the next generation, whosever they are")

    run_agent(main())


def test_a_stamp_sets_the_adapters_clock() -> None:
    async def main() -> None:
        async with adapter() as made:
            made.duplex.write("late", 5000, 5400)
            made.duplex.give(0.2, loud=True, start_ms=5000)
            made.duplex.give(0.02, loud=False)
            await made.settle()
            holds(made.texts == ["late"], "start_ms of a frame places it")

    run_agent(main())


def test_words_for_sound_that_is_over_become_a_generation_of_their_own() -> None:
    async def main() -> None:
        async with adapter() as made:
            made.duplex.write("one", 0, 400)
            made.duplex.give(1.0, loud=True)
            made.duplex.give(0.02, loud=False)
            await made.settle()
            made.duplex.write(" two", 500, 900)
            await made.settle()
            seconds = [one.seconds for one in made.generations]
            holds(made.texts == ["one", " two"] and seconds[1] == 0, "late words are text without audio")

    run_agent(main())


def test_words_that_no_sound_claims_are_told_after_three_seconds(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with adapter() as made:
            made.duplex.write("nobody says this", 0, 400)
            made.duplex.give(2.9, loud=False)
            await made.settle()
            holds(not made.generations, "2.9 s are not enough")
            made.duplex.give(0.2, loud=False)
            await made.settle()
            holds(made.texts == ["nobody says this"], "3 s of silence make them a text")

    with caplog.at_level(logging.ERROR):
        run_agent(main())
    holds("duplex transcript outlived the audio it describes" in caplog.text, "it is logged as an error")


def test_a_reply_that_was_asked_for_is_the_next_speech() -> None:
    async def main() -> None:
        async with adapter() as made:
            reply = made.realtime.generate_reply()
            made.duplex.give(0.1, loud=True)
            made.duplex.give(0.02, loud=False)
            event = await reply
            holds(event.user_initiated, "the next speech is the reply")
            made.duplex.give(0.1, loud=True)
            await made.settle()
            holds([one.user_initiated for one in made.generations] == [True, False], "only the next one")

    run_agent(main())


def test_a_reply_that_does_not_come_fails_after_ten_seconds() -> None:
    async def main() -> None:
        async with adapter() as made:
            first, second = made.realtime.generate_reply(), made.realtime.generate_reply()
            with pytest.raises(llm.RealtimeError, match="superseded"):
                await first
            await passed(9.9)
            holds(not second.done(), "9.9 s are waited")
            with pytest.raises(llm.RealtimeError, match="did not start speaking"):
                await second

    run_agent(main())


def test_a_refusal_to_reply_is_the_replys_error() -> None:
    class Refusing(ScriptedSession):
        def _generate_reply(self, **_: object) -> None:
            raise llm.RealtimeError("not now")

    class Model(ScriptedModel):
        def session(self) -> ScriptedSession:
            self.sessions.append(Refusing(self))
            return self.sessions[-1]

    async def main() -> None:
        realtime = adapted(Model())
        try:
            with pytest.raises(llm.RealtimeError, match="not now"):
                await realtime.generate_reply()
        finally:
            await realtime.aclose()

    run_agent(main())


def test_the_context_is_append_only(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with adapter() as made:
            context = llm.ChatContext.empty()
            kept = context.add_message(role="user", content="first")
            await made.realtime.update_chat_ctx(context)
            context = llm.ChatContext.empty()
            context.add_message(role="user", content="second")
            await made.realtime.update_chat_ctx(context)
            texts = [cast(Any, item).text_content for _, item in made.duplex.items]
            holds(texts == ["first", "second"], "only new items reach the model")
            holds(kept.id not in [item.id for item in made.realtime.chat_ctx.items], "though LiveKit forgot the first")

    with caplog.at_level(logging.WARNING):
        run_agent(main())
    holds("append-only" in caplog.text, "a removal is warned about")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("interrupt", {}),
        ("commit_audio", {}),
        ("clear_audio", {}),
        ("truncate", {"message_id": "x", "modalities": ["audio"], "audio_end_ms": 10}),
    ],
)
def test_the_model_cannot_be_interrupted_or_truncated(name: str, arguments: dict[str, object]) -> None:
    async def main() -> None:
        async with adapter() as made:
            made.duplex.give(0.1, loud=True)
            await made.settle()
            getattr(made.realtime, name)(**arguments)
            made.duplex.give(0.1, loud=True)
            await made.settle()
            holds([round(one.seconds, 2) for one in made.generations] == [0.2], "the generation goes on")
            holds(not made.duplex.items and not made.duplex.asked, "the model is told nothing")

    run_agent(main())


def test_the_stream_is_asked_for_before_the_session_is_configured() -> None:
    async def main() -> None:
        class Late(ScriptedSession):
            asked_for = asyncio.Event()

            async def _stream(self) -> AsyncIterator[llm.DuplexAudioFrame]:
                self.asked_for.set()
                async for frame in super()._stream():
                    yield frame

        class Model(ScriptedModel):
            def session(self) -> ScriptedSession:
                self.sessions.append(Late(self))
                return self.sessions[-1]

        realtime = adapted(Model())
        try:
            async with asyncio.timeout(1):
                await Late.asked_for.wait()
        finally:
            await realtime.aclose()

    run_agent(main())


def test_a_session_that_cannot_be_configured_is_closed() -> None:
    class Broken(ScriptedSession):
        async def _update_instructions(self, instructions: str) -> None:
            raise llm.RealtimeError("no")

    class Model(ScriptedModel):
        def session(self) -> ScriptedSession:
            self.sessions.append(Broken(self))
            return self.sessions[-1]

    async def main() -> None:
        model = Model()
        realtime = adapted(model)
        with pytest.raises(llm.RealtimeError, match="no"):
            await cast(Any, realtime)._update_session(instructions="x")
        holds(model.sessions[0].closed, "the duplex session is closed")

    run_agent(main())
