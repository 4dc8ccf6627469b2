from __future__ import annotations

import dataclasses
from typing import Any

from realtime_venus.plugin.rooms.livekit.captions import Caption, Captions
from realtime_venus.plugin.timeline import Entry, to_json
from realtime_venus.plugin.timeline import events as ev


def shown(*events: ev.TimelineEvent) -> list[Caption]:
    captions = Captions("s")
    found = (captions.event(to_json(Entry(seq, event))) for seq, event in enumerate(events))
    return [caption for caption in found if caption is not None]


def user(text: str, *, final: bool, start_ms: int = 100, **more: Any) -> ev.UserText:
    return ev.UserText(
        at_ms=0, text=text, start_ms=start_ms, end_ms=900, final=final, language="en", speaker="alice", **more
    )


def said(text: str, first: int, end: int) -> ev.AgentText:
    return ev.AgentText(at_ms=0, utterance_id="u1", text=text, first_sample=first, end_sample=end)


def sent(first: int, end: int, state: str = "sent") -> ev.Playout:
    return ev.Playout(at_ms=0, utterance_id="u1", state=state, first_sample=first, end_sample=end)


def ended(heard: str) -> ev.UtteranceEnded:
    return ev.UtteranceEnded(
        at_ms=0, utterance_id="u1", heard_text=heard, heard_samples=0, total_samples=0, interrupted=True
    )


def test_words_of_the_user_replace_each_other() -> None:
    assert shown(
        user("what is", final=False), user("What is it?", final=True), user("And?", final=False, start_ms=2000)
    ) == [
        Caption("s-user-100", "what is", final=False, speaker="alice"),
        Caption("s-user-100", "What is it?", final=True, speaker="alice"),
        Caption("s-user-2000", "And?", final=False, speaker="alice"),
    ]


def test_a_turn_is_one_segment_whoever_it_is_found_to_be() -> None:
    first, second = shown(
        user("what is", final=False), dataclasses.replace(user("What is it?", final=True), speaker="bob")
    )
    assert first.segment == second.segment
    assert (first.speaker, second.speaker) == ("alice", "bob")


def test_typed_words_are_shown_by_the_chat_itself() -> None:
    assert shown(user("hello", final=True, typed=True)) == []


def test_words_of_the_agent_appear_when_they_are_sent() -> None:
    assert shown(said("It is", 0, 480), said("noon.", 480, 960)) == []
    assert [
        caption.text for caption in shown(said("It is", 0, 480), said("noon.", 480, 960), sent(0, 100), sent(100, 481))
    ] == [
        "It is",
        "It is noon.",
    ]


def test_words_that_come_after_their_sound_appear_at_once() -> None:
    assert [caption.text for caption in shown(sent(0, 480), said("Well,", 0, 480))] == ["Well,"]


def test_nothing_is_repeated() -> None:
    assert len(shown(said("It is", 0, 9600), *(sent(n, n + 480) for n in range(0, 9600, 480)))) == 1


def test_the_last_version_is_what_was_heard() -> None:
    captions = shown(
        said("It is", 0, 480), said("noon.", 480, 960), sent(0, 960), sent(480, 960, "discarded"), ended("It")
    )
    assert captions[-1] == Caption("s-u1", "It", final=True)


def test_an_utterance_of_which_nothing_was_shown_leaves_no_trace() -> None:
    assert shown(said("It is", 0, 480), ended("")) == []


def test_forgotten_utterances_do_not_grow() -> None:
    captions = Captions("s")
    for number in range(100):
        event = ev.AgentText(at_ms=0, utterance_id=f"u{number}", text="x", first_sample=0, end_sample=1)
        captions.event(to_json(Entry(0, event)))
    late = ev.Playout(at_ms=0, utterance_id="u0", state="sent", first_sample=0, end_sample=1)
    assert captions.event(to_json(Entry(0, late))) is None
