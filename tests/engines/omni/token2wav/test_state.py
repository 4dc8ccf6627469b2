"""Sessions share weights and voices, and nothing else; a stream can be cloned, kept, brought back and begun anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from realtime_venus.engines.omni.token2wav.config import (
    FLUSH,
    MAX_CODES,
    MAX_PROMPT_FRAMES,
    MEL_HOP,
    OUTPUT_HZ,
    WINDOW,
    Token2WavError,
)
from realtime_venus.engines.omni.token2wav.noise import SeededNoise
from realtime_venus.engines.omni.token2wav.state import T2WState
from realtime_venus.engines.omni.token2wav.stream import Token2Wav
from realtime_venus.engines.omni.token2wav.vocoder import OVERLAP
from torch import Tensor

from ....kit import t2w

STEPS = 2


def decoder() -> Token2Wav:
    return t2w.recorded_decoder(STEPS)


def codes(seed: int, count: int = MAX_CODES) -> list[int]:
    return np.random.RandomState(seed).randint(0, decoder().flow.config.vocab_size, count).tolist()


def speak(state: T2WState, *seeds: int, last: bool = False) -> list[Tensor]:
    return [decoder().stream(state, codes(seed), last=last) for seed in seeds]


def same(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_window_is_a_second_and_the_last_gives_back_what_was_held() -> None:
    state = t2w.session(STEPS)
    first, second = speak(state, 1, 2)
    assert len(first) == len(second) == WINDOW * OUTPUT_HZ // 25
    assert not first[:OVERLAP].any()
    assert len(decoder().stream(state, codes(3, 7), last=True)) == 14 * MEL_HOP + OVERLAP


def test_a_turn_of_one_short_window_is_heard_whole() -> None:
    wave = decoder().stream(t2w.session(STEPS), codes(1, 2), last=True)
    assert len(wave) == OVERLAP + 4 * MEL_HOP
    assert wave[OVERLAP:].any()


def test_two_streams_in_turns_are_two_alone() -> None:
    one, other = t2w.session(STEPS), t2w.session(STEPS)
    alone = speak(t2w.session(STEPS), 1, 2, 3, 4), speak(t2w.session(STEPS), 5, 6, 7, 8)
    mixed: tuple[list[Tensor], list[Tensor]] = ([], [])
    for a, b in ((1, 5), (2, 6), (3, 7), (4, 8)):
        mixed[0].extend(speak(one, a))
        mixed[1].extend(speak(other, b))
    assert same(mixed[0], alone[0])
    assert same(mixed[1], alone[1])


@settings(deadline=None, max_examples=4)
@given(before=st.lists(st.integers(0, 9), max_size=3), after=st.lists(st.integers(0, 9), min_size=1, max_size=2))
def test_a_snapshot_in_another_session_goes_on_the_same(before: list[int], after: list[int]) -> None:
    state, other = t2w.session(STEPS), t2w.session(STEPS)
    speak(state, *before)
    kept = state.snapshot()
    expected = speak(state, *after)
    speak(other, 9, 8, 7)
    other.restore(kept)
    assert same(speak(other, *after), expected)
    state.restore(kept)
    assert same(speak(state, *after), expected)


def test_a_snapshot_is_not_changed_by_what_comes_later() -> None:
    state = t2w.session(STEPS)
    speak(state, 1)
    kept = state.snapshot()
    expected = speak(state, 2)
    speak(state, 3, 4)
    state.restore(kept)
    assert same(speak(state, 2), expected)


def test_a_snapshot_of_another_voice_or_other_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="another voice"):
        t2w.session(STEPS).restore(t2w.session(STEPS + 1).snapshot())


def test_a_clone_goes_its_own_way() -> None:
    state = t2w.session(STEPS)
    speak(state, 1, 2, 3)
    copy = state.clone()
    speak(copy, 7, 8, 9)
    untouched = t2w.session(STEPS)
    speak(untouched, 1, 2, 3)
    assert same(speak(state, 4, 5), speak(untouched, 4, 5))


def test_reset_is_as_new_and_a_new_turn_differs_only_in_its_noise() -> None:
    expected = speak(t2w.session(STEPS), 1, 2, 3, 4)
    state = t2w.session(STEPS)
    speak(state, 5, 6, 7, 8)
    decoder().stream(state, codes(3, 7), last=True)
    state.reset()
    assert same(speak(state, 1, 2, 3, 4), expected)

    state.begin_turn()
    mels = [decoder().mel(state, codes(seed), last=False) for seed in (1, 2)]
    fresh = t2w.session(STEPS)
    assert same(mels, [decoder().mel(fresh, codes(seed), last=False) for seed in (1, 2)])
    state.begin_turn()
    assert not same(speak(state, 1), expected[:1])


def test_each_turn_starts_with_the_voice() -> None:
    """After enough windows to overwrite the prompt's place in the caches."""
    state = t2w.session(STEPS)
    speak(state, *range(8))
    state.begin_turn()
    fresh = t2w.session(STEPS)
    assert torch.equal(decoder().mel(state, codes(1), last=False), decoder().mel(fresh, codes(1), last=False))


