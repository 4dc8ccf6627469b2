from __future__ import annotations

from typing import Any

import pytest
from livekit.agents import Agent, AgentSession, llm
from livekit.agents.voice.room_io import TextInputEvent
from livekit.plugins import venus
from realtime_venus.plugin.livekit.agent_options import duplex_session

from ...contract.scripted_duplex import ScriptedModel
from ...kit.fake_engine import FakeEngine
from ...kit.sessions import Loud
from .agent_io import passed, run_agent, running


def test_the_session_keeps_what_it_is_told() -> None:
    async def main() -> None:
        session: AgentSession[Any] = AgentSession(llm=ScriptedModel(), **venus.session_options())
        assert session.vad is None
        assert session.turn_detection == "realtime_llm"
        options = session.options
        assert (options.aec_warmup_duration, options.user_away_timeout) == (None, None)
        assert options.interruption.get("discard_audio_if_uninterruptible") is False
        assert options.interruption.get("enabled") is True

    run_agent(main())


def test_the_room_brings_what_the_model_takes() -> None:
    options = venus.room_options()
    audio, output = options.get_audio_input_options(), options.get_audio_output_options()
    assert audio is not None
    assert output is not None
    assert (audio.sample_rate, audio.num_channels, audio.frame_size_ms) == (16_000, 1, 20)
    assert audio.auto_gain_control is False
    assert output.sample_rate == 24_000
    assert options.get_video_input_options() is not None
    assert venus.room_options(video=False).get_video_input_options() is None
    text = options.get_text_input_options()
    assert text is not None
    assert text.text_input_cb is venus.append_text  # pyright: ignore[reportUnknownMemberType]  # a generic


def test_typed_text_is_appended() -> None:
    engine = FakeEngine()

    async def main() -> list[str]:
        model = venus.DuplexModel(engine=engine, detector=Loud)
        session: AgentSession[Any] = AgentSession(llm=model, **venus.session_options())
        async with running(session, Agent(instructions="")):
            venus.append_text(session, TextInputEvent("hello"))
            await passed(0.5)
            return [message.text_content or "" for message in session.history.messages()]

    assert run_agent(main()) == ["hello"]
    assert engine.session.typed == ["hello"]


def test_another_model_is_not_taken_for_ours() -> None:
    async def main() -> None:
        session: AgentSession[Any] = AgentSession(llm=ScriptedModel(), **venus.session_options())
        assert duplex_session(session) is None
        async with running(session, Agent(instructions="")):
            assert duplex_session(session) is None
            with pytest.raises(llm.RealtimeError, match="DuplexModel"):
                venus.append_text(session, TextInputEvent("hello"))

    run_agent(main())
