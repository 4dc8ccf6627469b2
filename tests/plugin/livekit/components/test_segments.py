from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.plugin.livekit.components.segments import WINDOW, WINDOW_S, Kind, Moment, Segmenter, VadOptions

SPEECH, UNSURE, SILENCE = 0.9, 0.4, 0.1


def options(**changes: float) -> VadOptions:
    return VadOptions(
        **{"min_speech_s": 2 * WINDOW_S, "min_silence_s": 3 * WINDOW_S, "prefix_padding_s": 2 * WINDOW_S, **changes}
    )


def run(segmenter: Segmenter, *probabilities: float, first: int = 0) -> list[Moment]:
    """Windows that each hold their own number."""
    moments: list[Moment] = []
    for number, probability in enumerate(probabilities, first):
        moments += segmenter.feed(np.full(WINDOW, number, np.float32), probability)
    return moments


def turns(moments: list[Moment]) -> list[tuple[Kind, int]]:
    return [(moment.kind, moment.samples // WINDOW) for moment in moments if moment.kind is not Kind.WINDOW]


def numbers(moment: Moment) -> list[int]:
    return [int(number) for number in moment.audio[::WINDOW]]


def test_speech_begins_after_enough_of_it_and_ends_after_enough_silence() -> None:
    moments = run(Segmenter(options()), SILENCE, SPEECH, SPEECH, SPEECH, SILENCE, SILENCE, SILENCE, SILENCE)
    assert turns(moments) == [(Kind.STARTED, 3), (Kind.ENDED, 7)]
    started, ended = (moment for moment in moments if moment.kind is not Kind.WINDOW)
    assert started.speech_s == pytest.approx(2 * WINDOW_S)
    assert ended.speech_s == pytest.approx(3 * WINDOW_S)
    assert ended.silence_s == pytest.approx(3 * WINDOW_S)
    assert started.speaking
    assert not ended.speaking


def test_a_click_is_no_speech() -> None:
    assert turns(run(Segmenter(options()), SPEECH, SILENCE, SPEECH, SILENCE)) == []


def test_within_speech_the_lower_threshold_holds() -> None:
    assert turns(run(Segmenter(options()), *[UNSURE] * 9)) == []
    assert turns(run(Segmenter(options()), SPEECH, SPEECH, *[UNSURE] * 9)) == [(Kind.STARTED, 2)]


def test_an_utterance_comes_whole_with_what_was_before_it() -> None:
    moments = run(Segmenter(options()), *[SILENCE] * 5, SPEECH, SPEECH, SPEECH, SILENCE, SILENCE, SILENCE)
    started, ended = (moment for moment in moments if moment.kind is not Kind.WINDOW)
    assert numbers(started) == [3, 4, 5, 6]
    assert numbers(ended) == [3, 4, 5, 6, 7, 8, 9, 10]


def test_the_next_utterance_begins_with_its_own_prefix() -> None:
    segmenter = Segmenter(options())
    run(segmenter, SPEECH, SPEECH, SILENCE, SILENCE, SILENCE)
    started = [moment for moment in run(segmenter, SPEECH, SPEECH, first=5) if moment.kind is Kind.STARTED]
    assert numbers(started[0]) == [3, 4, 5, 6]


def test_every_window_is_told_with_what_came_before_it() -> None:
    windows = [m for m in run(Segmenter(options()), SILENCE, SPEECH, SPEECH, SPEECH) if m.kind is Kind.WINDOW]
    assert [m.speaking for m in windows] == [False, False, False, True]
    assert [round(m.run_speech_s / WINDOW_S) for m in windows] == [0, 0, 1, 2]
    assert [round(m.run_silence_s / WINDOW_S) for m in windows] == [0, 1, 0, 0]
    assert [round(m.silence_s / WINDOW_S) for m in windows] == [1, 2, 3, 0]
    assert [numbers(m) for m in windows] == [[0], [1], [2], [3]]


def test_of_an_utterance_that_is_too_long_the_end_is_not_kept_and_counted() -> None:
    segmenter = Segmenter(options(max_buffered_speech_s=4 * WINDOW_S))
    moments = run(segmenter, *[SPEECH] * 9)
    assert segmenter.dropped == 3
    moments += run(segmenter, *[SILENCE] * 3, first=9)
    assert numbers(next(moment for moment in moments if moment.kind is Kind.ENDED)) == [0, 1, 2, 3, 4, 5]
    assert segmenter.dropped == 0


def test_a_reset_forgets_the_utterance() -> None:
    segmenter = Segmenter(options())
    run(segmenter, SPEECH, SPEECH, SPEECH)
    segmenter.reset()
    moments = run(segmenter, SILENCE, SILENCE, SILENCE, SILENCE)
    assert turns(moments) == []
    assert [moment.samples for moment in moments] == [WINDOW, 2 * WINDOW, 3 * WINDOW, 4 * WINDOW]


@given(st.lists(st.floats(0, 1), max_size=80))
def test_starts_and_ends_alternate_and_memory_is_bounded(probabilities: list[float]) -> None:
    segmenter = Segmenter(options(max_buffered_speech_s=10 * WINDOW_S))
    moments = run(segmenter, *probabilities)
    kinds = [kind for kind, _ in turns(moments)]
    assert kinds == [Kind.STARTED, Kind.ENDED] * (len(kinds) // 2) + [Kind.STARTED] * (len(kinds) % 2)
    assert all(moment.audio.size <= 12 * WINDOW for moment in moments)
    assert sum(moment.kind is Kind.WINDOW for moment in moments) == len(probabilities)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_speech_s": -0.1},
        {"activation_threshold": 0.0},
        {"activation_threshold": 1.5},
        {"max_buffered_speech_s": 0.0},
        {"activation_threshold": 0.3, "deactivation_threshold": 0.4},
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"threshold|min_speech_s|max_buffered_speech_s"):
        options(**wrong)
