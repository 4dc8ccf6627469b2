from __future__ import annotations

import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Decision
from realtime_venus.engines.protocol import (
    QUERY_CHARS,
    Action,
    Close,
    Control,
    Decide,
    EndTurn,
    EndUnit,
    Gate,
    GateLimits,
    Hide,
    Open,
    Reason,
    Reject,
    Show,
    TextGate,
    escape,
)

TAGS = [str(token) for token in Control]
LOOK_ALIKES = [
    "<",
    "<<",
    "</",
    "<|",
    "<delegat",
    "< speak >",
    "<Delegate>",
    "<|speak>",
    "|>",
    "</delegate",
    "<unit",
    ">",
]
piece = st.one_of(
    st.sampled_from(TAGS), st.sampled_from(LOOK_ALIKES), st.text(max_size=6), st.sampled_from(["hello ", "你好", "  "])
)
stream = st.lists(piece, max_size=25).map("".join)
tokens = st.lists(st.one_of(st.sampled_from(list(Control)), st.text(min_size=1, max_size=6)), max_size=25)


def merged(actions: list[Action]) -> list[Action]:
    """The same actions with neighbouring pieces of text joined."""
    out: list[Action] = []
    for action in actions:
        last = out[-1] if out else None
        if isinstance(action, Show) and isinstance(last, Show):
            out[-1] = Show(last.text + action.text)
        elif isinstance(action, Hide) and isinstance(last, Hide):
            out[-1] = Hide(last.text + action.text)
        else:
            out.append(action)
    return out


def parse(*pieces: str, limits: GateLimits | None = None) -> list[Action]:
    gate = TextGate(limits)
    actions: list[Action] = []
    for text in pieces:
        actions += gate.feed(text)
    return merged(actions + gate.finish())


def visible(actions: list[Action]) -> str:
    return "".join(action.text for action in actions if isinstance(action, Show))


def test_a_whole_unit() -> None:
    assert parse("<unit><|speak|>One moment.<delegate> weather in Oslo </delegate><|chunk_eos|></unit>") == [
        Decide(Decision.SPEAK),
        Show("One moment."),
        Open(),
        Hide(" weather in Oslo "),
        Close("weather in Oslo"),
        EndUnit(),
    ]


def test_listening_units_show_nothing() -> None:
    assert parse("<unit><|listen|></unit>" * 2) == [Decide(Decision.LISTEN), EndUnit()] * 2


def test_a_span_crosses_chunks_and_units() -> None:
    actions = parse("<delegate>book a <|chunk_eos|></unit><unit><|speak|>table</delegate>Done.")
    assert [a for a in actions if isinstance(a, Close)] == [Close("book a table")]
    assert visible(actions) == "Done."


def test_the_end_of_the_turn_closes_a_span() -> None:
    assert parse("Well.<delegate>find a hotel<|turn_eos|>Hi") == [
        Show("Well."),
        Open(),
        Hide("find a hotel"),
        Close("find a hotel"),
        EndTurn(),
        Show("Hi"),
    ]


@pytest.mark.parametrize("ending", ["", "</delegat", "<|turn_eo"])
def test_the_end_of_the_stream_throws_a_span_away(ending: str) -> None:
    actions = parse("<delegate>buy it" + ending)
    assert actions[-1] == Reject(Reason.UNFINISHED)
    assert not any(isinstance(a, Close) for a in actions)


def test_a_reset_throws_a_span_away_and_forgets_a_partial_tag() -> None:
    gate = TextGate()
    gate.feed("<delegate>buy it</dele")
    assert gate.reset() == [Reject(Reason.UNFINISHED)]
    assert not gate.private
    assert gate.feed("gate>") == [Show("gate>")]


@pytest.mark.parametrize("body", ["", "  \n", "<|chunk_eos|></unit><unit>"])
@pytest.mark.parametrize("end", ["</delegate>", "<|turn_eos|>"])
def test_an_empty_request_is_rejected(body: str, end: str) -> None:
    assert Reject(Reason.EMPTY) in parse(f"<delegate>{body}{end}")


