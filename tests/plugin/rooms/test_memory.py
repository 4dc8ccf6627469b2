from __future__ import annotations

import asyncio

import numpy as np
import pytest
from pydantic import ValidationError
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.rooms.base import Acknowledge, AudioChunk, Command, Interrupt, MediaRoom, PlayoutFrame
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions, TimedCommand

from ...kit.virtual_time import run_virtual

AUDIO: FloatPcm = np.linspace(-1, 1, 16000, dtype=np.float32)


class Counting:
    """Numbers its frames; loud in those listed."""

    def __init__(self, loud: range = range(0)) -> None:
        self.number = 0
        self.loud = loud

    def pull(self) -> PlayoutFrame:
        number, self.number = self.number, self.number + 1
        silent = number not in self.loud
        return PlayoutFrame(number, np.full(480, 0 if silent else number, np.int16), silent)


async def leave(room: MediaRoom) -> list[AudioChunk]:
    return [chunk async for chunk in room.audio()]


def collect(room: MemoryRoom, source: Counting | None = None) -> tuple[list[AudioChunk], list[Command], float]:
    async def main() -> tuple[list[AudioChunk], list[Command], float]:
        if source is not None:
            room.play(source)
        commands: list[Command] = []

        async def obey() -> None:
            commands.extend([command async for command in room.commands()])

        task = asyncio.create_task(obey())
        chunks = await leave(room)
        await room.close()
        await task
        return chunks, commands, asyncio.get_running_loop().time()

    return run_virtual(main())


@pytest.mark.parametrize("fast", [False, True])
def test_both_tracks_lie_on_one_clock(fast: bool) -> None:
    room = MemoryRoom(AUDIO, options=MemoryRoomOptions(fast=fast))
    chunks, _, took_s = collect(room, Counting(range(1000)))
    assert np.array_equal(np.concatenate([chunk.samples for chunk in chunks]), AUDIO)
    assert [chunk.position for chunk in chunks] == list(range(0, 16000, 320))
    assert len(room.agent_audio) == 24000
    assert room.agent_audio[480 * 7] == 7
    assert took_s == pytest.approx(0.0 if fast else 1.0)
    if not fast:
        assert [chunk.arrival_s for chunk in chunks] == pytest.approx([0.02 * (n + 1) for n in range(50)])


def test_the_last_chunk_is_filled_up() -> None:
    chunks, _, _ = collect(MemoryRoom(AUDIO[:330]))
    assert [len(chunk.samples) for chunk in chunks] == [320, 320]
    assert not chunks[1].samples[10:].any()


@pytest.mark.parametrize("fast", [False, True])
def test_reports_come_with_their_delay(fast: bool) -> None:
    options = MemoryRoomOptions(fast=fast, ack_delay_ms=100, ack_every_ms=240)
    _, commands, _ = collect(MemoryRoom(AUDIO, options=options), Counting())
    assert commands == [Acknowledge(number) for number in (6, 18, 30, 42)]


def test_a_listener_may_report_nothing() -> None:
    room = MemoryRoom(AUDIO, options=MemoryRoomOptions(ack_delay_ms=None))
    assert not room.acknowledges
    assert collect(room, Counting())[1] == []


def test_commands_come_at_their_time() -> None:
    room = MemoryRoom(AUDIO, [TimedCommand(500, Interrupt())], MemoryRoomOptions(ack_delay_ms=None))
    assert collect(room, Counting())[1] == [Interrupt()]


def test_the_room_waits_for_what_is_still_said() -> None:
    room = MemoryRoom(AUDIO, options=MemoryRoomOptions(fast=True, tail_s=15))
    collect(room, Counting(range(40, 120)))  # until 2.4 s
    assert len(room.agent_audio) == pytest.approx((2.4 + 2.0) * 24000)


def test_the_tail_has_an_end() -> None:
    room = MemoryRoom(AUDIO, options=MemoryRoomOptions(fast=True, tail_s=3))
    collect(room, Counting(range(100_000)))
    assert len(room.agent_audio) == 4 * 24000


def test_without_anything_said_there_is_no_tail() -> None:
    room = MemoryRoom(AUDIO, options=MemoryRoomOptions(fast=True, tail_s=15))
    collect(room, Counting())
    assert len(room.agent_audio) == 24000


def test_a_user_who_spoke_last_is_given_time_for_an_answer() -> None:
    room = MemoryRoom(AUDIO, options=MemoryRoomOptions(fast=True, tail_s=15, answer_wait_s=4))
    room.publish({"type": "user.speech", "phase": "started"})
    collect(room, Counting())
    assert len(room.agent_audio) == 5 * 24000


def test_words_that_were_understood_are_waited_for() -> None:
    room = MemoryRoom(AUDIO, options=MemoryRoomOptions(fast=True, tail_s=15, answer_wait_s=4))
    room.publish({"type": "user.text", "text": "Hello?"})
    collect(room, Counting(range(500, 520)))  # an answer after 10 s
    assert len(room.agent_audio) == pytest.approx((10.4 + 2.0) * 24000)


def test_closing_ends_everything() -> None:
    async def main() -> int:
        room = MemoryRoom(AUDIO)
        seen = 0
        async for _ in room.audio():
            seen += 1
            if seen == 10:
                await room.close()
        await room.close()
        return seen

    assert run_virtual(main()) == 10


def test_options_are_checked() -> None:
    with pytest.raises(ValidationError):
        MemoryRoomOptions(ack_every_ms=0)
