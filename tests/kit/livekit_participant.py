"""People of a LiveKit room, made of the Python SDK: each with microphone, camera, ears and a page's manners."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import pytest
from livekit import api, rtc
from realtime_venus.engines.base import INPUT_HZ, FloatPcm, Int16Pcm

from .livekit_server import KEY, SECRET, LiveKitServer

DEADLINE_S = 30.0
_LOUD = 2000
"""Peak of a 16-bit frame that no noise of a codec reaches."""

Json = dict[str, Any]


def agent_token(room: str, identity: str = "venus") -> str:
    """A token as an agent should have it."""
    grants = api.VideoGrants(room_join=True, room=room, can_update_own_metadata=True)
    return api.AccessToken(KEY, SECRET).with_identity(identity).with_kind("agent").with_grants(grants).to_jwt()


def token_of_kind(kind: str, room: str, identity: str, attributes: dict[str, str] | None = None) -> str:
    """A token of a participant of ``kind`` (``sip``, ``agent``...)."""
    grants = api.VideoGrants(room_join=True, room=room, can_update_own_metadata=True)
    made = api.AccessToken(KEY, SECRET).with_identity(identity).with_grants(grants)
    return made.with_kind(cast(Any, kind)).with_attributes(attributes or {}).to_jwt()


class _Emitter(Protocol):
    def on(self, event: str, callback: Callable[..., None]) -> object: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """A caption as it arrived: in whose name, with which attributes."""

    identity: str
    attributes: dict[str, str]
    text: str

    @property
    def final(self) -> bool:
        return self.attributes["lk.transcription_final"] == "true"


class Microphone:
    """A published microphone: silent but for what it is told to say."""

    def __init__(self, hz: int, channels: int) -> None:
        self.hz = hz
        self.channels = channels
        self.source = rtc.AudioSource(hz, channels, queue_size_ms=100)
        self.track = rtc.LocalAudioTrack.create_audio_track("microphone", self.source)
        self.publication: rtc.LocalTrackPublication | None = None
        self._frames: asyncio.Queue[Int16Pcm] = asyncio.Queue()

    async def say(self, sound: FloatPcm, hz: int = INPUT_HZ) -> None:
        """Say mono ``sound`` and wait until the last of it is on its way."""
        length = len(sound) * self.hz // hz
        stretched = np.interp(np.arange(length) * hz / self.hz, np.arange(len(sound)), sound)
        size = self.hz // 50
        padded = np.concatenate([stretched, np.zeros(-length % size)])
        for frame in (padded * 32767).astype(np.int16).reshape(-1, size):
            self._frames.put_nowait(frame)
        await self._frames.join()

    async def run(self) -> None:
        silence = np.zeros(self.hz // 50, dtype=np.int16)
        try:
            while True:
                told = not self._frames.empty()
                frame = self._frames.get_nowait() if told else silence
                pcm = np.repeat(frame, self.channels).tobytes()
                await self.source.capture_frame(rtc.AudioFrame(pcm, self.hz, self.channels, len(frame)))
                if told:
                    self._frames.task_done()
        finally:
            await self.source.aclose()


class Camera:
    """A published picture of one colour left and another one right."""

    def __init__(self, left: tuple[int, int, int], right: tuple[int, int, int]) -> None:
        self.source = rtc.VideoSource(128, 96)
        self.track = rtc.LocalVideoTrack.create_video_track("camera", self.source)
        self.publication: rtc.LocalTrackPublication | None = None
        self.rotation = rtc.VideoRotation.VIDEO_ROTATION_0
        self.image = np.zeros((96, 128, 4), dtype=np.uint8)
        self.image[:, :64] = (*left, 255)
        self.image[:, 64:] = (*right, 255)

    async def run(self) -> None:
        try:
            while True:
                frame = rtc.VideoFrame(128, 96, rtc.VideoBufferType.RGBA, self.image.tobytes())
                self.source.capture_frame(frame, rotation=cast(Any, self.rotation))
                await asyncio.sleep(0.05)
        finally:
            await self.source.aclose()


What = str | Callable[[], str]
"""What is waited for; or how to say, at the end of the time, what has become of it."""


@dataclass
class Participant:
    """Somebody in the room."""

    room: rtc.Room
    events: list[Json] = field(default_factory=list[Json])
    shown: list[Shown] = field(default_factory=list[Shown])
    loud_s: list[float] = field(default_factory=list[float])
    """When a loud frame (10 ms) of an agent was heard, on the loop's clock."""
    recorded: list[Int16Pcm] = field(default_factory=list[Int16Pcm])
    """What was heard of agents, at 16 kHz."""
    ended: list[str] = field(default_factory=list[str])
    _leaving: bool = False
    _pieces: list[str] = field(default_factory=list[str])
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def join(self, url: str, token: str, encryption: rtc.E2EEOptions | None = None) -> None:
        emitter = cast(_Emitter, self.room)
        for name in (
            "participant_connected",
            "participant_disconnected",
            "participant_attributes_changed",
            "track_published",
            "reconnected",
            "local_track_republished",
        ):
            emitter.on(name, self._something)
        emitter.on("disconnected", self._disconnected)
        emitter.on("data_received", self._data)
        emitter.on("track_subscribed", self._subscribed)
        self.room.register_text_stream_handler("lk.transcription", self._caption)
        await self.room.connect(url, token, rtc.RoomOptions(encryption=encryption))

    async def leave(self) -> None:
        self._leaving = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.room.disconnect()

    # -- what it does ------------------------------------------------------------------------------------------

    async def microphone(self, hz: int = 48_000, channels: int = 1) -> Microphone:
        made = Microphone(hz, channels)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        made.publication = await self.room.local_participant.publish_track(made.track, options)
        self.spawn(made.run())
        return made

    async def camera(
        self,
        left: tuple[int, int, int],
        right: tuple[int, int, int] | None = None,
        source: rtc.TrackSource.ValueType = rtc.TrackSource.SOURCE_CAMERA,
    ) -> Camera:
        made = Camera(left, right or left)
        options = rtc.TrackPublishOptions(source=source, simulcast=False)
        made.publication = await self.room.local_participant.publish_track(made.track, options)
        self.spawn(made.run())
        return made

    async def unpublish(self, made: Microphone | Camera) -> None:
        assert made.publication is not None
        await self.room.local_participant.unpublish_track(made.publication.sid)

    async def ask(self, method: str, payload: object = None, to: str = "venus") -> Json:
        """Call the agent; ``payload`` is sent as JSON, a string as it is."""
        raw = payload if isinstance(payload, str) else json.dumps(payload or {})
        answer = await self.room.local_participant.perform_rpc(
            destination_identity=to, method=method, payload=raw, response_timeout=10
        )
        return cast(Json, json.loads(answer))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- what it notices ---------------------------------------------------------------------------------------

    async def until(self, true: Callable[[], object], what: What, timeout_s: float = DEADLINE_S) -> None:
        """Wait until ``true()`` is; looked at whenever anything was noticed, and now and then."""
        await until(true, what, timeout_s, self._moved)

    def of(self, kind: str) -> list[Json]:
        """Events of the agent's timeline of that type."""
        return [event for event in self.events if event["type"] == kind and "seq" in event]

    def agent_state(self, identity: str = "venus") -> str:
        found = self.room.remote_participants.get(identity)
        return "" if found is None else found.attributes.get("lk.agent.state", "")

    def sound(self) -> FloatPcm:
        """All that was heard of agents, mono at 16 kHz."""
        return np.concatenate(self.recorded).astype(np.float32) / np.float32(32768)

    def _something(self, *_: object) -> None:
        self._moved.set()

    def _disconnected(self, reason: int) -> None:
        self.ended.append(cast(str, cast(Any, rtc.DisconnectReason).Name(reason)))
        self._moved.set()

    def _data(self, packet: rtc.DataPacket) -> None:
        if packet.topic != "venus.events":
            return
        event: Json = json.loads(packet.data)
        if event["type"] == "chunk":
            self._pieces.append(event["data"])
            if event["index"] + 1 < event["count"]:
                return
            event = json.loads("".join(self._pieces))
            self._pieces.clear()
        self.events.append(event)
        self._moved.set()

    def _caption(self, reader: rtc.TextStreamReader, identity: str) -> None:
        async def read() -> None:
            text = await reader.read_all()
            self.shown.append(Shown(identity, dict(reader.info.attributes or {}), text))
            self._moved.set()

        self.spawn(read())

    def _subscribed(self, track: rtc.Track, _: object, participant: rtc.RemoteParticipant) -> None:
        agent = participant.kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
        ours = agent or participant.identity.startswith("venus")
        if isinstance(track, rtc.RemoteAudioTrack) and not self._leaving and ours:
            self.spawn(self._listen(track))

    async def _listen(self, track: rtc.RemoteAudioTrack) -> None:
        stream = rtc.AudioStream(track, sample_rate=INPUT_HZ, num_channels=1)
        loop = asyncio.get_running_loop()
        try:
            async for event in stream:
                pcm = np.frombuffer(event.frame.data, dtype=np.int16)
                self.recorded.append(pcm.copy())
                if np.abs(pcm.astype(np.int32)).max() > _LOUD:
                    self.loud_s.append(loop.time())
                    self._moved.set()
        finally:
            await stream.aclose()


async def until(
    true: Callable[[], object], what: What, timeout_s: float = DEADLINE_S, moved: asyncio.Event | None = None
) -> None:
    """Wait until ``true()`` is; fail with ``what`` did not come, or with what it says then."""
    moved = moved or asyncio.Event()
    try:
        async with asyncio.timeout(timeout_s):
            while not true():
                moved.clear()
                try:
                    async with asyncio.timeout(0.05):
                        await moved.wait()
                except TimeoutError:
                    continue
    except TimeoutError:
        pytest.fail(f"it did not come: {what if isinstance(what, str) else what()}", pytrace=False)


@asynccontextmanager
async def participant(
    server: LiveKitServer, identity: str, room: str = "talk", token: str | None = None, **more: Any
) -> AsyncGenerator[Participant]:
    """Somebody who joins, and leaves afterwards."""
    one = Participant(rtc.Room())
    await one.join(server.url, token or server.token(identity, room), **more)
    try:
        yield one
    finally:
        await one.leave()
