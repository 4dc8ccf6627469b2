"""Words from ids: characters that span tokens, and what is private."""

from __future__ import annotations

import pytest
from realtime_venus.engines.omni.pieces import PrivatePiece, TextPiece
from realtime_venus.engines.omni.words import Characters, Words, control_names
from realtime_venus.engines.protocol import Close, Control, Hide, Open, Reason, Reject

from tests.kit.omni_replay import model
from tests.kit.omni_script import named

TEXTS = ["hello there", "你好，今天", "emoji 😀 é!", "mixed 中 a\n\tb"]


def _words() -> Words:
    return Words(model().tokens)


def _said(words: Words, *said: str | int) -> list[TextPiece | PrivatePiece]:
    found: list[TextPiece | PrivatePiece] = []
    for each in said:
        ids = [each] if isinstance(each, int) else model().tokens.encode_plain(each)
        for token in ids:
            found += words.push(token)
    return found


def _shown(pieces: list[TextPiece | PrivatePiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def _private(pieces: list[TextPiece | PrivatePiece]) -> list[object]:
    return [piece.action for piece in pieces if isinstance(piece, PrivatePiece)]


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_are_whole_characters_and_together_the_text(text: str) -> None:
    tokens = model().tokens
    characters = Characters(tokens)
    pieces = [characters.push(token) for token in tokens.encode_plain(text)]
    assert "".join(pieces) == text
    assert not characters.flush()
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)


def test_unfinished_character_comes_with_the_flush() -> None:
    tokens = model().tokens
    characters = Characters(tokens)
    first, *_ = tokens.encode_plain("😀")
    assert characters.push(first) == ""
    assert characters.flush() == "\N{REPLACEMENT CHARACTER}"
    assert "".join(map(characters.push, tokens.encode_plain("abc"))) == "abc"


def test_bytes_that_are_no_character_do_not_hold_up_what_follows() -> None:
    tokens = model().tokens
    characters = Characters(tokens)
    first, *_ = tokens.encode_plain("😀")
    ids = [first] * 12 + tokens.encode_plain("ok")
    shown = "".join(map(characters.push, ids)) + characters.flush()
    assert shown == tokens.decode(ids)


def test_every_control_token_is_known_to_the_gate() -> None:
    assert named("delegate") != named("backend")
    assert set(control_names(model().tokens.ids).values()) == set(Control)


def test_request_is_told_and_not_shown() -> None:
    words = _words()
    before = _said(words, named("speak"), "let me look")
    assert not words.private
    inside = _said(words, named("delegate"), "the report")
    assert words.private
    after = _said(words, named("delegate_end"), "done", named("turn_eos"))
    assert not words.private
    assert (_shown(before), _shown(inside), _shown(after)) == ("let me look", "", "done")
    actions = _private(inside) + _private(after)
    assert actions[0] == Open()
    assert "".join(action.text for action in actions if isinstance(action, Hide)) == "the report"
    assert actions[-1] == Close("the report")


def test_request_goes_on_in_the_place_of_a_decision() -> None:
    """The first id of a unit is lost as a word, and kept in a request."""
    words = _words()
    token = model().tokens.encode_plain("x")[0]
    assert words.push(token, lost=True) == []
    _said(words, named("delegate"))
    assert words.push(token, lost=True) == [PrivatePiece(Hide("x"))]


def test_request_that_is_cut_off_is_rejected() -> None:
    words = _words()
    _said(words, named("delegate"), "half a req")
    assert _private(words.abandon()) == [Reject(Reason.UNFINISHED)]
    assert not words.private
    assert _shown(_said(words, named("speak"), "hello")) == "hello"


@pytest.mark.parametrize("cut", range(8))
def test_snapshot_anywhere_in_a_turn(cut: int) -> None:
    tokens = model().tokens
    ids = [named("speak"), *tokens.encode_plain("a😀b"), named("delegate"), *tokens.encode_plain("que😀ry")]
    rest = [named("delegate_end"), *tokens.encode_plain(" c"), named("turn_eos")]
    cut = cut * len(ids) // 7
    words = _words()
    _said(words, *ids[:cut])
    other = _words()
    other.restore(words.snapshot())
    assert _said(other, *ids[cut:], *rest) == _said(words, *ids[cut:], *rest)
    assert other.turn == words.turn == []
