from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from livekit.agents import Agent, AgentSession, function_tool, llm
from livekit.plugins import venus
from realtime_venus.engines.base import (
    Capabilities,
    Changes,
    EngineFull,
    FloatPcm,
    Language,
    SessionOptions,
    Trouble,
)
from realtime_venus.plugin.livekit.agent_options import duplex_session
from realtime_venus.plugin.livekit.session import DuplexSession

from ...kit.fake_engine import FakeEngine, FakeSession
from ...kit.sessions import QUESTION, Loud, answering
from .agent_io import FakeOutput, collect, passed, run_agent, running


@dataclass
class Talk:
    """A running ``AgentSession`` on our model."""

    engine: FakeEngine
    session: AgentSession[Any]
    duplex: DuplexSession
    output: FakeOutput

    def texts(self, role: str) -> list[str]:
        return [message.text_content or "" for message in self.session.history.messages() if message.role == role]


@asynccontextmanager
async def talk(
    engine: FakeEngine, audio: FloatPcm | None = None, agent: Agent | None = None, **options: Any
) -> AsyncGenerator[Talk]:
    model = venus.DuplexModel(engine=engine, detector=Loud, **options)
    session: AgentSession[Any] = AgentSession(llm=model, **venus.session_options())
    async with running(session, agent or Agent(instructions="Be brief."), audio) as output:
        duplex = duplex_session(session)
        assert duplex is not None
        yield Talk(engine, session, duplex, output)


def test_a_question_is_answered_and_both_sides_are_in_the_history() -> None:
    def on_unit(session: FakeSession, unit: Any) -> None:
        if unit.start_ms == 1300:
            session.hear("what", final=False, start_ms=200)
            session.hear("What is it?", start_ms=200)
            session.speak("u1", 2.0, "It is a test.")

    async def main() -> None:
        async with talk(FakeEngine(on_unit), QUESTION) as made:
            partial = collect(made.session, "user_input_transcribed")
            states = collect(made.session, "user_state_changed")
            await passed(6.0)
            assert made.texts("user") == ["What is it?"]
            assert made.texts("assistant") == ["It is a test."]
            assert [(event.transcript, event.is_final) for event in partial] == [("what", False), ("What is it?", True)]
            assert len({event.item_id for event in partial}) == 1
            assert [event.new_state for event in states] == ["speaking", "listening"]
            (sound,) = made.output.segments
            assert np.abs(sound.astype(int)).max() > 1000
            assert abs(np.count_nonzero(sound) / 24_000 - 2.0) < 0.05
            user, assistant = made.session.history.messages()
            assert user.created_at < assistant.created_at

    run_agent(main())


def test_a_turn_that_goes_on_after_its_end_was_told_stays_one_message() -> None:
    def on_unit(session: FakeSession, unit: Any) -> None:
        if unit.start_ms == 1300:
            session.hear("I was thinking.", start_ms=200)
        if unit.start_ms == 2300:
            session.hear("I was thinking about", final=False, start_ms=200)
        if unit.start_ms == 3300:
            session.hear("I was thinking about the moon.", start_ms=200)
        if unit.start_ms == 5300:
            session.hear("And the sun?", start_ms=4500)

    async def main() -> None:
        async with talk(FakeEngine(on_unit), QUESTION) as made:
            told = collect(made.session, "user_input_transcribed")
            await passed(7.0)
            assert [event.is_final for event in told] == [True, False, True, True]
            assert len({event.item_id for event in told[:3]}) == 1
            assert told[3].item_id != told[0].item_id

    run_agent(main())


def test_two_utterances_are_two_messages() -> None:
    def on_unit(session: FakeSession, unit: Any) -> None:
        if unit.start_ms == 1300:
            session.speak("u1", 1.0, "one")
            session.speak("u2", 1.0, "two")

    async def main() -> None:
        async with talk(FakeEngine(on_unit), QUESTION) as made:
            await passed(6.0)
            assert made.texts("assistant") == ["one", "two"]
            assert sum(np.count_nonzero(sound) for sound in made.output.segments) == pytest.approx(48_000, abs=500)

    run_agent(main())


def test_latency_is_reported_as_a_metric() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(1400)), QUESTION) as made:
            metrics = collect(made.duplex, "metrics_collected")
            await passed(3.0)
            (one,) = metrics
            assert one.request_id == "u1"
            assert 0.3 < one.ttft < 0.6

    run_agent(main())


def test_the_timeline_can_be_followed() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(1400)), QUESTION) as made:
            events = collect(made.duplex, "timeline")
            await passed(3.0)
            assert {"user.speech", "agent.text", "agent.state", "playout"} <= {event["type"] for event in events}
            assert len(made.duplex.timeline.events) >= len(events)

    run_agent(main())


# -- configuration --------------------------------------------------------------------------------------------------


def test_instructions_are_the_persona_and_can_change() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with talk(engine, persona="A clerk.", language="zh", voice="tenor", facts=("Closed at six.",)) as made:
            options = SessionOptions(Language.ZH, "tenor", "Be brief.", None, ("Closed at six.",))
            assert engine.session.options == options
            await made.session.current_agent.update_instructions("Be kind.")
            await passed(0.1)
            assert engine.session.changes == [Changes(persona="Be kind.")]

    run_agent(main())


