"""A whole conversation in a LiveKit room: the default engine, a participant whose microphone plays the kit, and what it
hears.

Bounds are generous, since the machine may be busy; tight figures belong in the benchmark.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from realtime_venus.engines.base import FloatPcm, Language, SessionOptions
from realtime_venus.engines.cascade.asr import WhisperRecogniser
from realtime_venus.engines.catalog import create
from realtime_venus.engines.store import Store
from realtime_venus.plugin.rooms.livekit import LiveKitRoom
from realtime_venus.plugin.session import Session, SessionSettings

from ..kit.kits import render, sample, stem
from ..kit.livekit_agent import ROOM, SHORT
from ..kit.livekit_participant import Json, Participant, agent_token, participant, until
from ..kit.livekit_server import LiveKitServer

pytestmark = [pytest.mark.models, pytest.mark.usefixtures("native_sockets_closed")]

ANSWER_S = 120.0
QUESTION = "en_turn_taking_01"
INTERRUPTION = "en_user_interruption_01"


def loud(sound: FloatPcm) -> FloatPcm:
    return sound * np.float32(0.5 / np.abs(sound).max())


def keyword_in(sample_id: str, words: str) -> bool:
    return any(keyword.lower() in words.lower() for keyword in sample(sample_id)["expected_keywords"])


async def words(recogniser: WhisperRecogniser, alice: Participant, first: int) -> str:
    """What was said since the frame ``first``, as the recogniser understands it."""
    sound = np.concatenate(alice.recorded[first:]).astype(np.float32) / np.float32(32768)
    heard = await asyncio.to_thread(recogniser.transcribe, sound, Language.EN)
    return "" if heard is None else heard.text


async def test_a_question_is_answered_and_an_interruption_too(livekit_server: LiveKitServer, models: Store) -> None:
    recogniser = WhisperRecogniser(models.path("whisper-base"))
    engine = create()
    await engine.load()
    room = await LiveKitRoom.join(livekit_server.url, agent_token(ROOM), SHORT)
    session = Session(room, engine, SessionOptions(), SessionSettings())
    running = asyncio.create_task(session.run())
    try:
        async with participant(livekit_server, "alice") as alice:
            microphone = await alice.microphone()
            await until(lambda: room.mixed_microphones == 1, "alice's microphone")

            def ended() -> list[Json]:
                return alice.of("agent.utterance_ended")

            await microphone.say(loud(render(QUESTION).clean))
            await alice.until(ended, "the answer", ANSWER_S)
            assert keyword_in(QUESTION, await words(recogniser, alice, 0))
            assert alice.of("latency")
            assert {event["speaker"] for event in alice.of("user.text")} == {"alice"}
            assert "animal" in [one for one in alice.shown if one.identity == "alice" and one.final][-1].text
            await alice.until(lambda: [one for one in alice.shown if one.identity == "venus" and one.final], "captions")
            assert [one for one in alice.shown if one.identity == "venus"][-1].text == ended()[0]["heard_text"]

            loud_before = len(alice.loud_s)
            await microphone.say(loud(stem(INTERRUPTION)))
            # Three seconds of it: interrupted sooner, what she says would belong to the same turn as the question.
            await alice.until(lambda: len(alice.loud_s) > loud_before + 150, "an answer to interrupt", ANSWER_S)
            await microphone.say(loud(stem(INTERRUPTION, "overlap")))
            await alice.until(lambda: any(one["interrupted"] for one in ended()), "the interruption", ANSWER_S)
            first, so_far = len(alice.recorded), len(ended())
            await alice.until(lambda: len(ended()) > so_far, "the answer to the interruption", ANSWER_S)
            assert keyword_in(INTERRUPTION, await words(recogniser, alice, first))
    finally:
        session.stop()
        await asyncio.wait([running])
        await engine.close()
    running.result()
