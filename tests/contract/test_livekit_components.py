"""What plugin/livekit/components relies on, observed on livekit-agents 1.8.9."""

from __future__ import annotations

import os

import pytest
from livekit import rtc
from livekit.agents import DEFAULT_API_CONNECT_OPTIONS, APIConnectOptions, APIError, inference, llm, tts, vad
from livekit.agents.inference.eot import base
from realtime_venus.plugin.livekit.components import VAD, bases


class _Model(llm.LLM[bases.Events]):
    def chat(self, *, chat_ctx: llm.ChatContext, **_: object) -> llm.LLMStream:  # pyright: ignore[reportIncompatibleMethodOverride] - only what is called here
        return _Reply(self, chat_ctx=chat_ctx, tools=[], conn_options=DEFAULT_API_CONNECT_OPTIONS)


class _Reply(bases.ReplyStream):
    async def _run(self) -> None:
        self.emit(llm.ChatChunk(id="1", delta=llm.ChoiceDelta(content="Hello")))


async def test_what_is_emitted_is_read_and_nobody_minds_a_late_chunk() -> None:
    stream = _Model().chat(chat_ctx=llm.ChatContext.empty())
    assert [chunk.delta.content async for chunk in stream if chunk.delta] == ["Hello"]
    await stream.aclose()
    assert isinstance(stream, bases.ReplyStream)
    stream.emit(llm.ChatChunk(id="1", delta=llm.ChoiceDelta(content="too late")))


class _Voice(tts.TTS[bases.Events]):
    def __init__(self) -> None:
        super().__init__(capabilities=tts.TTSCapabilities(streaming=True), sample_rate=24_000, num_channels=1)
        self.read: list[str | None] = []

    def synthesize(self, text: str, **_: object) -> tts.ChunkedStream:  # pyright: ignore[reportIncompatibleMethodOverride] - only what is called here
        raise NotImplementedError

    def stream(self, **_: object) -> tts.SynthesizeStream:  # pyright: ignore[reportIncompatibleMethodOverride] - only what is called here
        return _Spoken(self)


class _Spoken(bases.TextStream):
    def __init__(self, voice: _Voice, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS) -> None:
        self._voice = voice
        super().__init__(voice, conn_options=conn_options)

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id="1", sample_rate=24_000, num_channels=1, mime_type="audio/pcm", stream=True
        )
        output_emitter.start_segment(segment_id="1")
        async for piece in self.pieces():
            self._voice.read.append(piece)
            self.begun()
            if piece:
                output_emitter.push(bytes(960))


async def test_text_is_read_as_it_comes_with_its_flushes() -> None:
    voice = _Voice()
    stream = voice.stream()
    stream.push_text("Hello ")
    stream.push_text("there.")
    stream.end_input()
    frames = [event.frame async for event in stream]
    await stream.aclose()
    assert voice.read == ["Hello ", "there.", None]
    assert sum(frame.duration for frame in frames) == pytest.approx(0.04)


class _Detector(vad.VAD):
    def __init__(self) -> None:
        super().__init__(capabilities=vad.VADCapabilities(update_interval=0.032))
        self.read: list[int | None] = []

    def stream(self) -> vad.VADStream:
        return _Detected(self)


class _Detected(bases.DetectorStream):
    def __init__(self, detector: _Detector) -> None:
        self._detector = detector
        super().__init__(detector)

    async def detect(self) -> None:
        async for frame in self.frames():
            self._detector.read.append(frame and frame.samples_per_channel)
            self.emit(vad.VADEvent(vad.VADEventType.INFERENCE_DONE, 0, 0.0, 0.0, 0.0))


async def test_audio_is_read_as_it_comes_with_its_flushes() -> None:
    detector = _Detector()
    stream = detector.stream()
    stream.push_frame(rtc.AudioFrame(bytes(640), 16_000, 1, 320))
    stream.end_input()
    assert len([event async for event in stream]) == 2
    await stream.aclose()
    assert detector.read == [320, None]


class _Silent(_Spoken):
    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id="1", sample_rate=24_000, num_channels=1, mime_type="audio/pcm", stream=True
        )
        output_emitter.start_segment(segment_id="1")
        async for _ in self.pieces():
            pass


async def test_a_text_without_sound_is_taken_for_a_failure() -> None:
    """Why the voice says 20 ms of silence for a smile."""
    stream = _Silent(_Voice(), APIConnectOptions(max_retry=0))
    stream.push_text("Hello.")
    stream.end_input()
    with pytest.raises(APIError, match="no audio frames"):
        async for _ in stream:
            pass
    await stream.aclose()


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("LIVEKIT_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_the_default_turn_detector_runs_here_but_in_development_with_a_key_it_asks_the_cloud(
    no_environment: pytest.MonkeyPatch,
) -> None:
    """Why the plain ``AgentSession`` needs no network, and what to give it under ``dev``."""
    assert inference.TurnDetector().model == "turn-detector-v1-mini"
    no_environment.setenv("LIVEKIT_DEV_MODE", "1")
    assert inference.TurnDetector().model == "turn-detector-v1-mini"
    no_environment.setenv("LIVEKIT_API_KEY", "key")
    no_environment.setenv("LIVEKIT_API_SECRET", "secret")
    assert inference.TurnDetector().model == "turn-detector-v1"
    assert inference.TurnDetector(version="v1-mini").model == "turn-detector-v1-mini"


def test_the_default_silence_is_long_enough_for_the_turn_detector() -> None:
    assert VAD().min_silence_duration >= (base.MIN_SILENCE_DURATION_MS + 50) / 1000
