"""A page made of aiortc, on the other end of a real connection over loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCBundlePolicy,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError, VideoStreamTrack
from av import AudioFrame
from realtime_venus.engines.base import Int16Pcm
from realtime_venus.plugin.rooms.webrtc import Answer, WebRtcRoom
from realtime_venus.plugin.rooms.webrtc.adapter import offer_loopback

HZ = 48_000
DEADLINE_S = 20.0


async def until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Wait until ``condition`` holds; fails after a generous deadline."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - the other end is a real connection, it sets no event of ours
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true") from None


class ToneMicrophone(MediaStreamTrack):
    """A sine; stops giving frames while ``paused``, its presentation time going on."""

    kind = "audio"

    def __init__(self, hz: float = 440.0, channels: int = 1, rate: int = HZ) -> None:
        super().__init__()
        self._hz = hz
        self._layout = {1: "mono", 2: "stereo"}[channels]
        self._channels = channels
        self._rate = rate
        self._number = 0
        self._start: float | None = None
        self.paused = False

    async def recv(self) -> AudioFrame:
        loop = asyncio.get_running_loop()
        samples = self._rate // 50
        while True:
            self._start = self._start or loop.time()
            await asyncio.sleep(max(0.0, self._start + self._number * 0.02 - loop.time()))
            if self.readyState != "live":
                raise MediaStreamError
            number, self._number = self._number, self._number + 1
            if not self.paused:
                break
        time = (np.arange(samples) + number * samples) / self._rate
        tone = (9000 * np.sin(2 * np.pi * self._hz * time)).astype(np.int16)
        frame = AudioFrame.from_ndarray(
            np.repeat(tone, self._channels).reshape(1, -1), format="s16", layout=self._layout
        )
        frame.sample_rate = self._rate
        frame.pts = number * samples
        frame.time_base = Fraction(1, self._rate)
        return frame


class _Received(Protocol):
    async def recv(self) -> object: ...


class Page:
    """One connection; answers pings and keeps what arrives."""

    def __init__(self, microphone: MediaStreamTrack | None, *, video: bool = False) -> None:
        offer_loopback()
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE))
        if microphone is None:
            self.connection.addTransceiver("audio", direction="recvonly")
        else:
            self.connection.addTrack(microphone)
        if video:
            self.connection.addTrack(VideoStreamTrack())
        self.channel: RTCDataChannel = self.connection.createDataChannel("events")
        self.channel.on("message", self._on_message)
        self.connection.on("track", self._on_track)
        self.messages: list[dict[str, Any]] = []
        self.heard: list[Int16Pcm] = []
        self.answers_pings = True
        self._drains: list[asyncio.Task[None]] = []

    def _on_message(self, raw: str) -> None:
        message = cast(dict[str, Any], json.loads(raw))
        self.messages.append(message)
        if message["type"] == "ping" and self.answers_pings:
            self.send({"type": "pong"})

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._drains.append(asyncio.create_task(self._drain(track)))

    async def _drain(self, track: MediaStreamTrack) -> None:
        while True:
            try:
                frame = cast(AudioFrame, await cast(_Received, track).recv())
            except MediaStreamError:
                return
            self.heard.append(cast(Int16Pcm, frame.to_ndarray()).reshape(-1)[::2])

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def join(self, room: WebRtcRoom, resume: str = "") -> Answer:
        answer = await room.accept(await self.offer(), resume)
        await self.connection.setRemoteDescription(RTCSessionDescription(answer.sdp, "answer"))
        await until(lambda: self.channel.readyState == "open", "the data channel")
        return answer

    def send(self, message: dict[str, Any]) -> None:
        self.channel.send(json.dumps(message))

    async def close(self) -> None:
        await self.connection.close()
        await asyncio.gather(*self._drains)


@asynccontextmanager
async def page(microphone: MediaStreamTrack | None, *, video: bool = False) -> AsyncGenerator[Page]:
    """A page that is closed at the end, whatever happened."""
    made = Page(microphone, video=video)
    try:
        yield made
    finally:
        await made.close()


def loudest_hz(pcm: Int16Pcm, rate: int) -> float:
    """The frequency with the most energy."""
    spectrum = np.abs(np.fft.rfft(pcm.astype(np.float64) * np.hanning(pcm.size)))
    return float(np.argmax(spectrum) * rate / pcm.size)
