"""Sessions in step equal sessions alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.context import Previous, Recent
from realtime_venus.engines.omni.draws import SeededDraws
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.duplex_settings import DuplexSettings
from realtime_venus.engines.omni.lockstep import Lockstep
from realtime_venus.engines.omni.pieces import Piece, UnitEnd
from realtime_venus.engines.omni.talker import MAX_NEW, Talker, TalkerChunk, TalkerState
from torch import Tensor

from tests.kit import golden
from tests.kit.omni_replay import base, model, voice
from tests.kit.omni_script import STEPS, Unit, close, generate, listening, prepare, prompt, second, speaking, steer


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def _settings(*, speaks: bool) -> list[DuplexSettings]:
    contexts = (Recent(seconds=2, batch=0), Previous(units=2, tokens=8), Recent())
    return [
        DuplexSettings(positions=1024, speaks=speaks, context=context, seed=seed)
        for seed, context in enumerate(contexts)
    ]


def _plans() -> list[list[tuple[dict[str, Any], list[int] | None]]]:
    """What each session is fed and made to say (``None``: what it wants): units of different lengths side by side."""
    frames = [golden.image(golden.pictures()[0])] if golden.sees() else []
    return [
        [
            ({"audio": second(0), "frames": frames}, listening()),
            ({"audio": second(1)}, speaking("a long way to say a short thing", "turn_eos")),
            ({"audio": second(2)}, None),
            ({"audio": second(3)}, listening()),
        ],
        [
            ({"audio": second(4)}, speaking("yes")),
            ({"text": "something typed that is longer than a second of sound"}, speaking("and", "turn_eos")),
            ({"audio": second(5)}, None),
            ({"audio": second(6)}, listening()),
        ],
        [
            ({"audio": second(7)}, None),
            ({"audio": second(8)}, listening()),
            ({"audio": second(9), "frames": frames}, speaking("one two three")),
            ({"audio": second(10)}, None),
        ],
    ]


@pytest.fixture
def _codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The talker is made to say certain codes.

    Left to itself it draws from thousands that are about as likely, and the last bit of a sum decides between two:
    those of several sessions and of one need not agree in it.
    """
    speak = Talker.speak

    def forced(self: Talker, state: TalkerState, condition: Tensor, **options: Any) -> TalkerChunk:
        first = 101 * state.position
        bias = {step: {(first + 37 * step) % self.end_of_speech: 1000.0} for step in range(MAX_NEW)}
        options["bias"] = bias
        return speak(self, state, condition, **options)

    monkeypatch.setattr(Talker, "speak", forced)


def _spoken(talker: TalkerState) -> Tensor:
    return talker.cache.k[:, talker.slot, :, : talker.position]


def _prepare(together: Lockstep, *, speaks: bool) -> None:
    beginning, end, name = prompt()
    learnt = base(name, STEPS) if speaks else None
    together.together(
        {index: each.preparing(beginning, end, voice(name), learnt) for index, each in enumerate(together.sessions)}
    )


def _round(together: Lockstep, step: int) -> list[Unit]:
    plans, sessions = _plans(), together.sessions
    fed = together.together({index: each.prefilling(**plans[index][step][0]) for index, each in enumerate(sessions)})
    assert all(unit is not None for unit in fed.values())
    pieces: list[list[Piece]] = [[] for _ in sessions]
    works = {
        index: each.generating(steer=None if (said := plans[index][step][1]) is None else steer(said))
        for index, each in enumerate(sessions)
    }
    for index, piece in together.generate(works):
        pieces[index].append(piece)
    together.together({index: each.finalising() for index, each in enumerate(sessions)})
    ends = [each.pop() for each in pieces]
    return [Unit(each, end) for each, end in zip(pieces, ends, strict=True) if isinstance(end, UnitEnd)]


@pytest.mark.usefixtures("_codes")
@pytest.mark.parametrize("speaks", [False, True])
def test_sessions_in_step_equal_sessions_alone(speaks: bool) -> None:
    together = Lockstep(model(), _settings(speaks=speaks))
    _prepare(together, speaks=speaks)
    alone = [Duplex(model(), settings) for settings in _settings(speaks=speaks)]
    for each in alone:
        prepare(each)
    for step in range(4 if not speaks else 2):
        done = _round(together, step)
        for index, (ours, single) in enumerate(zip(done, alone, strict=True)):
            given, said = _plans()[index][step]
            single.prefill(**given)
            theirs = generate(single, said)
            assert (ours.end.ids, ours.text, ours.end.codes) == (theirs.end.ids, theirs.text, theirs.end.codes)
            assert ours.end.forwards == theirs.end.forwards
            assert ours.pcm.shape == theirs.pcm.shape
            assert np.abs(ours.pcm - theirs.pcm).max(initial=0) < 2e-3
            own = together.sessions[index]
            assert (own.length, own.units.snapshot()) == (single.length, single.units.snapshot())
            held, lone = (each.cache.k[:, each.slot, :, : each.length] for each in (own, single))
            assert close(held, lone)
            if own.voice.speech is not None and single.voice.speech is not None:
                assert close(_spoken(own.voice.speech.talker), _spoken(single.voice.speech.talker))


def test_forwards_of_a_round_are_one_batch() -> None:
    together = Lockstep(model(), _settings(speaks=False))
    _prepare(together, speaks=False)
    widths: list[int] = []

    def note(_module: object, given: tuple[torch.Tensor, ...], _output: object) -> None:
        widths.append(given[0].shape[0])

    handle = model().thinker.register_forward_hook(note)
    try:
        done = _round(together, 0)
    finally:
        handle.remove()
    decoded = sorted(len(each.end.ids) - 2 for each in done)
    # one prefill of all, then a step of those that still speak
    steps = [sum(count > step for count in decoded) for step in range(decoded[-1])]
    assert widths == [len(done), *steps]


def test_some_go_on_while_others_rest() -> None:
    together = Lockstep(model(), _settings(speaks=False))
    _prepare(together, speaks=False)
    lengths = [each.length for each in together.sessions]
    ears = together.sessions[0].input.hearing
    assert ears is not None
    grown = 1 + ears.rows
    together.together({1: together.sessions[1].prefilling(second(0))})
    assert [each.length for each in together.sessions] == [lengths[0], lengths[1] + grown, lengths[2]]
    together.alone(0, together.sessions[0].prefilling(second(0)))
    assert together.sessions[0].length == lengths[0] + grown
    first, second_one = (together.sessions[index].pending for index in (0, 1))
    assert first is not None
    assert second_one is not None
    assert close(first.logits, second_one.logits)


def test_draws_may_be_given() -> None:
    given = [SeededDraws(seed) for seed in (5, 5, 6)]
    together = Lockstep(model(), _settings(speaks=False), given)
    _prepare(together, speaks=False)
    fed = {index: each.prefilling(second(0)) for index, each in enumerate(together.sessions)}
    together.together(fed)
    ends = {
        index: piece.ids
        for index, piece in together.generate({i: each.generating() for i, each in enumerate(together.sessions)})
        if isinstance(piece, UnitEnd)
    }
    assert ends[0] == ends[1]
