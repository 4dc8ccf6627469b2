"""A participant made of the Python SDK: it speaks, hears the agent, and knows who comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import numpy as np
import pytest
from livekit import rtc

from .livekit_server import LiveKitServer

DEADLINE_S = 45.0
_HZ = 48_000
_FRAME = _HZ // 50
_LOUD = 500
"""Root mean square of 16-bit samples that no noise of a codec reaches."""


class _Emitter(Protocol):
    def on(self, event: str, callback: Callable[..., None]) -> object: ...


class Guest:
    """A connected participant."""

    def __init__(self, room: rtc.Room) -> None:
        self.room = room
        self._moved = asyncio.Event()
        self._heard: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        emitter = cast(_Emitter, room)
        for event in ("participant_connected", "participant_disconnected", "participant_attributes_changed"):
            emitter.on(event, lambda *_: self._moved.set())
        for event in ("connected", "disconnected", "reconnected"):
            emitter.on(event, lambda *_: self._moved.set())
        emitter.on("track_subscribed", self._subscribed)

    @property
    def agents(self) -> list[rtc.RemoteParticipant]:
        """The agents in the room."""
        kind = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
        return [one for one in self.room.remote_participants.values() if one.kind == kind]

    async def until(self, true: Callable[[], object], timeout_s: float = DEADLINE_S) -> None:
        """Wait until ``true()`` is; looked at whenever somebody came, went or changed."""
        try:
            async with asyncio.timeout(timeout_s):
                while not true():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            pytest.fail(f"it did not come to be; agents here: {[one.identity for one in self.agents]}")

    async def agent(self) -> rtc.RemoteParticipant:
        """The one agent, once it is here."""
        await self.until(lambda: self.agents)
        (only,) = self.agents
        return only

    async def alone(self, timeout_s: float = DEADLINE_S) -> None:
        """Wait until there is no agent."""
        await self.until(lambda: not self.agents, timeout_s)

    async def hears(self, agent: rtc.RemoteParticipant) -> None:
        """Wait until a loud sound of the agent has come (since the last call)."""
        heard = self._heard.setdefault(agent.identity, asyncio.Event())
        heard.clear()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await heard.wait()
        except TimeoutError:
            pytest.fail(f"nothing was heard of {agent.identity}")

    async def speak(self) -> None:
        """Publish a microphone and keep sending a quiet hum."""
        source = rtc.AudioSource(_HZ, 1)
        track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await self.room.local_participant.publish_track(track, options)
        self._begin(self._hum(source))

    async def leave(self) -> None:
        """Leave the room and end everything that was begun for it."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.room.disconnect()

    async def _hum(self, source: rtc.AudioSource) -> None:
        time = np.arange(_FRAME) / _HZ
        pcm = (60 * np.sin(2 * np.pi * 200 * time)).astype(np.int16).tobytes()
        try:
            while True:
                await source.capture_frame(rtc.AudioFrame(pcm, _HZ, 1, _FRAME))
        finally:
            await source.aclose()

    def _subscribed(self, track: rtc.Track, _: object, participant: rtc.RemoteParticipant) -> None:
        if isinstance(track, rtc.RemoteAudioTrack):
            self._begin(self._listen(track, participant.identity))

    async def _listen(self, track: rtc.RemoteAudioTrack, identity: str) -> None:
        stream = rtc.AudioStream(track)
        try:
            async for event in stream:
                samples = np.frombuffer(cast(Any, event.frame.data), np.int16).astype(np.float64)
                if np.sqrt(np.mean(samples**2)) > _LOUD:
                    self._heard.setdefault(identity, asyncio.Event()).set()
        finally:
            await stream.aclose()

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def guest(
    server: LiveKitServer, room: str, identity: str = "guest", token: str | None = None
) -> AsyncGenerator[Guest]:
    """Somebody who is in ``room`` and speaks; leaves afterwards."""
    joined = Guest(rtc.Room())
    await joined.room.connect(server.url, token or server.token(identity, room))
    try:
        await joined.speak()
        yield joined
    finally:
        await joined.leave()
