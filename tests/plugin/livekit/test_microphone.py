from __future__ import annotations

import numpy as np
import pytest
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.livekit.microphone import Microphone
from realtime_venus.plugin.rooms.base import AudioChunk

from .agent_io import frame

HALF: FloatPcm = np.full(320, 0.5, np.float32)


async def everything(microphone: Microphone) -> list[AudioChunk]:
    microphone.close()
    return [chunk async for chunk in microphone.chunks()]


def joined(chunks: list[AudioChunk]) -> FloatPcm:
    return np.concatenate([chunk.samples for chunk in chunks])


def tone(hz: float, seconds: float, rate: int) -> FloatPcm:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


async def test_frames_of_16_khz_come_through_as_they_are() -> None:
    microphone, sound = Microphone(10_000), tone(440, 1.0, 16_000)
    for n, part in enumerate(sound.reshape(-1, 320)):
        microphone.push(frame(part), 100 + n * 0.02)
    chunks = await everything(microphone)
    assert [chunk.position for chunk in chunks] == list(range(0, 16_000, 320))
    assert chunks[-1].arrival_s == pytest.approx(100.98)
    assert np.abs(joined(chunks) - sound).max() < 1e-3


@pytest.mark.parametrize(("rate", "channels"), [(48_000, 1), (44_100, 2), (8_000, 1)])
async def test_other_rates_and_channels_become_16_khz_mono(rate: int, channels: int) -> None:
    microphone = Microphone(10_000)
    sound = np.repeat(tone(440, 1.0, rate), channels)
    size = rate // 50 * channels
    for n in range(50):
        microphone.push(frame(sound[n * size : (n + 1) * size], rate, channels), n * 0.02)
    heard = joined(await everything(microphone))
    assert 15_000 <= heard.size <= 16_000, "what is missing is the filter's delay"
    middle = heard[4000:12_000]
    assert np.argmax(np.abs(np.fft.rfft(middle))) * 16_000 / middle.size == pytest.approx(440, abs=2)


async def test_the_rate_may_change() -> None:
    microphone = Microphone(10_000)
    microphone.push(frame(tone(440, 0.5, 48_000), 48_000), 0.5)
    microphone.push(frame(tone(440, 0.5, 16_000)), 1.0)
    assert joined(await everything(microphone)).size >= 15_000


async def test_a_burst_at_the_start_is_taken_as_it_comes() -> None:
    microphone = Microphone(10_000)
    microphone.fill(10.0)
    for _ in range(100):
        microphone.push(frame(HALF), 10.1)
    for step in range(1, 10):
        microphone.fill(10.1 + step * 0.02)
    assert microphone.counters.filled_samples == 0
    assert microphone.milliseconds == 2000


async def test_silence_stands_in_for_a_muted_microphone_and_then_sound_goes_on() -> None:
    microphone = Microphone(10_000)
    microphone.push(frame(HALF), 0.0)
    for step in range(101):
        microphone.fill(step * 0.02)
    microphone.push(frame(HALF), 2.02)
    heard = joined(await everything(microphone))
    assert heard.size == pytest.approx(2.04 * 16_000, abs=640)
    assert heard[0] > 0.4
    assert heard[-1] > 0.4
    assert np.count_nonzero(heard) == 640


async def test_time_goes_on_without_any_microphone() -> None:
    microphone = Microphone(10_000)
    for step in range(101):
        microphone.fill(step * 0.02)
    assert microphone.milliseconds == pytest.approx(2000, abs=20)


async def test_after_a_stall_nothing_is_filled_before_what_waits_has_come() -> None:
    microphone = Microphone(10_000)
    microphone.fill(0.0)
    microphone.push(frame(HALF), 0.0)
    microphone.fill(3.0)
    assert microphone.counters.filled_samples == 0


async def test_audio_that_nobody_takes_is_bounded() -> None:
    microphone = Microphone(1000)
    for n in range(200):
        microphone.push(frame(HALF), n * 0.02)
    assert microphone.counters.dropped_samples == 3 * 16_000
    assert joined(await everything(microphone)).size == 16_000
