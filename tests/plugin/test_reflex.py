from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from realtime_venus.engines.base import FloatPcm
from realtime_venus.engines.silero import SileroModel, SileroVad
from realtime_venus.plugin.reflex import (
    OverDuck,
    OverEnded,
    OverHold,
    Reflex,
    Signal,
    SpeechEnded,
    SpeechStarted,
)

from ..kit.kits import render, sample_ids, stem

CHUNK = 320
MUSIC_KEYS_DOOR = (
    "en_noise_event_02",
    "en_noise_event_03",
    "en_noise_event_04",
    "en_noise_event_05",
    "en_noise_event_06",
    "zh_noise_event_02",
    "zh_noise_event_03",
)


@dataclass(frozen=True)
class Known:
    """A signal and the media time at which the session got to know it."""

    signal: Signal
    arrived_ms: float


@pytest.fixture(scope="module")
def silero() -> SileroModel:
    return SileroModel()


def always(_: float) -> bool:
    return True


def listen(silero: SileroModel, audio: FloatPcm, agent: Callable[[float], bool] = always) -> tuple[list[Known], Reflex]:
    """Feed ``audio`` as a room does, in chunks of 20 ms; ``agent`` says whether the agent speaks at a time in ms."""
    reflex = Reflex(SileroVad(silero))
    known: list[Known] = []
    for position in range(0, len(audio) - CHUNK + 1, CHUNK):
        arrived_ms = (position + CHUNK) / 16
        part = audio[position : position + CHUNK]
        signals = reflex.feed(part, position, agent_speaking=agent(arrived_ms))
        known += [Known(signal, arrived_ms) for signal in signals]
    return known, reflex


def first(known: list[Known], kind: type[Signal]) -> float | None:
    return next((item.arrived_ms for item in known if isinstance(item.signal, kind)), None)


def test_interruptions_duck_and_hold_in_time(silero: SileroModel) -> None:
    ducks: list[float] = []
    holds: list[float] = []
    for name in sample_ids("user_interruption"):
        rendered = render(name)
        begun_ms = rendered.metadata["timestamp"][0] * 1000
        answer_ms = rendered.metadata["context_timestamp"][1] * 1000 + 600
        known, _ = listen(silero, rendered.audio, agent=lambda at_ms, after=answer_ms: at_ms > after)
        ducks.append(next(k.arrived_ms for k in known if isinstance(k.signal, OverDuck)) - begun_ms)
        holds.append(next(k.arrived_ms for k in known if isinstance(k.signal, OverHold)) - begun_ms)
    # One pulled frame (20 ms) comes on top at the room's edge.
    assert max(ducks) <= 150
    assert float(np.percentile(ducks, 95)) <= 135
    assert min(ducks) >= 0
    assert float(np.percentile(holds, 95)) <= 250


@pytest.mark.parametrize("name", MUSIC_KEYS_DOOR)
def test_music_keys_and_clatter_never_duck(silero: SileroModel, name: str) -> None:
    known, _ = listen(silero, stem(name, "noise"))
    assert known == []


@pytest.mark.parametrize("length_ms", [10, 30, 60])
@pytest.mark.parametrize("kind", ["click", "tone", "voice"])
def test_a_transient_never_ducks(silero: SileroModel, kind: str, length_ms: int) -> None:
    rng = np.random.default_rng(7)
    audio = (rng.standard_normal(16000 * 2) * 1e-4).astype(np.float32)
    count = length_ms * 16
    burst = {
        "click": rng.standard_normal(count) * 0.4,
        "tone": 0.4 * np.sin(np.arange(count) * 2 * np.pi * 180 / 16000),
        "voice": stem("en_user_interruption_08", "overlap")[4800 : 4800 + count] * 3,
    }[kind]
    for start in (8000, 16123, 24001):
        audio[start : start + count] += burst.astype(np.float32)
    known, _ = listen(silero, audio)
    assert known == []


def test_speech_is_told_with_its_beginning_and_its_last_sound(silero: SileroModel) -> None:
    errors: list[float] = []
    for name in sample_ids("turn_taking"):
        rendered = render(name)
        start_s, end_s = rendered.metadata["context_timestamp"]
        known, _ = listen(silero, rendered.audio, agent=lambda _: False)
        started = next(k.signal for k in known if isinstance(k.signal, SpeechStarted))
        ended = [k.signal for k in known if isinstance(k.signal, SpeechEnded)]
        assert abs(started.onset_ms - start_s * 1000) <= 160
        # A few samples have babble below the question, which goes on after it.
        errors.append(min((signal.last_sound_ms - end_s * 1000 for signal in ended), key=abs))
    assert float(np.median(np.abs(errors))) <= 20
    assert max(np.abs(errors)) <= 110


def test_overlap_ends_with_the_speech(silero: SileroModel) -> None:
    known, _ = listen(silero, np.concatenate([stem("en_user_interruption_08", "overlap"), np.zeros(16000, np.float32)]))
    kinds = [type(item.signal) for item in known]
    assert kinds[:3] == [SpeechStarted, OverDuck, OverHold]
    assert kinds[-2:] == [OverEnded, SpeechEnded]


def test_the_agent_beginning_over_the_user_is_an_overlap(silero: SileroModel) -> None:
    audio = stem("en_turn_taking_01")
    known, _ = listen(silero, audio, agent=lambda at_ms: at_ms > 1500)
    duck = first(known, OverDuck)
    assert duck is not None
    assert 1500 < duck < 1800


def test_the_user_alone_is_no_overlap(silero: SileroModel) -> None:
    known, _ = listen(silero, stem("en_turn_taking_01"), agent=lambda _: False)
    assert {type(item.signal) for item in known} <= {SpeechStarted, SpeechEnded}


def test_silero_rests_while_nothing_is_proposed(silero: SileroModel) -> None:
    rng = np.random.default_rng(1)
    quiet = (rng.standard_normal(16000 * 20) * 2e-4).astype(np.float32)
    known, reflex = listen(silero, quiet)
    assert known == []
    assert reflex.windows <= 20 * 31 * 0.05


def test_a_jump_in_position_ends_speech(silero: SileroModel) -> None:
    reflex = Reflex(SileroVad(silero))
    audio = stem("en_turn_taking_01")
    signals: list[Signal] = []
    for position in range(0, 16000, CHUNK):
        signals += reflex.feed(audio[position : position + CHUNK], position, agent_speaking=True)
    assert reflex.speaking
    signals = reflex.feed(np.zeros(CHUNK, np.float32), 96000, agent_speaking=True)
    assert [type(signal) for signal in signals] == [OverEnded, SpeechEnded]
    assert not reflex.speaking


def test_odd_chunk_sizes_change_nothing(silero: SileroModel) -> None:
    audio = stem("en_user_interruption_08", "overlap")
    results: list[list[Signal]] = []
    for size in (320, 333, 97, 4096):
        reflex = Reflex(SileroVad(silero))
        signals: list[Signal] = []
        for position in range(0, len(audio), size):
            signals += reflex.feed(audio[position : position + size], position, agent_speaking=True)
        results.append(signals)
    assert results[0]
    assert all(result == results[0] for result in results)