def test_spans_never_nest() -> None:
    actions = parse("<delegate>outer <delegate>inner</delegate> rest</delegate> tail<|turn_eos|>next")
    assert [a for a in actions if isinstance(a, Open | Close | Reject)] == [Open(), Reject(Reason.NESTED)]
    assert visible(actions) == "next"


@pytest.mark.parametrize("token", ["<|listen|>", "<image>", "</image>", "<backend>", "</backend>"])
def test_tokens_that_break_a_span(token: str) -> None:
    actions = parse(f"<delegate>pay {token} the bill</delegate>shown?<|turn_eos|>")
    assert Reject(Reason.ILLEGAL_TOKEN) in actions
    assert not any(isinstance(a, Close) for a in actions)
    assert visible(actions) == ""


def test_a_second_request_in_a_turn_is_rejected_unless_allowed() -> None:
    text = "<delegate>a</delegate><delegate>b</delegate>c<|turn_eos|><delegate>d</delegate>"
    actions = parse(text)
    assert [a for a in actions if isinstance(a, Close | Reject)] == [Close("a"), Reject(Reason.TOO_MANY), Close("d")]
    assert visible(actions) == ""
    allowed = parse(text, limits=GateLimits(per_turn=2))
    assert [a.query for a in allowed if isinstance(a, Close)] == ["a", "b", "d"]


def test_a_span_of_exactly_the_limit_is_accepted() -> None:
    assert Close("x" * QUERY_CHARS) in parse("<delegate>" + "x" * QUERY_CHARS + "</delegate>")


def test_the_limit_is_checked_while_streaming() -> None:
    gate = TextGate()
    gate.feed("<delegate>")
    assert not any(isinstance(a, Reject) for a in gate.feed("x" * QUERY_CHARS + "</dele"))
    assert gate.feed("x")[-1] == Reject(Reason.TOO_LONG)
    assert gate.feed("yyy</delegate>secret") == []
    assert gate.private
    assert gate.feed("<|turn_eos|>") == [EndTurn()]
    assert not gate.private


def test_backend_spans_are_swallowed_with_all_that_is_in_them() -> None:
    actions = parse("a<backend>secret <delegate>pay</delegate><|listen|></unit></backend>b")
    assert actions == [Show("a"), EndUnit(), Show("b")]


def test_stray_and_structural_tokens_are_never_text() -> None:
    assert parse("a</delegate>b</backend><image></image><unit><|chunk_eos|>c") == [Show("abc")]


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_look_alikes_come_out_as_text(text: str) -> None:
    assert parse(text) == [Show(text)]
    assert parse(*text) == [Show(text)]
    assert parse(text, "<|speak|>") == [Show(text), Decide(Decision.SPEAK)]


def test_a_partial_tag_is_held_back_and_text_is_not() -> None:
    gate = TextGate()
    assert gate.feed("Hello <dele") == [Show("Hello ")]
    assert gate.feed("gat") == []
    assert gate.feed("e>x") == [Open(), Hide("x")]


def test_token_level_tags_spelled_as_text_are_text() -> None:
    gate = Gate()
    assert gate.text("<delegate>") == [Show("<delegate>")]
    assert gate.control(Control.DELEGATE) == [Open()]
    assert gate.text("</delegate>") == [Hide("</delegate>")]
    assert gate.control(Control.DELEGATE_END) == [Close("</delegate>")]


@given(stream, st.lists(st.integers(0, 400), max_size=12))
def test_splits_do_not_matter(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    whole = parse(text)
    assert parse(*pieces) == whole
    assert parse(*text) == whole


@given(stream, st.lists(st.integers(0, 400), max_size=6), st.integers(1, 12))
def test_splits_do_not_matter_at_the_limit(text: str, cuts: list[int], limit: int) -> None:
    limits = GateLimits(query_chars=limit)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*pieces, limits=limits) == parse(text, limits=limits)


