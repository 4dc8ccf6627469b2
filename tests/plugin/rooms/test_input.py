from __future__ import annotations

import numpy as np
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.rooms.base import AudioChunk
from realtime_venus.plugin.rooms.input import UserAudio

SECOND: FloatPcm = np.zeros(16_000, dtype=np.float32)


async def read(audio: UserAudio) -> list[AudioChunk]:
    audio.close()
    return [chunk async for chunk in audio.chunks()]


async def test_a_backlog_is_bounded_and_counted() -> None:
    audio = UserAudio(1000)
    for number in range(4):
        audio.put(SECOND, number * 16_000, 100.0 + number)
    assert [chunk.position for chunk in await read(audio)] == [48_000]
    assert audio.counters.dropped_samples == 48_000


async def test_without_a_microphone_time_goes_on_in_silence() -> None:
    audio = UserAudio(10_000)
    audio.clock.position(100.0)
    audio.fill(100.5, lost=False)
    audio.fill(100.6, lost=False)
    chunks = await read(audio)
    assert [(chunk.position, chunk.samples.size) for chunk in chunks] == [(0, 8000), (8000, 1600)]
    assert not any(chunk.samples.any() for chunk in chunks)


async def test_filling_never_goes_back() -> None:
    audio = UserAudio(10_000)
    audio.put(SECOND, 0, 100.0)
    audio.clock.position(100.0)
    audio.fill(100.2, lost=False)
    assert len(await read(audio)) == 1


async def test_silence_up_to_a_place_is_no_hole() -> None:
    audio = UserAudio(10_000)
    audio.put(SECOND, 0, 101.0)
    audio.silence_until(20_000, 101.3)
    audio.silence_until(18_000, 101.3)
    audio.put(SECOND, 20_000, 102.3)
    assert [(chunk.position, chunk.samples.size) for chunk in await read(audio)] == [
        (0, 16_000),
        (16_000, 4000),
        (20_000, 16_000),
    ]
    assert (audio.counters.holes, audio.counters.filled_samples) == (0, 4000)
