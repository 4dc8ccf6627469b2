from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from livekit import rtc
from livekit.agents import Agent, AgentSession, llm
from livekit.plugins import venus
from realtime_venus.engines.base import Decided, Decision, FloatPcm, OverlapPhase, Verdict
from realtime_venus.plugin.livekit import compat
from realtime_venus.plugin.livekit.attach import Attachment, Tap
from realtime_venus.plugin.timeline import events as ev

from ...kit.fake_engine import FakeEngine, FakeSession
from ...kit.sessions import INTERRUPTION, QUESTION, Loud, answering
from .agent_io import FakeOutput, passed, run_agent, running

WORDS = "one two three four five six seven eight nine ten"


@dataclass
class Talk:
    """A running ``AgentSession`` on our model, attached."""

    engine: FakeEngine
    session: AgentSession[Any]
    attachment: Attachment
    output: FakeOutput

    @property
    def messages(self) -> list[llm.ChatMessage]:
        return [message for message in self.session.history.messages() if message.role == "assistant"]

    def events(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.attachment.duplex.timeline.events if isinstance(event, kind)]


@asynccontextmanager
async def talk(engine: FakeEngine, audio: FloatPcm | None = None, *, before: bool = True) -> AsyncGenerator[Talk]:
    """Attached ``before`` the start or after it."""
    model = venus.DuplexModel(engine=engine, detector=Loud, options=venus.DuplexOptions(lead_ms=200))
    session: AgentSession[Any] = AgentSession(llm=model, **venus.session_options())
    attachment = venus.attach(session) if before else None
    async with running(session, Agent(instructions=""), audio) as output:
        attachment = attachment or venus.attach(session)
        async with attachment:
            yield Talk(engine, session, attachment, output)


def yielding(session: FakeSession, phase: OverlapPhase) -> None:
    if phase is OverlapPhase.STARTED:
        session.judge("u1", Verdict.YIELD)


@pytest.mark.parametrize("before", [True, False])
def test_a_yield_drops_what_livekit_holds_and_the_history_is_what_was_heard(before: bool) -> None:
    async def main() -> None:
        engine = FakeEngine(answering(1300, seconds=10.0, text=WORDS), yielding)
        async with talk(engine, INTERRUPTION, before=before) as made:
            await passed(6.0)
            assert made.output.interrupted == [True]
            (ended,) = made.events(ev.UtteranceEnded)
            assert ended.interrupted
            (message,) = made.messages
            assert message.interrupted
            assert message.text_content == ended.heard_text
            assert 0 < len(ended.heard_text) < len(WORDS)
            played = made.output.segments[0].size
            assert abs(played - ended.heard_samples) < 0.06 * 24_000, "the ledger agrees with the output"
            assert made.session.agent_state == "listening"

    run_agent(main())


def test_the_next_utterance_is_a_generation_of_its_own_right_after_a_yield() -> None:
    def judge(session: FakeSession, phase: OverlapPhase) -> None:
        if phase is OverlapPhase.STARTED and len(session.overlaps) == 1:
            session.judge("u1", Verdict.YIELD)
            session.speak("u2", 1.0, "sorry", after_s=0.1)

    async def main() -> None:
        async with talk(FakeEngine(answering(1300, seconds=10.0, text=WORDS), judge), INTERRUPTION) as made:
            await passed(7.0)
            assert made.output.interrupted == [True, False]
            assert made.messages[-1].text_content == "sorry"
            assert WORDS.startswith(made.messages[0].text_content or "?")

    run_agent(main())


def test_what_was_heard_is_reported_and_not_estimated() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(1300, seconds=2.0)), QUESTION) as made:
            await passed(5.0)
            heard = [event for event in made.events(ev.Playout) if event.state == "heard"]
            assert heard[-1].end_sample == 48_000
            assert not any(event.estimated for event in heard)
            assert made.engine.session.heards[-1] == ("u1", 48_000)

    run_agent(main())


def test_an_output_that_does_not_play_is_not_taken_for_heard() -> None:
    class Mute(FakeOutput):
        """Takes nothing, as a room does while nobody listens."""

        async def capture_frame(self, frame: rtc.AudioFrame) -> None:
            await passed(1000)

    async def main() -> None:
        engine = FakeEngine(answering(1300, seconds=0.5))
        async with talk(engine, QUESTION) as made:
            made.attachment.duplex.attached = True
            made.session.output.audio = Tap(Mute(), made.attachment.duplex.played)
            await passed(1.9)
            assert [event for event in made.events(ev.Playout) if event.state == "heard" and not event.estimated] == []

    run_agent(main())


def test_the_engine_learns_that_the_application_interrupted() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(1300, seconds=10.0, text=WORDS)), QUESTION) as made:
            await passed(3.0)
            await made.session.interrupt()
            await passed(0.5)
            assert made.engine.session.interrupts == ["u1"]
            assert made.output.interrupted == [True]
            made.engine.session.speak("u2", 1.0, "again")
            await passed(3.0)
            assert made.messages[-1].text_content == "again"
            assert made.output.interrupted == [True, False]

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
            await passed(7.0)
            assert [message.text_content for message in made.session.history.messages()] == [
                "I was thinking about the moon.",
                "And the sun?",
            ]

    run_agent(main())


