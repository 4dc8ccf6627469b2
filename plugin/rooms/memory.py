"""A room without a network: audio from memory goes in, what the agent says is collected on the same clock.

In real time it follows the event loop's clock (virtual in tests).  In fast mode the session drives it: asking for the
next chunk lets exactly that chunk's time pass, playout included.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ...engines.base import INPUT_HZ, FloatPcm, Frame, Int16Pcm
from .base import PLAYOUT_MS, PLAYOUT_SAMPLES, Acknowledge, AudioChunk, Command, PlayoutSource

CHUNK_SAMPLES = INPUT_HZ * PLAYOUT_MS // 1000
_STEP_S = PLAYOUT_MS / 1000
_MAX_COMMANDS = 1024


def _steps(seconds: float) -> int:
    return round(seconds / _STEP_S)


class MemoryRoomOptions(BaseModel):
    """How the room behaves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fast: bool = False
    ack_delay_ms: int | None = Field(default=0, ge=0)
    """From a pulled frame to its being heard; ``None``: the listener reports nothing."""
    ack_every_ms: int = Field(default=240, ge=20)
    tail_s: float = Field(default=0.0, ge=0)
    """At most this long the room stays open after the audio, in silence, while the agent has something to say."""
    quiet_s: float = Field(default=2.0, ge=0)
    """In the tail the room is left this long after the agent fell silent..."""
    answer_wait_s: float = Field(default=6.0, ge=0)
    """...or this long after the audio when the user spoke last and no word was understood.  Words that were understood
    are waited for with their answer for the whole tail."""
    playout_delay_ms: int = Field(default=40, ge=0)


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """``command`` is given at ``at_ms`` of media time."""

    at_ms: int
    command: Command


class MemoryRoom:
    """Implements :class:`MediaRoom`.  ``audio`` is mono float32 at 16 kHz.

    ``frame`` is the picture there is from the beginning, ``frames`` are those that come, in the order of their time.
    """

    def __init__(
        self,
        audio: FloatPcm,
        commands: Sequence[TimedCommand] = (),
        options: MemoryRoomOptions | None = None,
        frame: Frame | None = None,
        frames: Iterator[Frame] | None = None,
    ) -> None:
        self._options = options or MemoryRoomOptions()
        self._audio = audio
        self._scheduled = deque(sorted(commands, key=lambda item: item.at_ms))
        self._commands: deque[Command] = deque()
        self._wake = asyncio.Event()
        self._served = asyncio.Event()
        self._closed = asyncio.Event()
        self._source: PlayoutSource | None = None
        self._agent: list[Int16Pcm] = []
        self._step = 0  # of 20 ms
        self._reported = -1
        self._sounded_until = 0  # step after the last one in which the agent sounded
        self._busy = self._asked = False
        self._spoke_since_user = True
        self.published: list[dict[str, Any]] = []
        self.dropped_commands = 0
        self.frame = frame
        self._frames = iter(()) if frames is None else frames
        self._next_frame = next(self._frames, None)

    # -- what was collected ------------------------------------------------------------------------------------

    @property
    def agent_audio(self) -> Int16Pcm:
        """What was pulled, ``int16[n]`` at 24 kHz; sample 0 is the beginning of the user's audio."""
        return np.concatenate(self._agent) if self._agent else np.zeros(0, dtype=np.int16)

    # -- MediaRoom ---------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """``memory``."""
        return "memory"

    @property
    def acknowledges(self) -> bool:
        """Whether reports of playback come."""
        return self._options.ack_delay_ms is not None

    @property
    def playout_delay_ms(self) -> int:
        """As the options say."""
        return self._options.playout_delay_ms

    async def audio(self) -> AsyncIterator[AudioChunk]:
        """The audio in chunks of 20 ms, then silence for as long as the tail lasts."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        while not self._closed.is_set() and self._goes_on():
            self._pull()
            if self._options.fast:
                await self._commands_served()
            else:
                await self._until(started_s + (self._step + 1) * _STEP_S)
            position = self._step * CHUNK_SAMPLES
            self._step += 1
            yield AudioChunk(self._chunk(position), position, loop.time())
        self._closed.set()
        self._wake.set()

    def latest_frame(self) -> Frame | None:
        """The newest picture whose time has come, if any."""
        while self._next_frame is not None and self._next_frame.captured_ms < self._step * PLAYOUT_MS:
            self.frame, self._next_frame = self._next_frame, next(self._frames, None)
        return self.frame

    def play(self, source: PlayoutSource) -> None:
        """Pull from ``source`` from now on."""
        self._source = source

    def publish(self, event: dict[str, Any]) -> None:
        """Collect the event."""
        self.published.append(event)
        if event["type"] == "user.speech":
            self._spoke_since_user = False
        elif event["type"] == "user.text":
            self._asked = True
        elif event["type"] == "agent.state":
            self._busy = event["state"] != "listening"

    async def commands(self) -> AsyncIterator[Command]:
        """Scheduled commands and reports of playback."""
        while True:
            while self._commands:
                yield self._commands.popleft()
            self._served.set()
            if self._closed.is_set():
                return
            self._wake.clear()
            await self._wake.wait()

    async def close(self) -> None:
        """Leave; the audio ends.  May be called repeatedly."""
        self._closed.set()
        self._wake.set()

    # -- inside ------------------------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        if self._step * CHUNK_SAMPLES < len(self._audio):
            return True
        ended = -(-len(self._audio) // CHUNK_SAMPLES)
        passed = self._step - ended
        if passed >= _steps(self._options.tail_s):
            return False
        if self._busy or self._asked:
            return True
        if self._spoke_since_user:
            return self._sounded_until > 0 and self._step - self._sounded_until < _steps(self._options.quiet_s)
        return passed < _steps(self._options.answer_wait_s)

    def _chunk(self, position: int) -> FloatPcm:
        part = self._audio[position : position + CHUNK_SAMPLES]
        if len(part) == CHUNK_SAMPLES:
            return part
        return np.concatenate([part, np.zeros(CHUNK_SAMPLES - len(part), dtype=np.float32)])

    def _pull(self) -> None:
        """Let 20 ms of the agent's track pass, and what is due with them."""
        if self._source is None:
            self._agent.append(np.zeros(PLAYOUT_SAMPLES, dtype=np.int16))
        else:
            frame = self._source.pull()
            self._agent.append(frame.pcm)
            if not frame.silent:
                self._sounded_until = self._step + 1
                self._spoke_since_user = True
                self._asked = False
            self._report(frame.number)
        while self._scheduled and self._scheduled[0].at_ms <= self._step * PLAYOUT_MS:
            self._give(self._scheduled.popleft().command)

    def _report(self, number: int) -> None:
        options = self._options
        if options.ack_delay_ms is None:
            return
        played = number - 1 - options.ack_delay_ms // PLAYOUT_MS
        if played > self._reported and (self._step * PLAYOUT_MS) % options.ack_every_ms < PLAYOUT_MS:
            self._reported = played
            self._give(Acknowledge(played))

    def _give(self, command: Command) -> None:
        if len(self._commands) >= _MAX_COMMANDS:  # overflow rule: the oldest goes; reports are cumulative
            self._commands.popleft()
            self.dropped_commands += 1
        self._commands.append(command)
        self._served.clear()
        self._wake.set()

    async def _commands_served(self) -> None:
        """Fast mode: nothing may overtake a command."""
        if self._commands:
            await self._served.wait()
        await asyncio.sleep(0)

    async def _until(self, due_s: float) -> None:
        delay = due_s - asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, delay))
