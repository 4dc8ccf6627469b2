from __future__ import annotations

from typing import Any

import numpy as np
from realtime_venus.plugin.livekit.speech import Cut, Out, Sound, SpeechLine, Words
from realtime_venus.plugin.rooms.base import PLAYOUT_SAMPLES, PlayoutFrame


def speech(utterance_id: str) -> dict[str, Any]:
    return {"type": "agent.speech", "utterance_id": utterance_id, "first_sample": 0, "samples": 4800}


def text(utterance_id: str, words: str, first_ms: int, end_ms: int) -> dict[str, Any]:
    return {
        "type": "agent.text",
        "utterance_id": utterance_id,
        "text": words,
        "first_sample": first_ms * 24,
        "end_sample": end_ms * 24,
    }


def begun(utterance_id: str) -> dict[str, Any]:
    return {"type": "playout", "state": "sent", "utterance_id": utterance_id, "first_sample": 0, "end_sample": 480}


def ended(utterance_id: str, *, interrupted: bool = False) -> dict[str, Any]:
    return {"type": "agent.utterance_ended", "utterance_id": utterance_id, "interrupted": interrupted}


class Line:
    """A line with a counter of frames."""

    def __init__(self) -> None:
        self.line = SpeechLine()
        self.number = 0
        self.out: list[Out] = []

    def event(self, *events: dict[str, Any]) -> list[Out]:
        new = [item for event in events for item in self.line.event(event)]
        self.out += new
        return new

    def pull(self, *, silent: bool = False, times: int = 1) -> list[Out]:
        new: list[Out] = []
        for _ in range(times):
            pcm = np.full(PLAYOUT_SAMPLES, 0 if silent else 1000, np.int16)
            new += self.line.frame(PlayoutFrame(self.number, pcm, silent))
            self.number += 1
        self.out += new
        return new


def sounds(out: list[Out]) -> list[tuple[str, int, bool]]:
    return [(one.utterance_id, one.start_ms, one.speaking) for one in out if isinstance(one, Sound)]


def words(out: list[Out]) -> list[tuple[str, int, int]]:
    return [(one.text, one.start_ms, one.end_ms) for one in out if isinstance(one, Words)]


def test_nothing_goes_out_while_nothing_is_said() -> None:
    line = Line()
    assert line.pull(silent=True, times=50) == []
    assert line.pull() == [], "a sound that belongs to no utterance is one dying away"


def test_an_utterance_is_one_stretch_with_its_pauses_and_one_frame_that_ends_it() -> None:
    line = Line()
    line.event(speech("u1"))
    line.pull()
    line.pull(silent=True, times=100)
    line.pull()
    line.event(ended("u1"))
    assert {(name, speaking) for name, _, speaking in sounds(line.out)[:-1]} == {("u1", True)}
    assert sounds(line.out)[-1] == ("u1", 102 * 20, False)
    assert [start for _, start, _ in sounds(line.out)] == list(range(0, 103 * 20, 20))
    assert line.pull(silent=True) == []


def test_words_come_with_the_frame_in_which_they_begin_and_on_the_streams_clock() -> None:
    line = Line()
    line.event(speech("u1"), text("u1", "one", 0, 100))
    line.pull(times=5)
    line.event(ended("u1"))
    line.event(speech("u2"), text("u2", "two", 0, 30), text("u2", "three", 30, 60))
    first, second, third = line.pull(), line.pull(), line.pull()
    assert words(first) == [("two", 120, 150)]
    assert isinstance(first[0], Words), "the words come before their sound"
    assert words(second) == []
    assert words(third) == [("three", 150, 180)]


def test_words_that_come_after_their_sound_are_told_with_the_next_frame() -> None:
    line = Line()
    line.event(speech("u1"))
    line.pull(times=10)
    line.event(text("u1", "one", 0, 100))
    assert words(line.pull()) == [("one", 0, 100)]


def test_words_left_over_are_told_at_the_end() -> None:
    line = Line()
    line.event(speech("u1"), text("u1", "late", 500, 900))
    line.pull(times=5)
    out = line.event(ended("u1"))
    assert words(out) == [("late", 100, 900)]
    assert sounds(out) == [("u1", 100, False)]


def test_a_yield_cuts_the_utterance_and_its_unheard_words_are_never_told() -> None:
    line = Line()
    line.event(speech("u1"), text("u1", "one", 0, 100), text("u1", "two", 500, 900))
    line.pull(times=5)
    out = line.event(ended("u1", interrupted=True))
    assert out[0] == Cut("u1")
    assert sounds(out) == [("u1", 100, False)]
    line.pull(times=100)
    assert [text for text, _, _ in words(line.out)] == ["one"]


def test_an_utterance_that_never_sounded_leaves_nothing() -> None:
    line = Line()
    line.event(text("u1", "one", 0, 100), speech("u1"))
    assert line.event(ended("u1", interrupted=True)) == []
    line.event(text("u2", "two", 0, 100), speech("u2"))
    assert words(line.pull()) == [("two", 0, 100)]


def test_an_utterance_behind_another_without_a_pause_is_a_stretch_of_its_own() -> None:
    line = Line()
    line.event(speech("u1"), speech("u2"), text("u2", "two", 0, 100))
    line.pull(times=5)
    line.event(begun("u1"))
    assert sounds(line.event(begun("u2"))) == [("u1", 100, False)]
    assert words(line.pull()) == [("two", 120, 220)]
    assert sounds(line.event(ended("u1"))) == []
    assert sounds(line.event(ended("u2"))) == [("u2", 140, False)]


def test_the_end_of_the_session_ends_what_is_open() -> None:
    line = Line()
    line.event(speech("u1"))
    line.pull()
    assert sounds(line.event({"type": "session.ended", "reason": "left"})) == [("u1", 20, False)]
    assert line.event({"type": "session.ended", "reason": "left"}) == []


def test_utterances_that_never_end_are_forgotten_in_the_end() -> None:
    line = Line()
    for number in range(200):
        line.event(text(f"u{number}", "never spoken", 0, 100))
    line.event(speech("u199"))
    line.pull()
    assert line.line.open == "u199"