@given(tokens)
def test_text_level_agrees_with_token_level(items: list[Control | str]) -> None:
    gate = Gate()
    actions: list[Action] = []
    for item in items:
        if isinstance(item, Control):
            actions += gate.control(item)
        else:
            actions += gate.text(item)
    if any("<" in item for item in items if not isinstance(item, Control)):
        return
    assert parse("".join(items)) == merged(actions + gate.reset())


@given(stream)
def test_every_opened_request_ends_once(text: str) -> None:
    open_now = False
    for action in parse(text):
        if isinstance(action, Open):
            assert not open_now
            open_now = True
        elif isinstance(action, Close | Reject):
            assert open_now
            open_now = False
        elif isinstance(action, Hide):
            assert open_now
        elif isinstance(action, Show | EndTurn):
            assert not open_now
    assert not open_now


@given(stream, st.text(alphabet="abc ", min_size=1, max_size=20), stream)
def test_private_text_is_never_visible(before: str, secret: str, after: str) -> None:
    marked = "".join(f"§{c}" for c in secret)
    for opening, closing in (("<delegate>", "</delegate>"), ("<backend>", "</backend>")):
        actions = parse(before.replace("§", ""), opening, marked, closing, after.replace("§", ""))
        assert "§" not in visible(actions)


# -- escape ---------------------------------------------------------------------------------------------------------

hostile = st.lists(
    st.one_of(
        st.sampled_from(TAGS),
        st.sampled_from(TAGS).map(str.upper),
        st.sampled_from(TAGS).map(lambda t: t.replace("<", "＜").replace(">", "＞")),
        st.sampled_from(TAGS).map(lambda t: "﹤" + t[1:]),
        st.sampled_from(TAGS).map(lambda t: t[0] + "\u200b" + t[1:]),
        st.sampled_from(TAGS).map(lambda t: "".join(chr(ord(c) + 0xFEE0) for c in t)),
        st.sampled_from(["<", "</", "<|", "＜", "‹", "<\u200b", "<|im_start|>", "<|im_end|>", "a < b"]),
        st.text(max_size=4),
    ),
    max_size=8,
).map("".join)


def plain(text: str) -> str:
    """What an over-eager reader might make of the text."""
    shown = "".join(c for c in text if unicodedata.category(c) not in {"Cf", "Mn"})
    return unicodedata.normalize("NFKC", shown).casefold()


@given(st.lists(hostile, max_size=4), st.integers(0, 40))
def test_no_control_token_survives_escaping(texts: list[str], cut: int) -> None:
    joined = "".join(escape(text) for text in texts)
    halves = escape("".join(texts)[:cut]) + escape("".join(texts)[cut:])
    for text in (joined, halves):
        for token in [*TAGS, "<|im_start|>", "<|im_end|>"]:
            assert token not in plain(text)
            assert token not in text


@given(hostile, st.sampled_from(TAGS), st.integers(1, 12))
def test_escaped_text_never_completes_a_tag_of_its_neighbour(text: str, tag: str, cut: int) -> None:
    assert tag not in escape(text + tag[:cut]) + tag[cut:]


@given(hostile)
def test_escaping_twice_changes_nothing(text: str) -> None:
    assert escape(escape(text)) == escape(text)


@given(st.text())
def test_text_without_brackets_is_untouched(text: str) -> None:
    clean = text.replace("<", "").replace("＜", "").replace("﹤", "")
    assert escape(clean) == clean


def test_escaped_text_stays_readable() -> None:
    assert escape("if a < b and c <= 3, I <3 you") == "if a < b and c <= 3, I <3 you"
    assert escape("say <delegate>pay</delegate> now") == "say ‹delegate>pay‹/delegate> now"


@given(stream)
def test_escaped_text_passes_the_gate_as_text(text: str) -> None:
    shown = escape(text)
    assert parse(shown) == ([Show(shown)] if shown else [])
