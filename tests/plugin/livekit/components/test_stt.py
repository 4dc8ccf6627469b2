from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
import soxr
from livekit import rtc
from livekit.agents import APIError, stt
from realtime_venus.engines.base import EngineError, FloatPcm, Language
from realtime_venus.engines.cascade.parts import Transcript
from realtime_venus.plugin.livekit.components import STT, VAD

from ....kit.cascade import Gate, Hears
from ....kit.kits import sample, stem
from ....kit.speech import error_rate
from .fakes import parts_of, told


class Notes:
    """A recogniser that notes what it was given."""

    def __init__(self, language: Language = Language.EN) -> None:
        self.language = language
        self.given: list[tuple[float, Language | None]] = []

    def transcribe(
        self, audio: FloatPcm, language: Language | None = None, stale: Callable[[], bool] | None = None
    ) -> Transcript:
        self.given.append((audio.size / 16_000, language))
        return Transcript(f"part {len(self.given)}", language or self.language, 0.5)


def sound(seconds: float, rate_hz: int = 16_000, channels: int = 1) -> rtc.AudioFrame:
    samples = int(seconds * rate_hz)
    return rtc.AudioFrame(bytes(2 * samples * channels), rate_hz, channels, samples)


def spoken(sample_id: str, rate_hz: int, channels: int) -> list[rtc.AudioFrame]:
    """A question of the kit in frames of 20 ms."""
    audio = soxr.resample(stem(sample_id), 16_000, rate_hz)
    data = np.repeat((np.clip(audio, -1, 1) * 32767).astype(np.int16)[:, None], channels, axis=1)
    step = rate_hz // 50
    return [
        rtc.AudioFrame(part.tobytes(), rate_hz, channels, len(part))
        for at in range(0, len(data), step)
        if len(part := data[at : at + step])
    ]


async def test_an_utterance_becomes_one_final_transcript() -> None:
    component = STT(parts=parts_of(recogniser=Hears("Hello there.")))
    event = await component.recognize([sound(1.0, 48_000, 2), sound(0.5, 48_000, 2)])
    assert event.type is stt.SpeechEventType.FINAL_TRANSCRIPT
    (found,) = event.alternatives
    assert (found.text, found.language, found.confidence) == ("Hello there.", "en", 0.9)
    assert (found.start_time, found.end_time) == (0.0, pytest.approx(1.5))
    await component.aclose()


async def test_nothing_is_heard_in_nothing() -> None:
    component = STT(parts=parts_of(recogniser=Hears("")))
    assert (await component.recognize([])).alternatives[0].text == ""
    await component.aclose()


async def test_it_says_what_it_can_do() -> None:
    capabilities = STT(parts=parts_of()).capabilities
    assert not capabilities.streaming
    assert not capabilities.interim_results
    assert not capabilities.diarization


@pytest.mark.parametrize(("tag", "language"), [("en", Language.EN), ("en-GB", Language.EN), ("cmn-Hans", Language.ZH)])
async def test_a_language_may_be_asked_for(tag: str, language: Language) -> None:
    notes = Notes()
    component = STT(language=tag, parts=parts_of(recogniser=notes))
    await component.recognize(sound(3.0))
    other = "zh" if language is Language.EN else "en"
    assert (await component.recognize(sound(3.0), language=other)).alternatives[0].language == other
    component.update_options(language=None)
    await component.recognize(sound(3.0))
    assert [asked for _, asked in notes.given] == [language, Language(other), None]
    await component.aclose()


async def test_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="'fr': there are en, zh"):
        STT(language="fr")
    component = STT(parts=parts_of())
    with pytest.raises(APIError, match="'fr': there are en, zh"):
        await component.recognize(sound(1.0), language="fr")
    await component.aclose()


async def test_for_a_short_utterance_what_was_spoken_before_is_a_hint() -> None:
    notes = Notes(Language.ZH)
    component = STT(parts=parts_of(recogniser=notes))
    for seconds in (1.0, 3.0, 1.0, 3.0):
        await component.recognize(sound(seconds))
    assert [asked for _, asked in notes.given] == [None, None, Language.ZH, None]
    await component.aclose()


async def test_of_a_long_utterance_nothing_is_lost() -> None:
    notes = Notes()
    component = STT(parts=parts_of(recogniser=notes))
    event = await component.recognize(sound(70.0))
    assert event.alternatives[0].text == "part 1 part 2 part 3 part 4"[: len(event.alternatives[0].text)]
    assert sum(seconds for seconds, _ in notes.given) == pytest.approx(70.0)
    assert all(seconds <= 28.0 for seconds, _ in notes.given)
    await component.aclose()


@pytest.mark.parametrize(
    "recogniser", [EngineError("run: venus models pull"), Hears(error=EngineError("run: venus models pull"))]
)
async def test_what_fails_is_an_api_error(recogniser: Exception | Hears) -> None:
    component = STT(parts=parts_of(recogniser=recogniser))
    heard = told(component, "error", stt.STTError)
    with pytest.raises(APIError, match="venus models pull") as raised:
        await component.recognize(sound(1.0))
    assert not raised.value.retryable
    assert [error.recoverable for error in heard] == [False]
    await component.aclose()


async def test_the_event_loop_goes_on_meanwhile_and_closing_breaks_it_off() -> None:
    gate = Gate()
    component = STT(parts=parts_of(recogniser=Hears(gate=gate)))
    asking = asyncio.create_task(component.recognize(sound(1.0)))
    await asyncio.to_thread(gate.reached)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    gate.open()
    await component.aclose()


@pytest.mark.models
@pytest.mark.parametrize(
    ("sample_id", "rate_hz", "channels"),
    [("en_turn_taking_01", 44_100, 2), ("zh_turn_taking_01", 48_000, 1)],
)
async def test_a_question_is_understood_through_the_vad(sample_id: str, rate_hz: int, channels: int) -> None:
    ear, detector = STT(), VAD()
    async with stt.StreamAdapter(stt=ear, vad=detector).stream() as stream:
        quiet = sound(1.0, rate_hz, channels)
        for frame in (quiet, *spoken(sample_id, rate_hz, channels), quiet):
            stream.push_frame(frame)
        stream.end_input()
        events = [event async for event in stream]
    (final,) = (event for event in events if event.type is stt.SpeechEventType.FINAL_TRANSCRIPT)
    asked = sample(sample_id)["events"][0]["text"]
    assert error_rate(asked, final.alternatives[0].text)[0] <= 0.2, final.alternatives[0].text
    assert final.alternatives[0].language == sample_id[:2]
    await ear.aclose()
    await detector.aclose()
