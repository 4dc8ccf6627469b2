"""Looking in longer steps finds the same: random audio in random pieces, gaps, and an agent that speaks at times."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.reflex import Reflex
from realtime_venus.plugin.rooms.base import AudioChunk
from realtime_venus.plugin.session import SessionSettings
from realtime_venus.plugin.session.lull import Lull
from realtime_venus.plugin.units import Aligner, Chunker

from ...kit.fake_engine import FakeEngine
from ...kit.sessions import INTERRUPTION, QUESTION, Loud, answering, run, voice

CHUNK = 320
Found = list[tuple[int, object]]
"""What came out, with the number of the piece after which it did."""


def listen(audio: FloatPcm, pieces: list[tuple[int, int, bool]], unit_ms: int, step_ms: int) -> tuple[Found, Found]:
    """Signals and units of ``pieces``: (samples lost, or come again, before it; its length; the agent speaks)."""
    aligner, lull, chunker, reflex = Aligner(), Lull(unit_ms, step_ms), Chunker(unit_ms), Reflex(Loud())
    signals: Found = []
    units: Found = []

    def hear(chunks: list[AudioChunk], number: int, *, agent: bool) -> None:
        for chunk in chunks:
            if (aligned := aligner.add(chunk)) is None:
                continue
            told = reflex.feed(aligned.samples, aligned.position, agent_speaking=agent)
            signals.extend((number, signal) for signal in told)
            chunker.add(aligned)
        while (unit := chunker.take()) is not None:
            units.append((number, (unit.index, unit.start_ms, unit.missing_ms, unit.audio.tobytes())))

    position = 0
    for number, (lost, length, agent) in enumerate(pieces):
        position = max(0, position + lost)
        chunk = AudioChunk(audio[position : position + length], position, number)
        position += len(chunk.samples)
        if agent:  # the session looks before the agent begins
            hear(lull.release(), number, agent=False)
        urgent = agent or not reflex.calm(chunk.samples)
        hear(lull.add(chunk, urgent=urgent), number, agent=agent)
    hear(lull.release(), len(pieces), agent=False)
    return signals, units


def piece(position: int, filled: float = 0.0) -> AudioChunk:
    return AudioChunk(np.full(CHUNK, filled, np.float32), position, (position + CHUNK) / 16000)


def what(found: Found) -> list[object]:
    return [item for _, item in found]


@settings(deadline=None)
@example(seed=0, noise=0.0, loudness=0.06, spans=[], pieces=[(333, 0, False), (0, 1, False)], unit_ms=20)
@given(
    seed=st.integers(0, 999),
    noise=st.sampled_from([0.0, 1e-4, 1e-3, 8e-3]),
    loudness=st.sampled_from([0.06, 0.3, 1.0]),
    spans=st.lists(st.tuples(st.integers(0, 2800), st.integers(30, 900)), max_size=3),
    pieces=st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 0, 0, 0, 7, 333, 9000, -200]), st.integers(0, 1500), st.booleans()),
        min_size=1,
        max_size=90,
    ),
    unit_ms=st.sampled_from([20, 100, 160, 1000]),
)
def test_steps_change_no_signal_and_no_unit_and_no_units_time(
    seed: int,
    noise: float,
    loudness: float,
    spans: list[tuple[int, int]],
    pieces: list[tuple[int, int, bool]],
    unit_ms: int,
) -> None:
    speech = loudness * voice(*((start, start + length) for start, length in spans), total_ms=4000)
    audio = (speech + noise * np.random.default_rng(seed).standard_normal(len(speech))).astype(np.float32)
    signals, units = listen(audio, pieces, unit_ms, 0)
    later_signals, same_units = listen(audio, pieces, unit_ms, 100)
    assert what(later_signals) == what(signals)
    assert same_units == units


def test_nothing_waits_while_the_agent_speaks_or_the_user_is_loud() -> None:
    audio = voice((1000, 2000), total_ms=4000)
    over = [(0, CHUNK, True)] * 200
    assert listen(audio, over, 100, 100) == listen(audio, over, 100, 0)
    alone = [(0, CHUNK, False)] * 200
    at_once, in_steps = listen(audio, alone, 100, 0)[0], listen(audio, alone, 100, 100)[0]
    assert len(at_once) == 2
    assert in_steps == at_once


def test_in_silence_five_pieces_become_one_with_the_unit_they_complete() -> None:
    lull = Lull(100, 100)
    given_on = [lull.add(piece(at, filled=at), urgent=False) for at in range(0, 16000, CHUNK)]
    assert [len(chunks) for chunks in given_on] == [0, 0, 0, 0, 1] * 10
    joined = [chunk for chunks in given_on for chunk in chunks]
    assert [chunk.position for chunk in joined] == list(range(0, 16000, 1600))
    assert [chunk.arrival_s for chunk in joined[:2]] == [0.1, 0.2]
    assert np.array_equal(joined[1].samples, np.repeat(np.arange(1600, 3200, CHUNK, dtype=np.float32), CHUNK))


def test_steps_never_grow_beyond_their_length_whatever_the_unit() -> None:
    lull = Lull(1000, 100)
    sizes = [sum(len(chunk.samples) for chunk in lull.add(piece(at), urgent=False)) for at in range(0, 32000, CHUNK)]
    assert max(sizes) == 1600


def test_what_does_not_join_goes_on_at_once_behind_what_was_held() -> None:
    lull = Lull(100, 100)
    first, behind_a_gap, again = piece(0), piece(1000), piece(900)
    assert lull.add(first, urgent=False) == []
    assert lull.add(behind_a_gap, urgent=False) == [first, behind_a_gap]
    assert lull.add(again, urgent=False) == [again]
    assert lull.release() == []


SOFT = (0.06 * INTERRUPTION + 1e-3 * np.random.default_rng(3).standard_normal(len(INTERRUPTION))).astype(np.float32)


@pytest.mark.parametrize("audio", [QUESTION, INTERRUPTION, SOFT], ids=["question", "interruption", "soft"])
def test_a_session_tells_the_same_at_the_same_media_times(audio: FloatPcm) -> None:
    told: list[Counter[str]] = []
    sounded: list[bytes] = []
    for step_ms in (0, 100):
        result = run(audio, FakeEngine(answering(1500)), settings=SessionSettings(quiet_step_ms=step_ms))
        told.append(Counter(str(event) for event in result.session.timeline.events))
        sounded.append(result.room.agent_audio.tobytes())
        assert [unit.index for unit in result.engine.session.units] == list(range(len(audio) // 1600))
    assert told[1] == told[0]
    assert sounded[1] == sounded[0]
    assert any("UserSpeech" in event for event in told[0])