def test_without_instructions_the_models_persona_counts() -> None:
    async def main() -> None:
        engine = FakeEngine()
        async with talk(engine, agent=Agent(instructions=""), persona="A clerk."):
            assert engine.session.options.persona == "A clerk."

    run_agent(main())


def test_an_earlier_conversation_is_part_of_the_beginning() -> None:
    async def main() -> None:
        context = llm.ChatContext.empty()
        context.add_message(role="user", content="Hello")
        context.add_message(role="assistant", content="Hi")
        engine = FakeEngine()
        async with talk(engine, agent=Agent(instructions="Be brief.", chat_ctx=context)):
            assert engine.session.options.system_prompt == "User: Hello\nYou: Hi"
            assert engine.session.typed == []

    run_agent(main())


def test_another_agent_takes_over_the_same_conversation() -> None:
    async def main() -> None:
        engine = FakeEngine(answering(1400, seconds=1.0))
        async with talk(engine, QUESTION) as made:
            await passed(4.0)
            made.session.update_agent(Agent(instructions="Be somebody else.", chat_ctx=made.session.history))
            await passed(2.0)
            assert duplex_session(made.session) is made.duplex
            assert len(engine.sessions) == 1
            assert engine.session.changes == [Changes(persona="Be somebody else.")]
            assert engine.session.typed == []

    run_agent(main())


class _Tools(Agent):
    @function_tool
    async def look(self) -> str:
        """Never called."""
        raise AssertionError

    @function_tool
    async def find(self) -> str:
        """Never called."""
        raise AssertionError


def test_tools_are_refused_in_one_clear_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with talk(FakeEngine(), agent=_Tools(instructions="")) as made:
            made.session.generate_reply(instructions="Look.", tools=["look"])
            assert len(made.duplex.tools.flatten()) == 2
            await passed(0.5)

    with caplog.at_level(logging.WARNING, logger="realtime_venus"):
        run_agent(main())
    told = [record for record in caplog.records if "tools" in record.message]
    assert [record.message for record in told] == [
        "Venus does not call tools yet: the tools of this agent are never used"
    ]


# -- asking ---------------------------------------------------------------------------------------------------------


def typing(session: FakeSession, unit: Any) -> None:
    """Answer whatever was typed."""
    if len(session.typed) > getattr(session, "answered", 0):
        session.answered = len(session.typed)  # pyright: ignore[reportAttributeAccessIssue]  # the test's own counter
        session.speak(f"u{len(session.typed)}", 1.0, f"You typed {session.typed[-1]}")


def test_typed_input_is_one_message_and_its_answer_is_the_reply() -> None:
    async def main() -> None:
        async with talk(FakeEngine(typing)) as made:
            reply = made.session.generate_reply(user_input="hello")
            await passed(4.0)
            assert reply.done()
            assert reply.exception() is None
            assert made.texts("user") == ["hello"]
            assert made.texts("assistant") == ["You typed hello"]
            assert made.engine.session.typed == ["hello"]

    run_agent(main())


def test_instructions_of_a_reply_are_given_to_the_engine_and_are_nobodys_words() -> None:
    async def main() -> None:
        async with talk(FakeEngine(typing)) as made:
            reply = made.session.generate_reply(instructions="Greet the user.")
            await passed(4.0)
            assert reply.exception() is None
            assert made.engine.session.typed == ["Greet the user."]
            assert made.texts("user") == []
            assert len(made.texts("assistant")) == 1

    run_agent(main())


def test_a_reply_about_nothing_is_refused_with_the_ways_round_it() -> None:
    async def main() -> None:
        async with talk(FakeEngine(typing)) as made:
            reply = made.session.generate_reply()
            await passed(0.5)
            error = reply.exception()
            assert isinstance(error, llm.RealtimeError)
            assert "say(text)" in str(error)
            assert "user_input" in str(error)

    run_agent(main())


@pytest.mark.parametrize("text", ["x" * 21, "  "], ids=["too long", "blank"])
def test_a_text_that_cannot_be_taken_is_refused_at_once_and_spoils_nothing(text: str) -> None:
    async def main() -> None:
        able = Capabilities(type=True, say=True, text_chars=20)
        async with talk(FakeEngine(typing, capabilities=able)) as made:
            for refusing in (made.duplex.type_text, made.duplex.say):
                with pytest.raises(llm.RealtimeError, match="1 to 20 characters"):
                    refusing(text)
            reply = made.session.generate_reply(user_input=text)
            await passed(0.5)
            assert isinstance(reply.exception(), llm.RealtimeError)
            assert made.engine.session.typed == []
            assert made.engine.session.said == []
            reply = made.session.generate_reply(user_input="hello")
            await passed(4.0)
            assert reply.exception() is None
            assert made.texts("assistant") == ["You typed hello"]

    run_agent(main())


