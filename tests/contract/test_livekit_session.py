"""What plugin/livekit relies on, or goes round, in a whole ``AgentSession``: observed on livekit-agents 1.8.9."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from livekit import rtc
from livekit.agents import Agent, AgentSession, Plugin, RunContext, function_tool, llm
from livekit.agents.voice import SpeechCreatedEvent, io
from livekit.agents.voice.room_io import AudioInputOptions, RoomOptions, TextInputOptions
from livekit.plugins import venus
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.livekit import compat

from ..plugin.livekit.agent_io import FakeOutput, collect, on, passed, run_agent, running
from .scripted_duplex import ScriptedModel, ScriptedSession
from .test_livekit_agents import holds

HUM: FloatPcm = (0.3 * np.sin(np.arange(16_000 * 30) / 10)).astype(np.float32)


@dataclass
class Talk:
    """A running ``AgentSession`` on a scripted model."""

    session: AgentSession[Any]
    duplex: ScriptedSession
    output: FakeOutput
    began_s: float

    @property
    def now_s(self) -> float:
        """Seconds since the session began."""
        return asyncio.get_running_loop().time() - self.began_s


@asynccontextmanager
async def talk(
    agent: Agent | None = None, audio: FloatPcm | None = None, *, tagged: bool = True, **keywords: Any
) -> AsyncGenerator[Talk]:
    """With our options, save for the ``keywords``."""
    model = ScriptedModel(tagged=tagged)
    session: AgentSession[Any] = AgentSession(llm=model, **cast(Any, {**venus.session_options(), **keywords}))
    async with running(session, agent or Agent(instructions="Be brief."), audio) as output:
        yield Talk(session, model.sessions[-1], output, asyncio.get_running_loop().time())


# -- what the defaults spoil ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("warmup", "deaf_s"), [({"aec_warmup_duration": 3.0}, 3.0), ({}, 0.0)])
def test_the_default_warmup_gives_the_model_silence(warmup: dict[str, float], deaf_s: float) -> None:
    async def main() -> None:
        async with talk(audio=HUM, **cast(Any, warmup)) as made:
            await passed(0.5)
            await made.duplex.stream(5.0, loud=True)
            await passed(0.5)
            silent_s = sum(peak == 0 for peak in made.duplex.heard) * 0.02
            holds(abs(silent_s - deaf_s) < 0.3, f"{silent_s:.2f} s of silence instead of the user")

    run_agent(main())


def test_three_seconds_of_warmup_are_the_default() -> None:
    async def main() -> None:
        session: AgentSession[Any] = AgentSession(llm=ScriptedModel(), vad=None)
        holds(session.options.aec_warmup_duration == 3.0, "session_options() must say None")
        holds(session.options.user_away_timeout == 15.0, "the user is away after 15 s")

    run_agent(main())


def test_the_default_sampler_drops_most_frames_of_a_camera() -> None:
    class Camera(io.VideoInput):
        async def __anext__(self) -> rtc.VideoFrame:
            await passed(0.1)
            return rtc.VideoFrame(2, 2, rtc.VideoBufferType.RGBA, bytes(16))

    async def main() -> None:
        counts: list[int] = []
        for sampler in (None, compat.video_sampler(AgentSession(llm=ScriptedModel(), vad=None))):
            async with talk(video_sampler=sampler) as made:
                made.session.input.video = Camera(label="camera")
                await passed(10.0)
                counts.append(len(made.duplex.pictures))
        holds(counts[0] >= 95, "None lets every frame through")
        holds(counts[1] <= 5, f"the default lets {counts[1]} of 100 frames through while nobody speaks")

    run_agent(main())


def test_a_sampler_can_be_replaced_in_mid_session() -> None:
    async def main() -> None:
        async with talk() as made:
            holds(compat.video_sampler(made.session) is None, "None is kept as it is")
            compat.set_video_sampler(made.session, lambda frame, session: False)
            sampler = compat.video_sampler(made.session)
            holds(sampler is not None and not sampler(cast(Any, None), made.session), "the name is still the one")

    run_agent(main())


def test_what_the_room_options_say() -> None:
    options = AudioInputOptions()
    holds((options.sample_rate, options.frame_size_ms) == (24_000, 50), "the input is 24 kHz in 50 ms by default")
    holds(RoomOptions().get_video_input_options() is None, "video is off by default")
    holds(TextInputOptions().text_input_cb is not venus.append_text, "typed text interrupts by default")  # pyright: ignore[reportUnknownMemberType]  # a generic without its argument


# -- interruption and playback --------------------------------------------------------------------------------------


def test_an_interruption_drops_the_rest_and_the_model_is_not_told() -> None:
    async def main() -> None:
        async with talk() as made:
            speaking = asyncio.create_task(made.duplex.stream(3.0, loud=True))
            await passed(1.0)
            await made.session.interrupt()
            await speaking
            await passed(1.0)
            seconds = [part.size / 24_000 for part in made.output.segments]
            holds(len(seconds) == 1 and seconds[0] < 1.2, f"the rest of the generation is dropped: {seconds}")
            holds(made.output.interrupted == [True], "the output is cleared")
            holds(not made.duplex.items and not made.duplex.asked, "the model is told nothing")

    run_agent(main())


def test_one_speech_can_be_interrupted_by_its_handle() -> None:
    async def main() -> None:
        async with talk() as made:
            done: list[bool] = []
            made.duplex.give(3.0, loud=True)
            await passed(0.5)
            current = made.session.current_speech
            assert current is not None
            current.add_done_callback(lambda speech: done.append(speech.interrupted))
            current.interrupt(force=True)
            await passed(0.5)
            holds(done == [True], "its callbacks say that it was interrupted")
            holds(made.output.interrupted == [True], "the output is cleared")
            holds(made.session.agent_state == "listening", "the session listens again")

    run_agent(main())


def test_what_is_handed_over_at_once_is_all_played() -> None:
    async def main() -> None:
        async with talk() as made:
            made.duplex.give(3.0, loud=True)
            made.duplex.give(0.02, loud=False)
            await passed(4.0)
            holds([part.size for part in made.output.segments] == [72_000], "the model cannot take it back")

    run_agent(main())


def test_speeches_are_announced_while_the_first_frame_is_taken_in_and_say_where_they_come_from() -> None:
    async def main() -> None:
        async with talk() as made:
            seen: list[tuple[str, bool, int]] = []

            def created(event: SpeechCreatedEvent) -> None:
                seen.append((event.source, event.user_initiated, made.duplex.waiting))

            on(made.session, "speech_created", created)
            made.duplex.give(0.06, loud=True)
            await passed(0.1)
            holds(seen == [("generate_reply", False, 2)], f"the model's own speech: {seen}")
            made.session.generate_reply(user_input="hello")
            holds(seen[1:] == [("generate_reply", True, 0)], f"a reply that is asked for: {seen}")
            made.duplex.give(0.06, loud=True)
            await passed(1.0)
            holds(len(seen) == 2, "it is not announced again when it comes")

    run_agent(main())


class _Link(io.AudioOutput):
    def __init__(self, after: io.AudioOutput) -> None:
        super().__init__(
            label="link", capabilities=io.AudioOutputCapabilities(pause=True), next_in_chain=after, sample_rate=24_000
        )
        self.told: list[str] = []
        self.marks: list[object] = []

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        assert self.next_in_chain is not None
        await self.next_in_chain.capture_frame(frame)
        self.marks.append(frame.userdata.get("open"))

    def flush(self) -> None:
        super().flush()
        assert self.next_in_chain is not None
        self.next_in_chain.flush()

    def clear_buffer(self) -> None:
        assert self.next_in_chain is not None
        self.next_in_chain.clear_buffer()

    def on_playback_started(self, *, created_at: float) -> None:
        self.told.append("started")
        super().on_playback_started(created_at=created_at)

    def on_playback_finished(
        self, *, playback_position: float, interrupted: bool, synchronized_transcript: str | None = None
    ) -> None:
        self.told.append(f"finished {playback_position:.2f}")
        super().on_playback_finished(
            playback_position=playback_position, interrupted=interrupted, synchronized_transcript="what was heard"
        )


def test_a_link_in_the_output_sees_the_models_own_frames_and_what_was_played_of_them() -> None:
    async def main() -> None:
        async with talk() as made:
            link = _Link(made.output)
            holds(link.next_in_chain is not made.output, "a bare sink is wrapped: pass frames to next_in_chain")
            made.session.output.audio = link
            made.duplex.write("everything", 0, 1000)
            made.duplex.give(1.0, loud=True)
            made.duplex.give(0.02, loud=False)
            await passed(2.0)
            holds(link.told == ["started", "finished 1.00"], f"one of each for a generation: {link.told}")
            holds(link.marks == [True] * 50, "userdata of the frames is kept")

    run_agent(main())


def test_the_history_of_an_interrupted_speech_is_what_the_output_says_was_heard() -> None:
    async def main() -> None:
        async with talk() as made:
            made.session.output.audio = _Link(made.output)
            made.duplex.write("everything", 0, 3000)
            made.duplex.give(3.0, loud=True)
            await passed(1.0)
            await made.session.interrupt()
            (message,) = made.session.history.messages()
            holds((message.text_content, message.interrupted) == ("what was heard", True), f"{message.text_content}")

    run_agent(main())


def test_the_users_words_become_a_message_with_the_id_they_were_told_with() -> None:
    async def main() -> None:
        async with talk() as made:
            for text, final in (("hel", False), ("hello", True)):
                told = llm.InputTranscriptionCompleted(
                    item_id="mine", transcript=text, is_final=final, turn_started_at=1_800_000_000.0
                )
                made.duplex.emit("input_audio_transcription_completed", told)
            (message,) = made.session.history.messages()
            holds((message.id, message.text_content) == ("mine", "hello"), "only the final one counts")
            holds(message.created_at == 1_800_000_000.0, "it lies where the turn began")

    run_agent(main())


def test_a_fatal_error_closes_the_session_and_another_does_not() -> None:
    async def main() -> None:
        async with talk() as made:
            closed = collect(made.session, "close")
            for recoverable in (True, False):
                error = llm.RealtimeModelError(
                    timestamp=0.0, label="x", error=llm.RealtimeError("broken"), recoverable=recoverable
                )
                holds(not closed, "a recoverable error is only told")
                made.duplex.emit("error", error)
                await passed(1.0)
            holds(closed, "the session closes")

    run_agent(main())


def test_say_needs_a_tts() -> None:
    async def main() -> None:
        async with talk() as made:
            with pytest.raises(RuntimeError, match="TTS"):
                made.session.say("word for word")

    run_agent(main())


def test_the_session_of_the_model_is_reached_through_the_agent_while_it_runs() -> None:
    async def main() -> None:
        async with talk() as made:
            found = cast(object, made.session.current_agent.duplex_session)
            holds(found is made.duplex, "agent.duplex_session is the plugin's own")
            session = made.session
        with pytest.raises(RuntimeError):
            _ = cast(object, session.current_agent.duplex_session)

    run_agent(main())


# -- tools: what the framework would do with them, and why they are ours to run --------------------------------------


class _Tools(Agent):
    def __init__(self) -> None:
        super().__init__(instructions="Be brief.")  # pyright: ignore[reportUnknownMemberType]  # likewise

    @function_tool
    async def quick(self) -> str:
        """Takes 0.3 s."""
        await passed(0.3)
        return "done"

    @function_tool
    async def long(self, context: RunContext[Any]) -> str:
        """Says that it runs, and takes 2 s."""
        await context.update("still running")
        await passed(2.0)
        return "done"


def test_after_a_tool_that_stood_alone_the_agent_is_taken_to_think() -> None:
    async def main() -> None:
        async with talk(_Tools()) as made:
            made.duplex.call("quick")
            await passed(5.0)
            holds(len(made.duplex.outputs()) == 1, "the tool has answered")
            holds(made.session.agent_state == "thinking", f"the state is {made.session.agent_state!r} 4.7 s later")

    run_agent(main())


def test_a_tool_called_while_speaking_answers_after_the_speech() -> None:
    async def main() -> None:
        async with talk(_Tools()) as made:
            speaking = asyncio.create_task(made.duplex.stream(4.0, loud=True))
            await passed(1.0)
            made.duplex.call("quick")
            await speaking
            made.duplex.give(0.02, loud=False)
            await passed(1.0)
            ((at_s, output),) = made.duplex.outputs()
            holds(output == "done" and at_s - made.began_s >= 3.9, f"ready at 1.3 s, given at {at_s - made.began_s}")

    run_agent(main())


def test_a_tools_answer_waits_for_every_speech_behind_it_too() -> None:
    async def main() -> None:
        async with talk(_Tools()) as made:
            speaking = asyncio.create_task(made.duplex.stream(2.0, loud=True))
            await passed(1.0)
            made.duplex.call("quick")
            await speaking
            made.duplex.give(0.02, loud=False)
            await made.duplex.stream(3.0, loud=True)
            made.duplex.give(0.02, loud=False)
            await passed(1.0)
            ((at_s, _),) = made.duplex.outputs()
            holds(at_s - made.began_s >= 4.9, f"given at {at_s - made.began_s:.2f} s, after the next speech as well")

    run_agent(main())


def test_a_note_of_a_background_tool_can_come_after_its_result() -> None:
    async def main() -> None:
        async with talk(_Tools()) as made:
            speaking = asyncio.create_task(made.duplex.stream(10.0, loud=True))
            await passed(1.0)
            made.duplex.call("long")
            await speaking
            made.duplex.give(0.02, loud=False)
            await passed(12.0)
            outputs = made.duplex.outputs()
            holds(len(outputs) == 2, f"a note and a result: {outputs}")
            early, late = outputs
            holds(late[0] - made.began_s >= 9.9, "both wait for the speech that was going on at 3 s")
            holds(early[0] <= late[0], f"observed order: {[text for _, text in outputs]}")

    run_agent(main())


def test_a_background_result_in_silence_is_told_at_once_and_then_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with talk(_Tools()) as made:
            made.duplex.call("long")
            await passed(13.5)
            texts = [text for _, text in made.duplex.outputs()]
            holds(len(texts) == 2 and "done" in texts[1], f"{texts}")
            holds(made.duplex.outputs()[1][0] - made.began_s < 3.5, "the result is told at once")
            holds(len(made.duplex.asked) >= 1, "a reply is asked for")

    with caplog.at_level(logging.ERROR):
        run_agent(main())
    holds("failed to generate a reply" in caplog.text, "a model that stays silent for 10 s gets an error logged")


def test_typed_text_whose_answer_begins_with_a_tool_stalls_for_ten_seconds() -> None:
    async def main() -> None:
        async with talk(_Tools()) as made:
            made.session.generate_reply(user_input="look it up")
            await passed(0.5)
            made.duplex.call("quick")
            await passed(11.0)
            ((at_s, _),) = made.duplex.outputs()
            holds(10.0 <= at_s - made.began_s < 11.5, f"the output comes after {at_s - made.began_s:.1f} s")

    run_agent(main())


# -- plugins --------------------------------------------------------------------------------------------------------


def test_plugins_are_registered_on_the_main_thread_only() -> None:
    class Another(Plugin):
        pass

    errors: list[RuntimeError] = []

    def elsewhere() -> None:
        try:
            Plugin.register_plugin(Another("x", "0", "x"))
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    holds(len(errors) == 1, "register_plugin raises off the main thread")
