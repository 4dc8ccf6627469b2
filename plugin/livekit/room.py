"""An ``AgentSession`` as one more room around the ordinary session."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from ...engines.base import OUTPUT_HZ, Frame
from ..rooms.base import PLAYOUT_MS, PLAYOUT_SAMPLES, AudioChunk, Command, PlayoutSource
from ..rooms.commands import CommandQueue
from .compat import rtc
from .gate import FrameTag, mark
from .microphone import Microphone
from .options import DuplexOptions
from .pacing import Pacer
from .picture import NewestPicture
from .speech import Cut, Out, Sound, SpeechLine, Words

_STREAM = 500
"""Frames and words that may wait for LiveKit (10 s); beyond this the oldest go."""


class Listener(Protocol):
    """Who is told what the session does, on the event loop and in the order of the stream."""

    def on_event(self, event: dict[str, Any]) -> None:
        """A timeline event."""
        ...

    def on_words(self, words: Words) -> None:
        """Words of the agent; the frame in which they begin comes next."""
        ...

    def on_cut(self, utterance_id: str) -> None:
        """What was handed over of the utterance and is not heard yet should not be heard."""
        ...


class DuplexRoom:
    """Implements :class:`~realtime_venus.plugin.rooms.base.MediaRoom` for a :class:`~.session.DuplexSession`.

    ``attached`` says whether somebody reports playback.  Everything happens on the event loop that made it.
    """

    def __init__(
        self,
        listener: Listener,
        options: DuplexOptions,
        *,
        unit_ms: int,
        video: bool,
        attached: Callable[[], bool] = lambda: False,
    ) -> None:
        self._listener = listener
        self._options = options
        self._attached = attached
        self._microphone = Microphone(options.audio_backlog_ms)
        self._picture = NewestPicture(unit_ms) if video else None
        self._asked: tuple[float, float] = (0.0, 0.0)
        self._line = SpeechLine()
        self._pacer = Pacer(options.lead_ms)
        self._source: PlayoutSource | None = None
        self._sounding = False
        self._commands = CommandQueue()
        self._stream: deque[Words | Sound] = deque()
        self._streaming = asyncio.Event()
        self._closed = False
        self._playing = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self.current: str | None = None
        """The utterance of the frame that was handed over last."""
        self.stream_dropped = 0

    # -- MediaRoom --------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return "livekit-agents"

    @property
    def acknowledges(self) -> bool:
        return self._attached()

    @property
    def playout_delay_ms(self) -> int:
        return self._options.lead_ms + self._options.playout_delay_ms

    async def audio(self) -> AsyncIterator[AudioChunk]:
        async for chunk in self._microphone.chunks():
            start_ms = chunk.position / 16
            self._asked = (start_ms, start_ms + chunk.samples.size / 16)
            yield chunk

    def latest_frame(self) -> Frame | None:
        """The newest picture, once per unit: with the chunk that completes it."""
        return None if self._picture is None else self._picture.take(*self._asked)

    def play(self, source: PlayoutSource) -> None:
        self._source = source
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run(), name="venus-livekit-pump")
        self._playing.set()

    def publish(self, event: dict[str, Any]) -> None:
        if self._closed:
            return
        self._listener.on_event(event)
        self._put(self._line.event(event))

    def commands(self) -> AsyncIterator[Command]:
        return self._commands.stream()

    @property
    def commands_dropped(self) -> int:
        """Commands that gave way to later ones."""
        return self._commands.dropped

    async def close(self) -> None:
        self._closed = True
        self._microphone.close()
        self._commands.close()
        self._streaming.set()
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])

    # -- LiveKit's side ---------------------------------------------------------------------------------------------

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        """The user's audio; ignored once the room is closed."""
        if not self._closed:
            self._microphone.push(frame, asyncio.get_running_loop().time())

    def push_video(self, frame: rtc.VideoFrame) -> None:
        """The user's picture; costs nothing for an engine that does not see."""
        if self._picture is not None and not self._closed:
            self._picture.put(frame, self._microphone.milliseconds)

    def command(self, command: Command) -> None:
        """Ask the session for something."""
        if self._closed:
            return
        self._commands.put(command)

    def played(self, number: int) -> None:
        """The listener has heard every frame up to ``number``."""
        self._commands.played(number)

    async def wait_playing(self) -> None:
        """Wait until the session has begun."""
        await self._playing.wait()

    async def stream(self) -> AsyncIterator[tuple[rtc.AudioFrame, int]]:
        """Tagged frames of 20 ms (24 kHz mono) with their place in the stream, in milliseconds; nothing when idle.

        Words are told to the listener in between, so that what reads the stream has taken in every frame before them.
        """
        while True:
            while self._stream:
                item = self._stream.popleft()
                if isinstance(item, Words):
                    self._listener.on_words(item)
                    continue
                self.current = item.utterance_id
                yield _frame(item), item.start_ms
            if self._closed:
                return
            self._streaming.clear()
            await self._streaming.wait()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _put(self, out: list[Out]) -> None:
        for item in out:
            if isinstance(item, Cut):
                kept = [one for one in self._stream if one.utterance_id != item.utterance_id]
                self._stream = deque(kept)
                self._listener.on_cut(item.utterance_id)
                continue
            if isinstance(item, Sound) and not item.speaking:
                self._sounding = False
                self._pacer.restart(asyncio.get_running_loop().time())
            self._stream.append(item)
            if len(self._stream) > _STREAM:
                self._stream.popleft()
                self.stream_dropped += 1
        if out:
            self._streaming.set()

    async def _run(self) -> None:
        """Pull what is due and let time pass without a microphone, every 20 ms."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            now_s = loop.time()
            self._microphone.fill(now_s)
            while self._source is not None and self._pacer.wants(now_s, eager=self._sounding):
                frame = self._source.pull()
                self._pacer.pulled()
                self._sounding = not frame.silent
                self._put(self._line.frame(frame))
            due_s = max(due_s + PLAYOUT_MS / 1000, now_s)
            await asyncio.sleep(max(0.0, due_s - loop.time()))


def _frame(sound: Sound) -> rtc.AudioFrame:
    frame = rtc.AudioFrame(sound.pcm.tobytes(), OUTPUT_HZ, 1, PLAYOUT_SAMPLES)
    mark(frame, FrameTag(sound.number, sound.utterance_id, sound.speaking))
    return frame
