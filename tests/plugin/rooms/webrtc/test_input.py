from __future__ import annotations

import numpy as np
from realtime_venus.engines.base import FloatPcm, Int16Pcm
from realtime_venus.plugin.rooms.base import AudioChunk
from realtime_venus.plugin.rooms.input import InputClock, UserAudio
from realtime_venus.plugin.rooms.webrtc.input import Placer, open_writer

FRAME: Int16Pcm = np.full(960, 1000, dtype=np.int16)
SECOND: FloatPcm = np.zeros(16_000, dtype=np.float32)


async def read(audio: UserAudio) -> list[AudioChunk]:
    audio.close()
    return [chunk async for chunk in audio.chunks()]


def test_frames_lie_side_by_side_from_zero() -> None:
    placer = Placer(InputClock(), 0)
    assert [placer.place(5000 + n * 960, 320, 100 + n * 0.02) for n in range(3)] == [0, 320, 640]


def test_a_lost_frame_leaves_its_place_empty() -> None:
    placer = Placer(InputClock(), 0)
    assert [placer.place(n * 960, 320, 100 + n * 0.02) for n in (0, 1, 4)] == [0, 320, 1280]


def test_what_comes_too_late_has_no_place() -> None:
    placer = Placer(InputClock(), 0)
    assert [placer.place(n * 960, 320, 100 + n * 0.02) for n in (0, 4, 2)] == [0, 1280, None]


def test_a_jump_of_the_senders_clock_is_not_believed() -> None:
    placer = Placer(InputClock(), 0)
    placer.place(0, 320, 100.0)
    assert placer.place(2**31, 320, 100.04) == 320
    assert placer.place(2**31 + 960, 320, 100.06) == 640
    assert placer.rebased == 1


def test_a_burst_after_a_stall_keeps_its_places() -> None:
    placer = Placer(InputClock(), 0)
    placer.place(0, 320, 100.0)
    burst = [placer.place(n * 960, 320, 103.0) for n in range(1, 140)]
    assert burst == [n * 320 for n in range(1, 140)]
    assert placer.rebased == 0


def test_a_sender_that_stays_behind_is_brought_up() -> None:
    placer = Placer(InputClock(), 0)
    placer.place(0, 320, 100.0)
    places = [placer.place(n * 960, 320, 105.0 + n * 0.02) for n in range(1, 200)]
    assert placer.rebased == 1
    last = places[-1]
    assert last is not None
    assert abs(last - (5.0 + 199 * 0.02) * 16_000) < 1000


def test_a_new_connection_goes_on_at_the_present() -> None:
    clock = InputClock()
    first = Placer(clock, 0)
    first.place(0, 320, 100.0)
    second = Placer(clock, 320)
    assert second.place(777_777, 320, 104.0) == 4 * 16_000 - 320


def test_a_new_connection_never_goes_back() -> None:
    clock = InputClock()
    clock.position(100.0)
    assert Placer(clock, 50_000).place(0, 320, 101.0) == 50_000


async def test_chunks_come_in_order_and_end_with_the_room() -> None:
    audio = UserAudio(10_000)
    writer = open_writer(audio, 1)
    for number in range(3):
        writer.write(FRAME, 960, number * 960, 100 + number * 0.02)
    chunks = await read(audio)
    assert [(chunk.position, chunk.samples.size) for chunk in chunks] == [(0, 320), (320, 320), (640, 320)]
    assert [round(chunk.arrival_s - 100, 2) for chunk in chunks] == [0.0, 0.02, 0.04]


async def test_holes_are_counted_and_left_as_jumps() -> None:
    audio = UserAudio(10_000)
    writer = open_writer(audio, 1)
    for number in (0, 1, 4):
        writer.write(FRAME, 960, number * 960, 100 + number * 0.02)
    assert [chunk.position for chunk in await read(audio)] == [0, 320, 1280]
    assert (audio.counters.holes, audio.counters.missing_samples) == (1, 640)


async def test_nothing_of_the_sound_before_a_hole_rings_on_after_it() -> None:
    audio = UserAudio(10_000)
    writer = open_writer(audio, 1)
    writer.write(FRAME, 960, 0, 100.0)
    writer.write(np.zeros(960, dtype=np.int16), 960, 9600, 100.2)
    assert not (await read(audio))[1].samples.any()


async def test_lost_audio_becomes_a_gap_while_it_lasts() -> None:
    audio = UserAudio(10_000)
    open_writer(audio, 1).write(FRAME, 960, 0, 100.0)
    audio.fill(101.0, lost=True)
    first, second = await read(audio)
    assert (first.position, first.samples.size) == (0, 320)
    assert (second.position + second.samples.size, second.samples.size) == (16_000 - 3200, 320)


async def test_late_audio_is_dropped_after_its_place_was_filled() -> None:
    audio = UserAudio(10_000)
    writer = open_writer(audio, 1)
    writer.write(FRAME, 960, 0, 100.0)
    audio.fill(101.0, lost=True)
    writer.write(FRAME, 960, 960, 101.0)
    assert len(await read(audio)) == 2
    assert audio.counters.late == 1
    assert audio.last_arrival_s == 101.0


async def test_audio_that_comes_back_after_a_gap_has_its_place() -> None:
    audio = UserAudio(10_000)
    writer = open_writer(audio, 1)
    writer.write(FRAME, 960, 0, 100.0)
    audio.fill(101.0, lost=True)
    writer.write(FRAME, 960, 47 * 960, 101.03)
    assert [chunk.position for chunk in await read(audio)] == [0, 12_480, 47 * 320]
    assert audio.counters.late == 0
