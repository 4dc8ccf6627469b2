from __future__ import annotations

import numpy as np
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.rooms.base import AudioChunk
from realtime_venus.plugin.rooms.livekit.ears import Ears


def frame(level: float = 0.1) -> FloatPcm:
    return np.full(320, level, dtype=np.float32)


class Room:
    """Ears with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.ears = Ears(10_000, 60, lambda: self.now_s)

    def talk(self, frames: int, key: str = "t1", speaker: str = "alice", level: float = 0.1) -> None:
        for _ in range(frames):
            self.now_s += 0.02
            self.ears.sound(key, speaker, frame(level))

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.now_s += 0.1
            self.ears.fill(stalled=False)

    async def chunks(self) -> list[AudioChunk]:
        self.ears.close()
        return [chunk async for chunk in self.ears.chunks()]


def whole(chunks: list[AudioChunk]) -> bool:
    """Whether no position is missing."""
    ends = [0, *(chunk.position + chunk.samples.size for chunk in chunks)]
    return all(chunk.position == end for chunk, end in zip(chunks, ends[:-1], strict=True))


async def test_before_time_begins_nothing_is_made_up() -> None:
    room = Room()
    room.wait(5)
    assert await room.chunks() == []


async def test_silence_before_and_after_a_microphone_leaves_no_hole() -> None:
    room = Room()
    room.ears.begin()
    room.wait(1.25)
    room.now_s += 0.033
    room.talk(10)
    room.ears.ended("t1", "alice")
    room.wait(2)
    room.now_s += 0.047
    room.talk(10, key="t2")
    assert room.ears.microphones == 1
    chunks = await room.chunks()
    assert whole(chunks)
    assert room.ears.input_counters.holes == 0
    assert abs(sum(chunk.samples.size for chunk in chunks) / 16 - room.ears.clock_ms) < 40


async def test_a_microphone_that_falls_silent_without_a_word_has_lost_something() -> None:
    room = Room()
    room.ears.begin()
    room.talk(10)
    room.wait(2)
    chunks = await room.chunks()
    assert not whole(chunks)


async def test_after_a_stall_what_lies_ready_is_read_first() -> None:
    room = Room()
    room.ears.begin()
    room.talk(10)
    room.now_s += 2.0
    room.ears.fill(stalled=True)
    for _ in range(100):
        room.ears.sound("t1", "alice", frame())
    assert whole(await room.chunks())


def test_whoever_was_loudest_spoke() -> None:
    room = Room()
    room.ears.begin()
    room.talk(1, level=0.001)
    room.talk(50, level=0.3)
    assert room.ears.speaker(0, 1000) == "alice"
    assert room.ears.speaker(5000, 6000) is None
