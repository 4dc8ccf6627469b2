from __future__ import annotations

import asyncio

import pytest
from livekit import rtc
from livekit.agents import APIError, metrics, tts
from realtime_venus.engines.base import EngineError, Language
from realtime_venus.plugin.livekit.components import STT, TTS

from ....kit.cascade import DEADLINE_S, Gate, Tone
from ....kit.speech import error_rate
from .fakes import book, parts_of, told

MARK_S = 0.011
"""LiveKit may end what was flushed with 10 ms of silence."""


async def collected(stream: tts.SynthesizeStream) -> list[tts.SynthesizedAudio]:
    async with stream:
        return [event async for event in stream]


def seconds(events: list[tts.SynthesizedAudio]) -> float:
    return sum(event.frame.duration for event in events)


async def test_the_first_clause_is_heard_before_the_text_is_complete() -> None:
    tone = Tone(pieces=30)
    component = TTS(parts=parts_of(voices=book(tone)))
    async with component.stream() as stream:
        stream.push_text("The fastest land animal, ")
        stream.push_text("as far as we know, is ")
        async with asyncio.timeout(DEADLINE_S):
            first = await anext(aiter(stream))
        assert first.frame.sample_rate == 24_000
        assert first.frame.num_channels == 1
        assert tone.spoken[0] == "heart: The fastest land animal,"
        stream.push_text("the cheetah.")
        stream.end_input()
        rest = [event async for event in stream]
    assert tone.spoken[-1].endswith("the cheetah.")
    assert seconds([first, *rest]) == pytest.approx(0.3 * len(tone.spoken), abs=MARK_S)
    assert rest[-1].is_final
    await component.aclose()


async def test_a_text_given_whole_is_spoken_by_clauses_too() -> None:
    tone = Tone()
    component = TTS(parts=parts_of(voices=book(tone)))
    metrics_told = told(component, "metrics_collected", metrics.TTSMetrics)
    async with component.synthesize("The fastest animal is the cheetah. It lives in Africa.") as stream:
        frame = await stream.collect()
    assert len(tone.spoken) > 1
    assert frame.duration == pytest.approx(0.01 * len(tone.spoken), abs=MARK_S)
    assert metrics_told[0].characters_count == 54
    await component.aclose()


@pytest.mark.parametrize("text", ["😀", "***", "  \n"])
async def test_a_text_without_words_is_no_failure(text: str) -> None:
    component = TTS(parts=parts_of())
    stream = component.stream()
    stream.push_text(text)
    stream.end_input()
    assert seconds(await collected(stream)) <= 0.02
    await component.aclose()


async def test_no_text_is_no_sound() -> None:
    component = TTS(parts=parts_of())
    stream = component.stream()
    stream.end_input()
    assert await collected(stream) == []
    await component.aclose()


async def test_a_stream_that_is_closed_stops_the_voice_at_its_next_piece() -> None:
    gate = Gate()
    tone = Tone(pieces=50, gate=gate)
    component = TTS(parts=parts_of(voices=book(tone)))
    stream = component.stream()
    stream.push_text("This is a long sentence, which goes on and on.")
    stream.end_input()
    await asyncio.to_thread(gate.reached)
    await stream.aclose()
    gate.open()
    await component.aclose()
    assert tone.given == 1


async def test_voice_and_language_are_options() -> None:
    english, chinese = Tone(), Tone()
    component = TTS(voice="clear", language="en-GB", parts=parts_of(voices=book(english, chinese)))
    await component.synthesize("Hello.").collect()
    component.update_options(voice=None, language="zh")
    await component.synthesize("Hello 世界").collect()
    assert (english.spoken, chinese.spoken) == (["clear: Hello."], ["zf: Hello 世界"])
    assert await component.voices() == {Language.EN: ("heart", "clear"), Language.ZH: ("zf",)}
    with pytest.raises(ValueError, match="'fr': there are en, zh"):
        component.update_options(voice=None, language="fr")
    await component.aclose()


@pytest.mark.parametrize(
    ("component", "says"),
    [
        (TTS(voice="nobody", parts=parts_of()), "unknown voice 'nobody'"),
        (TTS(parts=parts_of(voices=EngineError("run: venus models pull"))), "venus models pull"),
        (TTS(parts=parts_of(voices=book(Tone(error=EngineError("the voice broke"))))), "the voice broke"),
        (TTS(language="zh", parts=parts_of(voices=book(Tone()))), "no voice for 'zh'"),
    ],
    ids=["voice", "models", "broken", "language"],
)
async def test_what_fails_is_an_api_error(component: TTS, says: str) -> None:
    heard = told(component, "error", tts.TTSError)
    stream = component.stream()
    stream.push_text("Hello there.")
    stream.end_input()
    with pytest.raises(APIError, match=says):
        await collected(stream)
    assert [error.recoverable for error in heard] == [False]
    await component.aclose()


@pytest.mark.models
@pytest.mark.parametrize("text", ["The meeting begins at half past nine.", "今天天气很好，我们去公园吧。"])
async def test_the_real_voices_are_understood(text: str) -> None:
    voice, ear = TTS(), STT()
    stream = voice.stream()
    for character in text:
        stream.push_text(character)
    stream.end_input()
    sound = rtc.combine_audio_frames([event.frame for event in await collected(stream)])
    heard = (await ear.recognize(sound)).alternatives[0]
    assert error_rate(text, heard.text)[0] <= 0.2, heard.text
    await voice.aclose()
    await ear.aclose()