def test_an_engine_that_cannot_read_says_so() -> None:
    async def main() -> None:
        async with talk(FakeEngine(capabilities=Capabilities())) as made:
            with pytest.raises(llm.RealtimeError, match="does not take text"):
                made.duplex.type_text("hello")
            with pytest.raises(llm.RealtimeError, match="cannot speak a given text"):
                made.duplex.say("hello")
            reply = made.session.generate_reply(instructions="Greet the user.")
            await passed(0.5)
            assert isinstance(reply.exception(), llm.RealtimeError)

    run_agent(main())


def test_the_application_speaks_types_and_configures() -> None:
    async def main() -> None:
        async with talk(FakeEngine()) as made:
            made.duplex.say("Word for word.")
            made.duplex.type_text("typed")
            made.duplex.configure(Changes(voice="tenor"))
            await passed(0.2)
            engine = made.engine.session
            assert (engine.said, engine.typed, engine.changes) == (
                ["Word for word."],
                ["typed"],
                [Changes(voice="tenor")],
            )
            assert made.texts("user") == ["typed"]

    run_agent(main())


def test_what_the_engine_refuses_is_an_error_that_passes() -> None:
    async def main() -> None:
        async with talk(FakeEngine()) as made:
            errors = collect(made.session, "error")
            made.duplex.configure(Changes(voice="nobody"))
            await passed(0.2)
            (error,) = errors
            assert error.error.recoverable
            assert error.error.error.code == "refused"
            assert "nobody" in str(error.error.error)

    run_agent(main())


# -- beginning, breaking and ending ---------------------------------------------------------------------------------


def test_an_engine_that_is_full_fails_the_start_and_says_why() -> None:
    class Full(FakeEngine):
        def open(self, options: SessionOptions) -> FakeSession:
            raise EngineFull("all 2 sessions of the engine are in use")

    async def main() -> None:
        with pytest.raises(llm.RealtimeError, match="all 2 sessions"):
            async with talk(Full()):
                pass

    run_agent(main())


def test_an_engine_that_breaks_closes_the_agent_session() -> None:
    def on_unit(session: FakeSession, unit: Any) -> None:
        if unit.index == 5:
            session.emit(Trouble(600, "engine.broken", "The engine broke.", fatal=True))

    async def main() -> None:
        async with talk(FakeEngine(on_unit)) as made:
            closed, errors = collect(made.session, "close"), collect(made.session, "error")
            await passed(3.0)
            assert [str(error.error.error) for error in errors] == ["The engine broke."]
            assert len(closed) == 1
            assert made.engine.session.closed

    run_agent(main())


def test_an_engine_that_stalls_is_replaced_and_livekit_is_told() -> None:
    async def main() -> None:
        engine = FakeEngine(answering(1400, seconds=20.0))
        async with talk(engine, QUESTION) as made:
            await passed(3.0)
            told, errors = collect(made.duplex, "session_reconnected"), collect(made.session, "error")
            engine.stalled = True
            await passed(11.0)
            engine.stalled = False
            await passed(1.0)
            assert len(told) == 1
            assert errors == []
            assert len(engine.sessions) == 2
            assert engine.session.restored == b"snapshot of 0"
            assert made.session.agent_state == "listening"

    run_agent(main())


def test_closing_is_repeatable_and_ends_everything() -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        async with talk(FakeEngine(answering(1400, seconds=5.0)), QUESTION) as made:
            await passed(2.0)
            duplex, engine = made.duplex, made.engine
        await duplex.aclose()
        await duplex.aclose()
        assert engine.session.closed
        assert engine.open_sessions == 0
        duplex.interrupt()
        assert asyncio.all_tasks() - before == set()

    run_agent(main())


def test_a_conversation_that_does_not_end_is_left_after_twice_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(FakeSession):
        async def close(self) -> None:
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue  # what no engine should do
            await super().close()

    class Engine(FakeEngine):
        def open(self, options: SessionOptions) -> FakeSession:
            self.open_sessions += 1
            self.sessions.append(Stubborn(self, options, len(self.sessions)))
            return self.sessions[-1]

    released = asyncio.Event()

    async def main() -> None:
        async with talk(Engine(), options=venus.DuplexOptions(close_s=3.0)) as made:
            await passed(1.0)
            began = asyncio.get_running_loop().time()
            await made.duplex.aclose()
            assert asyncio.get_running_loop().time() - began == pytest.approx(6.0, abs=0.1)
            assert not made.engine.session.closed
            released.set()
            await passed(1.0)
            assert made.engine.session.closed

    run_agent(main())
    assert "a conversation cannot be ended and is left to itself" in caplog.messages


def test_a_session_that_never_began_can_be_closed() -> None:
    async def main() -> None:
        duplex = venus.DuplexModel(engine=FakeEngine()).session()
        with pytest.raises(llm.RealtimeError, match="not begun"):
            _ = duplex.timeline
        await duplex.aclose()
        assert [frame async for frame in duplex.audio_stream] == []

    run_agent(main())


def test_the_user_is_heard_while_the_agent_speaks() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(300, seconds=4.0)), np.full(16_000 * 6, 0.25, np.float32)) as made:
            await passed(5.0)
            quiet = [unit.index for unit in made.engine.session.units if np.abs(unit.audio).max() < 0.2]
            assert quiet == []

    run_agent(main())
