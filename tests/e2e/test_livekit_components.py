"""A stock ``AgentSession`` with the offline components and nothing else, in a real room, spoken to and heard.

No key, no network but loopback, no option of the session.  Bounds are generous, since the machine may be busy.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, cast

import numpy as np
import psutil
import pytest
from livekit import rtc
from livekit.agents import Agent, AgentSession, ConversationItemAddedEvent, llm
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.livekit.components import LLM, STT, TTS, VAD
from realtime_venus.plugin.livekit.components.parts import shared

from ..kit.kits import KIT_HZ, render, sample
from ..kit.livekit_participant import Participant, agent_token, participant
from ..kit.livekit_server import LiveKitServer
from ..kit.speech import error_rate

pytestmark = [pytest.mark.models, pytest.mark.usefixtures("native_sockets_closed")]

ROOM = "talk"
ANSWER_S = 120.0
QUIET_S = 1.5
"""After so long without a sound the answer has been heard to its end."""
FRAME = KIT_HZ // 50
INSTRUCTIONS = "You are Venus, a friendly voice assistant. Answer in one short sentence."


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that knows of no cloud."""
    for name in [name for name in os.environ if name.startswith(("LIVEKIT_", "OPENAI_"))]:
        monkeypatch.delenv(name)


@dataclass
class Talk:
    """The agent's session, and what its history got."""

    session: AgentSession[None]
    asked: list[str] = field(default_factory=list[str])
    answered: list[str] = field(default_factory=list[str])
    failed: list[object] = field(default_factory=list[object])

    def __post_init__(self) -> None:
        emitter = cast(Any, self.session)
        emitter.on("conversation_item_added", self._added)
        emitter.on("error", self.failed.append)

    def _added(self, event: ConversationItemAddedEvent) -> None:
        if isinstance(event.item, llm.ChatMessage):
            side = self.asked if event.item.role == "user" else self.answered
            side.append(event.item.text_content or "")


@asynccontextmanager
async def talking(server: LiveKitServer) -> AsyncGenerator[Talk]:
    """An agent in the room."""
    # Loading holds Python's lock for seconds, in which the person, who lives in this process too, could not speak.
    await asyncio.to_thread(shared().load)
    room = rtc.Room()
    await room.connect(server.url, agent_token(ROOM))
    session: AgentSession[None] = AgentSession(stt=STT(), llm=LLM(), tts=TTS(), vad=VAD())
    try:
        talk = Talk(session)
        await cast(Any, session).start(Agent(instructions=INSTRUCTIONS), room=room)
        yield talk
    finally:
        await session.aclose()
        await room.disconnect()
        # A session closes none of its components, and users seldom do: their threads end without it.


def strangers() -> list[str]:
    """Addresses beyond this machine that this process is connected to."""
    connections = psutil.Process().net_connections(kind="inet")
    remote = {connection.raddr.ip for connection in connections if connection.raddr}
    own = {address.address.partition("%")[0] for interface in psutil.net_if_addrs().values() for address in interface}
    return sorted(address for address in remote - own if not ip_address(address).is_loopback)


async def speak(person: Participant, audio: FloatPcm) -> None:
    """Say this into a microphone that stays on."""
    source = rtc.AudioSource(KIT_HZ, 1, queue_size_ms=1000)  # a busy machine must not tear holes into it
    track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
    options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
    await person.room.local_participant.publish_track(track, options)
    loud = audio * (0.5 / np.abs(audio).max())
    pcm = (np.concatenate([loud, np.zeros(-loud.size % FRAME, np.float32)]) * 32767).astype(np.int16)

    async def run() -> None:
        silence = np.zeros(FRAME, np.int16)
        try:
            for frame in pcm.reshape(-1, FRAME):
                await source.capture_frame(rtc.AudioFrame(frame.tobytes(), KIT_HZ, 1, FRAME))
            while True:
                await source.capture_frame(rtc.AudioFrame(silence.tobytes(), KIT_HZ, 1, FRAME))
        finally:
            await source.aclose()

    person.spawn(run())


@pytest.mark.parametrize("sample_id", ["en_turn_taking_01", "zh_turn_taking_01"])
async def test_a_question_is_answered_aloud_without_key_or_network(
    livekit_server: LiveKitServer, sample_id: str
) -> None:
    loop = asyncio.get_running_loop()
    async with talking(livekit_server) as talk, participant(livekit_server, "person", ROOM) as person:
        await person.until(lambda: person.agent_state() == "listening", "the agent listens")
        await speak(person, render(sample_id).clean)

        def heard() -> bool:
            return bool(talk.answered and person.loud_s) and loop.time() - person.loud_s[-1] > QUIET_S

        await person.until(heard, "an answer was heard", ANSWER_S)
        sound = person.sound()
        assert strangers() == []
    assert talk.failed == []
    asked, answered = " ".join(talk.asked), " ".join(talk.answered)
    assert error_rate(sample(sample_id)["events"][0]["text"], asked)[0] <= 0.4, asked
    assert any(keyword.lower() in answered.lower() for keyword in sample(sample_id)["expected_keywords"]), answered
    recognised = await asyncio.to_thread(shared().recogniser().transcribe, sound)
    assert recognised is not None
    # A word that the recogniser spells with other characters of the same sound is as good.
    assert error_rate(answered, recognised.text)[0] <= 0.6, (answered, recognised.text)
