"""Windows of codes: when they are rendered, how they leave, and what stays pending."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni.behaviour import RULES, Behaviour
from realtime_venus.engines.omni.speech import LEAD, Speech
from realtime_venus.engines.omni.token2wav.config import LOOKAHEAD

from tests.kit.omni_replay import base, model
from tests.kit.omni_script import DEMO, HUB, STEPS, VENUS, ScriptedCodes, prompt

WINDOW = 25 + LOOKAHEAD


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def _speech(behaviour: Behaviour = VENUS, *ends: int) -> Speech:
    return Speech(model(), RULES[behaviour], ScriptedCodes(*ends), base(prompt()[2], STEPS))


def _hidden(rows: int) -> torch.Tensor:
    return torch.ones(rows, model().config.hidden_size)


def _say(speech: Speech, *, ends: bool = False) -> list[int]:
    speech.begin_unit()
    return [len(piece.pcm) for piece in speech.speak([5, 6], _hidden(2), ends=ends)]


def test_a_second_leaves_for_every_full_chunk_and_three_codes_stay() -> None:
    speech = _speech()
    assert [_say(speech) for _ in range(3)] == [[24_000]] * 3
    assert [each.codes for each in speech.windows] == [WINDOW]
    assert len(speech.buffer) == LOOKAHEAD


def test_window_leaves_before_the_next_is_rendered() -> None:
    speech = _speech(VENUS, 26 + 25)
    _say(speech)
    speech.begin_unit()
    work = speech.speak([5], _hidden(1), ends=True)
    assert len(next(work).pcm) == 24_000
    assert len(speech.windows) == 1
    assert [len(piece.pcm) for piece in work] == [6720]
    assert speech.buffer == list(LEAD)
    assert speech.talker.position == 0


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_short_first_chunk_is_rendered_at_once_with_silence_in_front(behaviour: Behaviour) -> None:
    speech = _speech(behaviour, 12)
    speech.begin_unit()
    (piece,) = speech.speak([5, 6], _hidden(2), ends=False)
    (window,) = speech.windows
    assert (window.codes, window.samples, len(piece.pcm)) == (15, 11_520, 24_000)
    assert not piece.pcm[: 24_000 - 11_520].any()
    assert np.abs(piece.pcm[24_000 - 11_520 :]).max() > 0
    assert speech.buffer == list(speech.chunks[0].codes[-LOOKAHEAD:])


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_too_little_for_a_window_waits_for_the_end(behaviour: Behaviour) -> None:
    speech = _speech(behaviour, 3)
    assert _say(speech) == []
    assert len(speech.buffer) == LOOKAHEAD + 3
    whole = _speech(behaviour, 3)
    assert _say(whole, ends=True) == [(LOOKAHEAD + 3) * 960 + 3840]


@pytest.mark.parametrize(("behaviour", "windows"), [(HUB, [8]), (DEMO, [8, 3])])
def test_last_codes_of_a_turn(behaviour: Behaviour, windows: list[int]) -> None:
    """The demo's code renders what it can before the end of the turn is known to it."""
    speech = _speech(behaviour, 26 + 5)
    _say(speech)
    assert sum(_say(speech, ends=True)) == 11_520
    assert [each.codes for each in speech.windows] == windows
    assert [each.last for each in speech.windows] == [False] * (len(windows) - 1) + [True]


def test_a_turn_that_outgrows_the_talker_goes_on_as_another() -> None:
    speech = _speech()
    _say(speech)
    cache = speech.talker.cache
    cache.advance(cache.room() - 20)
    parts = _say(speech)
    assert parts == [6720, 24_000]
    assert [chunk.position for chunk in speech.chunks] == [0]


def test_what_is_drained_after_the_end_of_a_turn_stops_where_the_talker_is_full() -> None:
    speech = _speech()
    _say(speech)
    cache = speech.talker.cache
    cache.advance(cache.room() - (3 + 25) - 10)
    parts = _say(speech, ends=True)
    assert parts[0] == 24_000
    assert len(speech.chunks) == 1
    assert (speech.talker.position, speech.buffer) == (0, list(LEAD))
    assert _say(speech) == [24_000]


def test_next_turn_begins_like_the_first() -> None:
    speech, other = _speech(), _speech()
    _say(speech)
    speech.begin_turn()
    assert speech.buffer == list(LEAD)
    speech.begin_unit()
    (again,) = speech.speak([5, 6], _hidden(2), ends=False)
    (first,) = other.speak([5, 6], _hidden(2), ends=False)
    assert speech.chunks[0].codes == other.chunks[0].codes
    assert speech.windows == other.windows
    # but for the noise, which does not come again within a session
    assert np.corrcoef(again.pcm, first.pcm)[0, 1] > 0.5
    assert not np.array_equal(again.pcm, first.pcm)
    speech.reset()
    speech.begin_unit()
    (as_new,) = speech.speak([5, 6], _hidden(2), ends=False)
    assert np.array_equal(as_new.pcm, first.pcm)


def test_snapshot_in_the_middle_of_a_turn() -> None:
    speech, other = _speech(), _speech()
    _say(speech)
    other.restore(speech.snapshot(), ScriptedCodes())
    ours = [piece.pcm for piece in speech.speak([7], _hidden(1), ends=False)]
    theirs = [piece.pcm for piece in other.speak([7], _hidden(1), ends=False)]
    assert np.array_equal(np.concatenate(ours), np.concatenate(theirs))
    assert other.buffer == speech.buffer


def test_checkpoint_without_a_voice_is_refused() -> None:
    from dataclasses import replace

    silent = replace(model(), token2wav=None)
    with pytest.raises(EngineError, match="does not speak"):
        Speech(silent, RULES[VENUS], ScriptedCodes(), base(prompt()[2], STEPS))