def test_an_ended_turn_must_be_begun_anew() -> None:
    state = t2w.session(STEPS)
    speak(state, 1, last=True)
    with pytest.raises(Token2WavError, match="begin_turn"):
        speak(state, 2)
    state.begin_turn()
    speak(state, 2)


def test_the_first_stage_at_its_own_rate_hears_what_the_published_trim_forgets() -> None:
    """Equal until a cache is trimmed, and different from then on; both give a second each time."""
    frozen, moving = t2w.session(STEPS), t2w.session(STEPS, own_rate_trim=True)
    waves = [(speak(frozen, seed)[0], speak(moving, seed)[0]) for seed in range(6)]
    trimmed = frozen.base.frames + 100
    calls_before = (trimmed - frozen.base.frames) // (2 * WINDOW)
    assert all(torch.equal(a, b) for a, b in waves[: calls_before + 1])
    assert not any(torch.equal(a, b) for a, b in waves[calls_before + 1 :])
    assert frozen.encoder.first.length == moving.encoder.first.length == trimmed // 2
    assert moving.clone().own_rate_trim
    kept = moving.snapshot()
    frozen.restore(kept)
    assert torch.equal(speak(frozen, 1)[0], speak(moving, 1)[0])


def test_steps_may_differ_by_voice() -> None:
    own = decoder().base(t2w.recorded_voice(), steps=STEPS + 1)
    assert own.flow.k.shape[0] == STEPS + 1
    assert same(speak(own, 1), [t2w.recorded_decoder(STEPS + 1).stream(t2w.session(STEPS + 1), codes(1), last=False)])


def test_seeded_noise_makes_two_loads_speak_the_same_and_another_seed_differently() -> None:
    def spoken(seed: int | None) -> Tensor:
        noise = None if seed is None else SeededNoise(seed)
        loaded = Token2Wav.load(t2w.assets(), steps=STEPS, noise=noise)
        return loaded.stream(loaded.base(t2w.recorded_voice()), codes(1), last=False)

    assert torch.equal(spoken(None), spoken(0))
    assert not torch.equal(spoken(0), spoken(1))


def test_noise_of_another_shape_is_refused() -> None:
    loaded = Token2Wav.load(t2w.assets(), steps=STEPS)
    with pytest.raises(ValueError, match="noise is"):
        loaded.noise = SeededNoise(mel=loaded.flow.config.output_size + 1)


@pytest.mark.parametrize(
    ("count", "last"), [(FLUSH - 1, False), (0, True), (MAX_CODES + 1, False), (MAX_CODES + 1, True)]
)
def test_a_window_of_the_wrong_length_is_refused(count: int, last: bool) -> None:
    with pytest.raises(Token2WavError, match="a window has"):
        decoder().stream(t2w.session(STEPS), codes(1, count), last=last)


@pytest.mark.parametrize("above", [False, True])
def test_a_code_that_is_none_is_refused_and_nothing_has_changed(above: bool) -> None:
    wrong = decoder().flow.config.vocab_size if above else -1
    state = t2w.session(STEPS)
    with pytest.raises(Token2WavError, match=str(wrong)):
        decoder().stream(state, [*codes(1, 27), wrong], last=False)
    assert same(speak(state, 1, 2), speak(t2w.session(STEPS), 1, 2))


def test_a_voice_that_is_too_long_or_does_not_fit_together_is_refused() -> None:
    voice = t2w.recorded_voice()
    long = MAX_PROMPT_FRAMES // 2 + 1
    mel = np.zeros((2 * long, voice.mel.shape[1]), np.float32)
    with pytest.raises(Token2WavError, match="17 s"):
        decoder().base(dataclasses.replace(voice, codes=np.zeros(long, np.int64), mel=mel))
    with pytest.raises(Token2WavError, match="enrol it again"):
        decoder().base(dataclasses.replace(voice, codes=voice.codes[:-1]))
    with pytest.raises(Token2WavError, match="speaker vector"):
        decoder().base(dataclasses.replace(voice, speaker=voice.speaker[:-1]))


def test_nothing_and_too_much_at_once_are_refused() -> None:
    with pytest.raises(Token2WavError, match="no codes"):
        decoder().synthesise(t2w.recorded_voice(), [])
    with pytest.raises(Token2WavError, match="too many"):
        decoder().synthesise(t2w.recorded_voice(), [1] * 15_000)