def thinking(session: FakeSession, unit: Any) -> None:
    if unit.start_ms in (1300, 2300):
        session.emit(Decided(session.now_ms, Decision.SPEAK))


def test_the_engine_learns_that_the_application_interrupted_its_thinking() -> None:
    async def main() -> None:
        async with talk(FakeEngine(thinking), QUESTION) as made:
            await passed(2.0)
            await made.session.interrupt()
            await passed(0.5)
            assert made.engine.session.interrupts == [""]
            await made.attachment.aclose()
            await made.session.interrupt()
            await passed(0.5)
            assert made.engine.session.interrupts == [""]

    run_agent(main())


def test_attached_twice_it_is_one_attachment() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(1300, seconds=1.0)), QUESTION) as made:
            assert venus.attach(made.session) is made.attachment
            await passed(4.0)
            output = made.session.output.audio
            assert isinstance(output, Tap)
            assert not isinstance(output.next_in_chain, Tap)
            await made.attachment.aclose()
            again = venus.attach(made.session)
            assert again is not made.attachment
            await again.aclose()

    run_agent(main())


def test_a_reply_that_was_asked_for_meanwhile_survives_a_yield() -> None:
    answered: list[str] = []

    def on_unit(session: FakeSession, unit: Any) -> None:
        if unit.start_ms == 1300:
            session.speak("u1", 10.0, WORDS)
        if session.typed and not answered and unit.start_ms > 4000:
            answered.append("u2")
            session.speak("u2", 1.0, "hello there")

    async def main() -> None:
        async with talk(FakeEngine(on_unit, yielding), INTERRUPTION) as made:
            await passed(2.0)
            reply = made.session.generate_reply(instructions="Greet the user.")
            await passed(8.0)
            assert made.engine.session.typed == ["Greet the user."]
            assert reply.exception() is None
            assert not reply.interrupted
            assert made.messages[-1].text_content == "hello there"
            assert made.engine.session.interrupts == []

    run_agent(main())


def test_a_speech_of_the_application_is_left_alone() -> None:
    async def sound() -> AsyncGenerator[rtc.AudioFrame]:
        for _ in range(100):
            yield rtc.AudioFrame(np.full(480, 3000, np.int16).tobytes(), 24_000, 1, 480)

    async def main() -> None:
        async with talk(FakeEngine()) as made:
            speech = made.session.say("a jingle", audio=sound())
            await passed(1.0)
            speech.interrupt()
            await passed(1.0)
            assert made.engine.session.interrupts == []
            assert made.output.interrupted == [True]

    run_agent(main())


def test_say_is_found_where_session_say_points_to() -> None:
    async def main() -> None:
        async with talk(FakeEngine()) as made:
            with pytest.raises(llm.RealtimeError, match=r"venus\.attach\(session\)"):
                made.session.say("Word for word.")
            made.attachment.say("Word for word.")
            await passed(0.2)
            assert made.engine.session.said == ["Word for word."]

    run_agent(main())


def test_every_frame_of_the_camera_reaches_the_session() -> None:
    async def main() -> None:
        session: AgentSession[Any] = AgentSession(llm=venus.DuplexModel(engine=FakeEngine()), vad=None)
        default = compat.video_sampler(session)
        assert default is not None
        attachment = venus.attach(session)
        assert compat.video_sampler(session) is None
        await attachment.aclose()
        assert compat.video_sampler(session) is default

    run_agent(main())


def test_detached_the_session_is_as_it_was() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(1300, seconds=1.0)), QUESTION) as made:
            assert isinstance(made.session.output.audio, Tap)
            await made.attachment.aclose()
            await made.attachment.aclose()
            assert not isinstance(made.session.output.audio, Tap)
            with pytest.raises(RuntimeError, match="TTS"):
                made.session.say("Word for word.")
            with pytest.raises(llm.RealtimeError):
                _ = made.attachment.duplex
            await passed(4.0)
            assert np.count_nonzero(made.output.segments[0]) == pytest.approx(24_000, abs=300)

    run_agent(main())


def test_before_the_session_runs_there_is_nothing_to_speak_to() -> None:
    async def main() -> None:
        session: AgentSession[Any] = AgentSession(llm=venus.DuplexModel(engine=FakeEngine()), vad=None)
        async with venus.attach(session) as attachment:
            with pytest.raises(llm.RealtimeError, match="does not run"):
                attachment.say("Word for word.")

    run_agent(main())


def test_an_output_that_is_replaced_is_followed() -> None:
    async def main() -> None:
        async with talk(FakeEngine(answering(1300, seconds=1.0)), QUESTION) as made:
            other = FakeOutput()
            made.session.output.audio = other
            await passed(4.0)
            assert isinstance(made.session.output.audio, Tap)
            assert made.engine.session.heards[-1] == ("u1", 24_000)
            assert len(other.segments) == 1

    run_agent(main())
