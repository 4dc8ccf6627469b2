"""Somebody in a LiveKit room who says nothing: a quiet microphone and, if asked, a camera.  Stays until stdin closes.

    python benchmarks/rooms_guest.py URL TOKEN [--video]

A process of its own, so that it is not counted as the agent's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

import numpy as np
from livekit import rtc
from realtime_venus.engines.base import INPUT_HZ

STEP_S = 0.01
BLOCK = round(STEP_S * INPUT_HZ)
QUIET = 10**-3
"""RMS of the noise of a quiet room, -60 dBFS."""
WIDTH, HEIGHT, FPS = 640, 360, 15


async def speak(source: rtc.AudioSource) -> None:
    """Noise, in real time."""
    noise = (np.random.default_rng(0).normal(0, QUIET, (500, BLOCK)) * 32767).astype(np.int16)
    start, step = time.monotonic(), 0
    while True:
        await asyncio.sleep(start + (step + 1) * STEP_S - time.monotonic())
        await source.capture_frame(rtc.AudioFrame(noise[step % len(noise)].tobytes(), INPUT_HZ, 1, BLOCK))
        step += 1


async def show(source: rtc.VideoSource) -> None:
    """A gradient that moves, with some noise that stays: neither trivial nor impossible to encode."""
    x = np.linspace(0, 255, WIDTH, dtype=np.float32)[None, :]
    y = np.linspace(0, 255, HEIGHT, dtype=np.float32)[:, None]
    noise = np.random.default_rng(0).normal(0, 12, (HEIGHT, WIDTH))
    pictures: list[bytes] = []
    for shift in range(0, 256, 8):
        picture = np.full((HEIGHT, WIDTH, 4), 255, np.uint8)
        picture[..., 0] = np.clip((x + shift) % 256 + noise, 0, 255).astype(np.uint8)
        picture[..., 1] = np.clip((y + shift) % 256 + noise, 0, 255).astype(np.uint8)
        pictures.append(picture.tobytes())
    start, step = time.monotonic(), 0
    while True:
        await asyncio.sleep(start + step / FPS - time.monotonic())
        source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, pictures[step % len(pictures)]))
        step += 1


async def visit(url: str, token: str, video: bool) -> None:
    """Join, publish, stay."""
    room = rtc.Room()
    await room.connect(url, token)
    sound = rtc.AudioSource(INPUT_HZ, 1, queue_size_ms=0)
    tasks: list[asyncio.Task[None]] = []
    try:
        await room.local_participant.publish_track(
            rtc.LocalAudioTrack.create_audio_track("microphone", sound),
            rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE),
        )
        tasks.append(asyncio.create_task(speak(sound)))
        if video:
            camera = rtc.VideoSource(WIDTH, HEIGHT)
            await room.local_participant.publish_track(
                rtc.LocalVideoTrack.create_video_track("camera", camera),
                rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_CAMERA, simulcast=False),
            )
            tasks.append(asyncio.create_task(show(camera)))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await room.disconnect()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--video", action="store_true")
    args = parser.parse_args()
    asyncio.run(visit(args.url, args.token, args.video))


if __name__ == "__main__":
    main()
