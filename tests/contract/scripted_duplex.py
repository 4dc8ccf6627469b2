"""A duplex model that does what a test tells it, written against LiveKit alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
from livekit import rtc
from livekit.agents import NOT_GIVEN, NotGivenOr, llm
from livekit.agents.llm.duplex_adapter import AudioGate

from ..plugin.livekit.agent_io import passed, pcm

RATE = 24_000


class Tagged:
    """A gate that goes by a mark on the frame."""

    def __init__(self) -> None:
        self.deactivated = 0

    def update(self, frame: rtc.AudioFrame) -> bool:
        return bool(frame.userdata.get("open"))

    def deactivate(self) -> None:
        self.deactivated += 1


class ScriptedSession(llm.DuplexSession[str]):
    """Keeps what comes in; gives what it is told."""

    def __init__(self, model: ScriptedModel) -> None:
        super().__init__(model)
        self._frames: asyncio.Queue[llm.DuplexAudioFrame] = asyncio.Queue()
        self._tools = llm.ToolContext.empty()
        self.heard: list[float] = []
        """Peak of each frame of the user."""
        self.frames: list[rtc.AudioFrame] = []
        self.pictures: list[rtc.VideoFrame] = []
        self.items: list[tuple[float, llm.ChatItem]] = []
        self.asked: list[float] = []
        self.instructions = ""
        self.closed = False

    @property
    def waiting(self) -> int:
        """Frames handed out and not taken yet."""
        return self._frames.qsize()

    @property
    def audio_stream(self) -> AsyncIterator[llm.DuplexAudioFrame]:
        return self._stream()

    async def _stream(self) -> AsyncIterator[llm.DuplexAudioFrame]:
        while True:
            yield await self._frames.get()

    @property
    def tools(self) -> llm.ToolContext:
        return self._tools

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        self.frames.append(frame)
        self.heard.append(float(np.abs(pcm([frame]).astype(float)).max()) / 32768)

    def push_video(self, frame: rtc.VideoFrame) -> None:
        self.pictures.append(frame)

    async def _update_instructions(self, instructions: str) -> None:
        self.instructions = instructions

    async def _append_items(self, items: list[llm.ChatItem]) -> None:
        now_s = asyncio.get_running_loop().time()
        self.items += [(now_s, item) for item in items]

    async def _update_tools(self, tools: list[llm.Tool]) -> None:
        self._tools = llm.ToolContext(tools)

    def _update_options(self, *, tool_choice: NotGivenOr[llm.ToolChoice | None] = NOT_GIVEN) -> None: ...

    def _generate_reply(
        self,
        *,
        instructions: NotGivenOr[str] = NOT_GIVEN,
        tool_choice: NotGivenOr[llm.ToolChoice] = NOT_GIVEN,
        tools: NotGivenOr[list[llm.Tool]] = NOT_GIVEN,
    ) -> None:
        self.asked.append(asyncio.get_running_loop().time())

    async def aclose(self) -> None:
        await super().aclose()
        self.closed = True

    # -- what a test tells it -----------------------------------------------------------------------------------------

    def give(self, seconds: float, *, loud: bool, frame_ms: int = 20, start_ms: int | None = None) -> None:
        """Hand out frames at once; the mark for :class:`Tagged` is ``loud``."""
        size = RATE * frame_ms // 1000
        for _ in range(round(seconds * 1000) // frame_ms):
            wave = 8000 * np.sin(2 * np.pi * 220 * np.arange(size) / RATE) if loud else np.zeros(size)
            frame = rtc.AudioFrame(wave.astype(np.int16).tobytes(), RATE, 1, size, userdata={"open": loud})
            self._frames.put_nowait(llm.DuplexAudioFrame(frame, start_ms))
            start_ms = None if start_ms is None else start_ms + frame_ms

    async def stream(self, seconds: float, *, loud: bool, frame_ms: int = 20) -> None:
        """Hand out frames at real time."""
        for _ in range(round(seconds * 1000) // frame_ms):
            self.give(frame_ms / 1000, loud=loud, frame_ms=frame_ms)
            await passed(frame_ms / 1000)

    def write(self, text: str, start_ms: int | None = None, end_ms: int | None = None) -> None:
        """Tell words of the agent."""
        self.emit("transcript_delta", llm.DuplexOutputTranscriptDelta(text, start_ms, end_ms))

    def call(self, name: str, arguments: str = "{}") -> None:
        """Call a tool."""
        self.emit("function_call", llm.FunctionCall(call_id=f"call_{name}", name=name, arguments=arguments))

    def outputs(self) -> list[tuple[float, str]]:
        """When which tool output came."""
        return [(at_s, item.output) for at_s, item in self.items if isinstance(item, llm.FunctionCallOutput)]


class ScriptedModel(llm.DuplexModel):
    """Makes :class:`ScriptedSession`; without ``tagged`` it gives no gate, and LiveKit guesses by loudness."""

    def __init__(self, *, tagged: bool = True) -> None:
        capabilities = llm.DuplexCapabilities(
            user_transcription=True,
            auto_tool_reply_generation=True,
            mutable_chat_context=True,
            mutable_instructions=True,
            mutable_tools=True,
        )
        super().__init__(capabilities=capabilities)
        self._tagged = tagged
        self.sessions: list[ScriptedSession] = []

    def audio_gate(self) -> AudioGate | None:
        return Tagged() if self._tagged else None

    def session(self) -> ScriptedSession:
        self.sessions.append(ScriptedSession(self))
        return self.sessions[-1]

    async def aclose(self) -> None: ...
