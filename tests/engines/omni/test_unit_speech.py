"""What is voiced: never a private request, all that was said before it, and what is said after it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.behaviour import RULES
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.pieces import PrivatePiece, SpeechPiece, UnitEnd
from realtime_venus.engines.omni.speech import Chunk, Speech
from realtime_venus.engines.omni.unit_speech import UnitSpeech
from realtime_venus.engines.protocol import Close, Open, Reason, Reject

from tests.kit.omni_script import (
    HUB,
    VENUS,
    ScriptedCodes,
    close,
    generate,
    listening,
    named,
    second,
    session,
    speaking,
    steer,
    told,
    unit,
    words,
)

CHUNK = 25


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def _speech(made: Duplex) -> Speech:
    assert made.voice.speech is not None
    return made.voice.speech


def _rows(chunks: list[Chunk]) -> list[int]:
    """Words in the condition of each chunk."""
    return [chunk.condition.shape[0] - 1 for chunk in chunks]


def _actions(pieces: list[PrivatePiece]) -> list[object]:
    return [piece.action for piece in pieces if isinstance(piece.action, Open | Close | Reject)]


def test_request_over_several_units_is_never_voiced() -> None:
    made = session(speaks=True, draws=ScriptedCodes(12))
    said = words("let me look")
    opening = unit(made, 0, [named("speak"), *said, named("delegate"), *words("read the")])
    # all that was to be heard is said to its end before the request goes on
    assert (opening.text, _rows(_speech(made).chunks), opening.end.codes) == (told("let me look"), [len(said)], 12)
    assert _speech(made).windows[-1].last
    assert not _speech(made).pending
    between = unit(made, 1, speaking("report"))
    assert (between.text, between.end.codes, len(between.pcm), between.end.is_listen) == ("", 0, 0, False)
    closing = unit(made, 2, [named("speak"), named("delegate_end"), named("turn_eos")])
    assert (closing.text, len(closing.pcm), closing.end.end_of_turn) == ("", 0, True)
    private = [piece for each in (opening, between, closing) for piece in each.of(PrivatePiece)]
    assert _actions(private) == [Open(), Close(told("read the") + told("report"))]


def test_words_after_a_request_are_voiced_as_a_turn_of_their_own() -> None:
    made = session(speaks=True, draws=ScriptedCodes(5))
    unit(made, 0, [named("speak"), *words("well"), named("delegate"), *words("query")])
    rest = words("one moment")
    done = unit(made, 1, [named("speak"), named("delegate_end"), *rest])
    assert done.text == told("one moment")
    (chunk,) = _speech(made).chunks
    assert (chunk.position, chunk.shortest, chunk.condition.shape[0] - 1) == (0, 0, len(rest))


def test_a_unit_that_ends_at_once_outside_a_turn_is_silent() -> None:
    """The published codes let the talker speak without words, and the next turn goes on from there."""
    quiet, theirs = session(speaks=True, draws=ScriptedCodes()), session(HUB, speaks=True, draws=ScriptedCodes())
    for made in (quiet, theirs):
        unit(made, 0, [])
        unit(made, 1, listening())
    assert (_speech(quiet).pending, _speech(theirs).pending) == (False, True)
    said = words("hello there")
    for made, position in ((quiet, 0), (theirs, CHUNK + 1)):
        done = unit(made, 2, [named("speak"), *said])
        assert done.end.codes > 0
        assert _speech(made).chunks[0].position == position
    # a turn that is open goes on without words
    assert unit(quiet, 3, []).end.codes > 0


def test_request_between_words_of_one_unit() -> None:
    """Only the words around it are conditions: the same as if they had been said without it."""
    said, rest = words("well"), words("then")
    request = [named("delegate"), *words("query"), named("delegate_end")]
    made = session(speaks=True, draws=ScriptedCodes())
    done = unit(made, 0, [named("speak"), *said, *request, *rest])
    assert done.text == told("well") + told("then")
    (chunk,) = _speech(made).chunks
    spoken = made.said
    assert spoken is not None
    assert spoken.spoken == [*said, *rest]
    talker = made.model.talker
    assert talker is not None
    assert close(chunk.condition, talker.condition([*said, *rest], torch.stack(spoken.hidden)))


def test_request_at_the_beginning_of_a_turn_says_nothing() -> None:
    made = session(speaks=True, draws=ScriptedCodes())
    done = unit(made, 0, [named("speak"), named("delegate"), *words("query"), named("delegate_end"), named("turn_eos")])
    assert (done.end.codes, len(done.pcm), done.end.end_of_turn) == (0, 0, True)
    assert not _speech(made).pending


def test_request_that_ends_with_the_turn() -> None:
    made = session(speaks=True, draws=ScriptedCodes(4))
    done = unit(made, 0, [named("speak"), *words("ok"), named("delegate"), *words("query"), named("turn_eos")])
    assert _actions(done.of(PrivatePiece)) == [Open(), Close(told("query"))]
    assert (done.end.codes, done.end.end_of_turn) == (4, True)


def test_forced_listen_throws_an_open_request_away() -> None:
    made = session(speaks=True, draws=ScriptedCodes(2))
    unit(made, 0, [named("speak"), *words("ok"), named("delegate"), *words("que")])
    done = unit(made, 1, force_listen=True)
    assert _actions(done.of(PrivatePiece)) == [Reject(Reason.UNFINISHED)]
    assert unit(made, 2, speaking("hello")).text == told("hello")


def test_published_code_takes_a_request_for_words() -> None:
    made = session(HUB, speaks=True, draws=ScriptedCodes())
    done = unit(made, 0, [named("speak"), named("delegate"), *words("query")])
    assert (done.text, done.of(PrivatePiece)) == (told("query"), [])
    assert _rows(_speech(made).chunks) == [1 + len(words("query"))]


def test_break_while_words_are_decoded() -> None:
    """Nothing more is decoded or voiced, and the next unit closes the turn in the context."""
    made = session(speaks=True, draws=ScriptedCodes())
    made.prefill(second(0))
    work = made.generate(steer=steer(speaking("one two three four five six seven")))
    next(work)
    made.break_off()
    (end,) = work
    assert isinstance(end, UnitEnd)
    assert (end.tokens, end.codes, end.samples) == (1, 0, 0)
    assert not _speech(made).pending
    assert made.text.turn_open
    done = unit(made, 1, speaking("more"))
    assert done.end.ids == (named("turn_eos"), named("listen"), named("unit_end"))


def test_break_while_speech_is_rendered() -> None:
    made = session(speaks=True, draws=ScriptedCodes())
    made.prefill(second(0))
    work = made.generate(steer=steer(speaking("bye", "turn_eos")))
    heard = [next(piece for piece in work if isinstance(piece, SpeechPiece))]
    made.break_off()
    (end,) = work
    assert isinstance(end, UnitEnd)
    assert end.samples == len(heard[0].pcm)
    assert not _speech(made).pending
    assert not unit(made, 1, speaking("more")).end.is_listen


def test_session_without_speech_has_words_alone() -> None:
    made = session(speaks=False)
    done = unit(made, 0, speaking("hello", "turn_eos"))
    assert (done.text, done.end.codes, done.pcm.tolist()) == (told("hello"), 0, [])
    made.prefill(second(1))
    assert generate(made, listening()).end.is_listen


@pytest.mark.parametrize("pause", [False, True])
def test_state_goes_through_a_snapshot(pause: bool) -> None:
    made = session(speaks=True, draws=ScriptedCodes(3))
    said = [named("delegate"), *words("query")] if pause else []
    unit(made, 0, [named("speak"), *words("well"), *said])
    other = UnitSpeech(made.model, RULES[VENUS])
    other.begin(_speech(made).stream, ScriptedCodes())
    other.restore(made.voice.snapshot(), ScriptedCodes())
    assert other.snapshot()["hushed"] is made.voice.snapshot()["hushed"] is pause
    assert other.speech is not None
    assert other.speech.buffer == _speech(made).buffer
    assert other.speech.talker.position == _speech(made).talker.position


def test_speech_of_a_unit_is_finite_and_within_range() -> None:
    made = session(speaks=True, draws=ScriptedCodes())
    done = unit(made, 0, speaking("hello there"))
    assert done.pcm.dtype == np.float32
    assert np.isfinite(done.pcm).all()
    assert np.abs(done.pcm).max() <= 1
