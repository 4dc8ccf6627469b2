from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
from realtime_venus.engines.base import Int16Pcm
from realtime_venus.plugin.rooms.base import PlayoutFrame
from realtime_venus.plugin.rooms.livekit.sdk import MediaFailed
from realtime_venus.plugin.rooms.livekit.voice import Voice

from ....kit.virtual_time import run_virtual

PCM = np.zeros(480, dtype=np.int16)


class Script:
    """``#`` sounds, ``.`` is silent; silence after the end."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.pulled_s: list[float] = []

    def pull(self) -> PlayoutFrame:
        number = len(self.pulled_s)
        self.pulled_s.append(asyncio.get_running_loop().time())
        return PlayoutFrame(number, PCM, silent=self.pattern[number : number + 1] != "#")


class Line:
    """What came out, and when; ``takes_s`` is how long the first frame is held up."""

    def __init__(self, takes_s: float = 0.0, error: Exception | None = None) -> None:
        self.takes_s = takes_s
        self.error = error
        self.news: list[str] = []
        self.put_s: list[float] = []

    async def put(self, pcm: Int16Pcm) -> None:
        if self.error is not None:
            raise self.error
        self.news.append("frame")
        self.put_s.append(round(asyncio.get_running_loop().time(), 6))
        await asyncio.sleep(self.takes_s)
        self.takes_s = 0.0

    def begins(self, stretch: int) -> None:
        self.news.append(f"stretch {stretch}")


def played(script: Script, line: Line, seconds: float, lead_ms: int = 40) -> Voice:
    return run_virtual(_play(script, line, seconds, lead_ms))


async def _play(script: Script, line: Line, seconds: float, lead_ms: int) -> Voice:
    voice = Voice(line, lead_ms, line.begins)
    voice.source = script
    voice.flow(on=True)
    await _for(voice.run(), seconds)
    return voice


async def _for(work: Coroutine[Any, Any, None], seconds: float) -> None:
    task = asyncio.create_task(work)
    await asyncio.wait([task], timeout=seconds)
    task.cancel()
    await asyncio.wait([task])


def test_in_silence_frames_are_pulled_and_none_is_sent() -> None:
    script, line = Script(""), Line()
    voice = played(script, line, 0.99)
    assert (voice.counters.pulled, voice.counters.sent, line.news) == (50, 0, [])


def test_speech_goes_out_a_little_ahead_and_its_beginning_is_told_first() -> None:
    script, line = Script(".#####...."), Line()
    played(script, line, 0.99)
    assert line.news == ["stretch 0", *["frame"] * 5]
    assert line.put_s == [0.02, 0.02, 0.02, 0.04, 0.06]
    assert [round(at_s, 6) for at_s in script.pulled_s[6:9]] == [0.08, 0.14, 0.16]


def test_pulled_frames_are_time_however_often_it_speaks() -> None:
    script, line = Script("##..###.#....####"), Line()
    voice = played(script, line, 1.99)
    assert (voice.counters.pulled, voice.counters.sent) == (100, 10)
    assert [news for news in line.news if news != "frame"] == [f"stretch {number}" for number in range(4)]


def test_time_that_was_missed_is_left_out_and_no_speech_with_it() -> None:
    script, line = Script("#" * 10), Line(takes_s=1.0)
    voice = played(script, line, 1.99)
    assert voice.counters.sent == 10
    assert voice.counters.skipped >= 45
    assert voice.counters.pulled + voice.counters.skipped == 100


def test_while_nobody_is_to_hear_it_nothing_is_pulled() -> None:
    async def main() -> list[int]:
        voice = Voice(Line(), 40, Line().begins)
        script = voice.source = Script("#" * 100)
        running = asyncio.create_task(voice.run())
        counts: list[int] = []
        for on in (False, True, False, False, True):
            voice.flow(on=on)
            before = len(script.pulled_s)
            await asyncio.sleep(0.2)
            counts.append(len(script.pulled_s) - before)
        running.cancel()
        await asyncio.wait([running])
        return counts

    off, first, still_off, _, again = run_virtual(main())
    assert off == 0
    assert 10 <= first <= 13
    assert still_off <= 1
    assert 10 <= again <= 13


def test_frames_that_are_not_taken_are_counted() -> None:
    script, line = Script("###"), Line(error=MediaFailed("gone"))
    assert played(script, line, 0.2).counters.failed == 3
