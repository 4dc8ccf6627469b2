"""Somebody in a LiveKit room who plays a file in real time and records the agent's track, on one clock.

    python benchmarks/beside_guest.py URL TOKEN WAV SECONDS OUT

A process of its own, so that what a listener's machine does is not counted as the agent's.  It says ``ready`` when the
agent is heard, begins at the first line it reads, and says when (the system's monotonic clock).  ``OUT`` gets the
agent's voice at 24 kHz, second 0 being the beginning of the file, and beside it the agent's timeline as it arrived.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import soundfile as sf
from livekit import rtc
from realtime_venus.engines.base import INPUT_HZ, OUTPUT_HZ, Int16Pcm

STEP_S = 0.01
"""The SDK sends a frame of 10 ms at once, without a queue of its own."""
BLOCK = round(STEP_S * INPUT_HZ)
HEARD = round(STEP_S * OUTPUT_HZ)
WINDOW = 100
"""Frames; the clock of what is heard is the earliest arrival within so many."""
DEADLINE_S = 30.0
AFTER_S = 0.3


class _Emitter(Protocol):
    def on(self, event: str, callback: Callable[..., None]) -> object: ...


def placed(frames: list[tuple[float, Int16Pcm]], seconds: float) -> Int16Pcm:
    """Put what arrived (second, 10 ms of sound) on a timeline.

    A frame is heard when it would have come without hindrance of this process: as late as the earliest of the next
    frames allows.  What is heard before second 0 or after the end is left out.
    """
    track = np.zeros(round(seconds * OUTPUT_HZ), np.int16)
    offsets = np.array([at - (index + 1) * STEP_S for index, (at, _) in enumerate(frames)])
    for index, (_, pcm) in enumerate(frames):
        first = round((float(offsets[index : index + WINDOW].min()) + index * STEP_S) * OUTPUT_HZ)
        last = min(len(track), first + len(pcm))
        if 0 <= first < last:
            track[first:last] = pcm[: last - first]
    return track


class Guest:
    """One visit."""

    def __init__(self, audio: Int16Pcm) -> None:
        self.room = rtc.Room()
        self.source = rtc.AudioSource(INPUT_HZ, 1, queue_size_ms=0)
        self.audio = audio
        self.frames: list[tuple[float, Int16Pcm]] = []
        self.events: list[tuple[float, dict[str, Any]]] = []
        self.heard = asyncio.Event()
        self.begun = asyncio.Event()
        self.began_s = 0.0
        self.tasks: list[asyncio.Task[None]] = []

    async def join(self, url: str, token: str) -> None:
        emitter = cast(_Emitter, self.room)
        emitter.on("track_subscribed", self._subscribed)
        emitter.on("data_received", self._data)
        await self.room.connect(url, token)
        track = rtc.LocalAudioTrack.create_audio_track("microphone", self.source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await self.room.local_participant.publish_track(track, options)
        self.tasks.append(asyncio.create_task(self._speak()))

    async def leave(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        await self.room.disconnect()

    async def _speak(self) -> None:
        """Frames at the time a microphone would have them; silence before the beginning and after the end."""
        start, step, begun_at = time.monotonic(), 0, -1
        while True:
            await asyncio.sleep(start + (step + 1) * STEP_S - time.monotonic())
            if begun_at < 0 and self.begun.is_set():
                begun_at = step
                self.began_s = start + step * STEP_S
                print(json.dumps({"began": self.began_s}), flush=True)
            first = (step - begun_at) * BLOCK if begun_at >= 0 else len(self.audio)
            part = self.audio[first : first + BLOCK]
            block = np.pad(part, (0, BLOCK - len(part)))
            await self.source.capture_frame(rtc.AudioFrame(block.tobytes(), INPUT_HZ, 1, BLOCK))
            step += 1

    def _subscribed(self, track: rtc.Track, *_: object) -> None:
        if isinstance(track, rtc.RemoteAudioTrack):
            self.tasks.append(asyncio.create_task(self._listen(track)))

    async def _listen(self, track: rtc.RemoteAudioTrack) -> None:
        stream = rtc.AudioStream(track, sample_rate=OUTPUT_HZ, num_channels=1, frame_size_ms=round(STEP_S * 1000))
        try:
            async for event in stream:
                pcm = np.frombuffer(event.frame.data, dtype=np.int16)
                if self.begun.is_set():
                    self.frames.append((time.monotonic(), pcm.copy()))
                self.heard.set()
        finally:
            await stream.aclose()

    def _data(self, packet: rtc.DataPacket) -> None:
        if packet.topic == "venus.events":
            event = cast(dict[str, Any], json.loads(packet.data))
            self.events.append((time.monotonic(), event))


async def visit(url: str, token: str, wav: Path, seconds: float, out: Path) -> None:
    """Come, wait to be told to begin, play and listen, leave."""
    audio = cast(Int16Pcm, sf.read(wav, dtype="int16")[0])
    guest = Guest(audio)
    await guest.join(url, token)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await guest.heard.wait()
        print(json.dumps({"ready": True}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        guest.begun.set()
        await asyncio.sleep(seconds + AFTER_S)
    finally:
        await guest.leave()
    frames = [(at - guest.began_s, pcm) for at, pcm in guest.frames]
    sf.write(out, placed(frames, seconds), OUTPUT_HZ, subtype="PCM_16")
    events = [{**event, "t": round(at - guest.began_s, 3)} for at, event in guest.events if at >= guest.began_s]
    out.with_suffix(".json").write_text(json.dumps(events, ensure_ascii=False), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("wav", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    asyncio.run(visit(args.url, args.token, args.wav, args.seconds, args.out))


if __name__ == "__main__":
    main()
