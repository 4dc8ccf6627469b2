"""What the page relies on to know how far its device has played, as observed with livekit-client 2.23.0, livekit 1.1.21
(the agent's side), livekit-server 1.13.5 and Chromium.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from livekit import rtc
from playwright.async_api import Page

from ..demo_room.conftest import Start, start
from ..kit.browser import launched, tab
from ..kit.livekit_server import KEY, SECRET, LiveKitServer

__all__ = ["start"]

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("native_sockets_closed")]

HZ = 24_000
FRAME = HZ // 50

_HEAR = """async ([url, token]) => {
  const { Room, RoomEvent } = await import("/page/vendor/livekit-client/livekit-client.esm.mjs");
  const room = new Room();
  window.heard = []; // milliseconds, RTP timestamp, level in the packet, peak: whenever it is looked at
  const subscribed = new Promise((resolve) => room.on(RoomEvent.TrackSubscribed, resolve));
  await room.connect(url, token);
  const { receiver, mediaStreamTrack } = await subscribed;
  const stream = new MediaStream([mediaStreamTrack]);
  document.getElementById("voice-out").srcObject = stream;
  const context = new AudioContext();
  const meter = new AnalyserNode(context, { fftSize: 512 });
  context.createMediaStreamSource(stream).connect(meter);
  const samples = new Float32Array(meter.fftSize);
  setInterval(() => {
    const source = receiver.getSynchronizationSources()[0];
    if (!source) return;
    meter.getFloatTimeDomainData(samples);
    const peak = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    window.heard.push([performance.now(), source.rtpTimestamp, source.audioLevel ?? null, peak]);
  }, 10);
}"""


async def say(source: rtc.AudioSource, seconds: float) -> None:
    tone = (8000 * np.sin(2 * np.pi * 220 * np.arange(FRAME) / HZ)).astype(np.int16).tobytes()
    for _ in range(int(seconds * 50)):
        await source.capture_frame(rtc.AudioFrame(tone, HZ, 1, FRAME))
    await source.wait_for_playout()


async def onsets(page: Page, count: int) -> list[tuple[float, int]]:
    """When sound began after silence, in ms of the page and on the RTP clock."""
    looked: list[tuple[float, int, Any, float]] = []
    async with asyncio.timeout(20):
        while True:
            looked = await page.evaluate("window.heard")
            found: list[tuple[float, int]] = []
            silent_since = -1000.0
            for now, rtp, _, peak in looked:
                if peak > 0.05:
                    if now - silent_since > 300:
                        found.append((now, rtp))
                    silent_since = now
            if len(found) >= count and looked[-1][0] - silent_since > 600:
                return found
            await asyncio.sleep(0.1)


async def test_the_rtp_clock_of_an_agent_that_sends_nothing_goes_on_in_real_time(
    start: Start, livekit_server: LiveKitServer
) -> None:
    agent = rtc.Room()
    await agent.connect(livekit_server.url, livekit_server.token("agent", "room"))
    source = rtc.AudioSource(HZ, 1, queue_size_ms=60)
    try:
        track = rtc.LocalAudioTrack.create_audio_track("voice", source)
        await agent.local_participant.publish_track(track)
        async with (
            start(livekit={"url": livekit_server.url, "key": KEY, "secret": SECRET}) as server,
            launched() as browser,
            tab(browser) as made,
        ):
            await made.page.goto(server.address)
            await made.page.evaluate(_HEAR, [livekit_server.url, livekit_server.token("page", "room")])
            await say(source, 0.5)
            (first,) = await onsets(made.page, 1)
            await say(source, 0.5)
            first, second = await onsets(made.page, 2)
            looked = await made.page.evaluate("window.heard")
        by_page, by_rtp = second[0] - first[0], (second[1] - first[1]) % 2**32 / 48
        assert by_page > 1000
        # Were it to stop while nothing is sent, this would be 500 ms.
        assert by_rtp == pytest.approx(by_page, abs=250)
        # Silence is exact enough to tell a quiet voice from it, and no packet says its own level.
        quiet = [peak for now, _, _, peak in looked if first[0] + 900 < now < second[0] - 100]
        assert np.median(quiet) < 0.0002
        assert {level for _, _, level, _ in looked} == {None}
    finally:
        await agent.disconnect()
        await source.aclose()
