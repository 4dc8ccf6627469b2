"""A host without an engine: it plays a tone and publishes events as an engine's session would."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from realtime_venus.demo_room.host import HostState, Profile, Progress
from realtime_venus.engines.base import OUTPUT_HZ, Capabilities, Int16Pcm, Language, SessionOptions
from realtime_venus.plugin.rooms.base import (
    PLAYOUT_SAMPLES,
    Acknowledge,
    Command,
    Interrupt,
    MediaRoom,
    PlayoutFrame,
    TypeText,
)

WORDS = "Hello, I am Venus. I can hear you while I speak, so feel free to interrupt me whenever you like."


class Tone:
    """A sine of 440 Hz that can be silenced; every frame has its number."""

    def __init__(self, hz: float = 440.0) -> None:
        self._hz = hz
        self._number = 0
        self.loud = True

    def pull(self) -> PlayoutFrame:
        number, self._number = self._number, self._number + 1
        if not self.loud:
            return PlayoutFrame(number, np.zeros(PLAYOUT_SAMPLES, dtype=np.int16), silent=True)
        time = (np.arange(PLAYOUT_SAMPLES) + number * PLAYOUT_SAMPLES) / OUTPUT_HZ
        pcm: Int16Pcm = (9000 * np.sin(2 * np.pi * self._hz * time)).astype(np.int16)
        return PlayoutFrame(number, pcm, silent=False)


class ScriptedHost:
    """Ready at once; every conversation plays a tone until its room is left."""

    def __init__(self, *, max_sessions: int = 2, state: HostState = HostState.READY, sees: bool = False) -> None:
        self.state = state
        self.progress = Progress("pulling", 0.4)
        self.error = "the model files are missing" if state is HostState.FAILED else ""
        self.profile = Profile(
            "scripted",
            (Language.EN, Language.ZH),
            {Language.EN: ("hibari", "af_heart"), Language.ZH: ("zf_001",)},
            Capabilities(type=True, transcripts=True, text_chars=60),
            max_sessions,
            sees,
        )
        self.rooms: list[MediaRoom] = []
        self.options: list[SessionOptions] = []
        self.commands: list[Command] = []
        self.samples = 0
        self.loudest = 0.0
        self.refused = ""
        """Why the next texts are not taken."""
        self.tone = Tone()

    async def converse(self, room: MediaRoom, options: SessionOptions) -> None:
        self.rooms.append(room)
        self.options.append(options)
        room.play(self.tone)
        play(room, opening(room.kind))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(room))
            group.create_task(self._obey(room))

    async def close(self) -> None:
        return

    async def _listen(self, room: MediaRoom) -> None:
        async for chunk in room.audio():
            self.samples += chunk.samples.size
            self.loudest = max(self.loudest, float(np.abs(chunk.samples).max(initial=0.0)))

    async def _obey(self, room: MediaRoom) -> None:
        async for command in room.commands():
            self.commands.append(command)
            if isinstance(command, TypeText) and self.refused:
                refused = {"code": "refused", "message": self.refused, "fatal": False}
                play(room, [{"type": "trouble", "at_ms": 9000, **refused}])
            elif isinstance(command, TypeText):
                at = 9000
                play(room, [_user(command.text, at, final=True, typed=True)])
            elif isinstance(command, Interrupt):
                self.tone.loud = False
            elif isinstance(command, Acknowledge):
                room.publish({"type": "playout", "at_ms": 9000, "seq": 900, **_range("u1", "heard", command.number)})


def play(room: MediaRoom, events: list[dict[str, Any]]) -> None:
    """Publish ``events`` in order, numbered."""
    for number, event in enumerate(events):
        room.publish({"seq": number, **event})


def _range(utterance: str, state: str, number: int) -> dict[str, Any]:
    return {
        "utterance_id": utterance,
        "state": state,
        "first_sample": 0,
        "end_sample": (number + 1) * PLAYOUT_SAMPLES,
        "estimated": False,
    }


def _user(text: str, at: int, *, final: bool, typed: bool = False) -> dict[str, Any]:
    return {
        "type": "user.text",
        "at_ms": at,
        "text": text,
        "start_ms": at,
        "end_ms": at,
        "final": final,
        "language": "en",
        "typed": typed,
        "speaker": "user",
    }


def opening(room: str) -> list[dict[str, Any]]:
    """The events at the beginning of a conversation: a question, and an answer that begins to play."""
    begun: dict[str, Any] = {
        "type": "session.started",
        "at_ms": 0,
        "session_id": "s",
        "engine": "scripted",
        "room": room,
        "unit_ms": 100,
        "language": "auto",
        "voice": "",
        "recording": False,
    }
    partial = {**_user("who are", 0, final=False), "at_ms": 300}
    final = {**_user("Who are you?", 0, final=True), "at_ms": 900}
    return [
        begun,
        {"type": "agent.state", "at_ms": 0, "state": "listening"},
        {"type": "agent.decision", "at_ms": 0, "decision": "listen"},
        {"type": "user.speech", "at_ms": 0, "phase": "started"},
        partial,
        {"type": "user.speech", "at_ms": 800, "phase": "ended"},
        final,
        {"type": "agent.state", "at_ms": 900, "state": "thinking"},
        {"type": "agent.decision", "at_ms": 1500, "decision": "speak"},
        {
            "type": "agent.text",
            "at_ms": 1500,
            "utterance_id": "u1",
            "text": WORDS,
            "first_sample": 0,
            "end_sample": 144_000,
        },
        {
            "type": "agent.speech",
            "at_ms": 1500,
            "utterance_id": "u1",
            "first_sample": 0,
            "samples": 144_000,
            "opener": False,
        },
        {"type": "agent.state", "at_ms": 1520, "state": "speaking"},
        {"type": "latency", "at_ms": 1520, "utterance_id": "u1", "edge_ms": 720, "opener_ms": None},
    ]
