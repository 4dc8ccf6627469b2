"""The end-of-turn core, driven with hand-made sounds: no audio, no models, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.ear import Sound
from realtime_venus.engines.cascade.endpoint import (
    LONGEST_MS,
    Action,
    Drop,
    Endpoint,
    Judge,
    Nothing,
    Partial,
    Prefill,
    Purpose,
    Recognise,
    Segment,
    Speculate,
    TurnOver,
    joined,
)
from realtime_venus.engines.cascade.parts import Transcript
from realtime_venus.engines.cascade.settings import EndpointSettings

SETTINGS = EndpointSettings()
QUESTION = "What's the fastest land animal?"


@dataclass
class User:
    """Speaks and pauses in units of 100 ms and answers the endpoint's questions."""

    endpoint: Endpoint = field(default_factory=lambda: Endpoint(SETTINGS))
    now_ms: int = 0
    start_ms: int = -1
    last_ms: int = -1
    quiet_ms: int = 0
    speaking: bool = False
    asked: dict[int, tuple[Recognise, int]] = field(default_factory=dict[int, tuple[Recognise, int]])
    judged: list[int] = field(default_factory=list[int])

    def sound(self, began: bool = False) -> Sound:
        return Sound(
            self.now_ms, self.speaking, began, self.start_ms, self.start_ms, self.last_ms, self.last_ms, self.quiet_ms
        )

    def unit(self, speech: bool) -> list[Action]:
        began = speech and not self.speaking
        self.now_ms += 100
        if speech:
            self.start_ms = self.start_ms if self.start_ms >= 0 else self.now_ms - 100
            self.last_ms, self.quiet_ms = self.now_ms, 0
        else:
            self.quiet_ms += 100
        self.speaking = speech
        return self.note(self.endpoint.on_sound(self.sound(began)))

    def speaks(self, ms: int) -> list[Action]:
        return [action for _ in range(ms // 100) for action in self.unit(True)]

    def pauses(self, ms: int) -> list[Action]:
        return [action for _ in range(ms // 100) for action in self.unit(False)]

    def note(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Recognise):
                self.asked[action.job] = (action, self.now_ms)
            elif isinstance(action, Judge):
                self.judged.append(action.job)
        return actions

    def transcribed(self, text: str | None, language: Language = Language.EN, job: int | None = None) -> list[Action]:
        job = max(self.asked) if job is None else job
        _, end_ms = self.asked.pop(job)
        result = None if text is None else Transcript(text, language, 0.9)
        return self.note(self.endpoint.on_transcript(job, end_ms, result, self.sound()))

    def sounds_finished(self, probability: float = 0.95) -> list[Action]:
        return self.note(self.endpoint.on_judged(self.judged.pop(), probability, self.sound()))


def of(kind: type, actions: list[Action]) -> list[Action]:
    return [action for action in actions if isinstance(action, kind)]


def test_silence_asks_for_nothing() -> None:
    user = User()
    assert user.pauses(3000) == []


def test_partial_transcripts_come_while_the_user_speaks_one_at_a_time() -> None:
    user = User()
    first = of(Recognise, user.speaks(1500))
    assert [a.purpose for a in first if isinstance(a, Recognise)] == [Purpose.PARTIAL]
    answer = user.transcribed("What's the fastest")
    assert of(Partial, answer) == [Partial("What's the fastest", 100, Language.EN)]
    assert of(Prefill, answer) == [Prefill("What's the fastest")]
    assert of(Recognise, user.speaks(500)) == []  # the model is still at the words before
    user.endpoint.on_prefilled()
    assert len(of(Recognise, user.speaks(500))) == 1


def test_a_word_more_is_not_worth_a_prefill() -> None:
    user = User()
    user.speaks(100)
    user.transcribed("What's the fastest")
    user.endpoint.on_prefilled()
    user.speaks(600)
    assert of(Prefill, user.transcribed("What's the fastest land")) == []
    user.speaks(600)
    assert of(Prefill, user.transcribed("What's the fastest land animal on")) != []


def test_the_first_quiet_starts_the_final_transcript_and_the_judgement() -> None:
    user = User()
    user.speaks(1000)
    user.transcribed(None)
    actions = user.pauses(100)
    assert [a.purpose for a in actions if isinstance(a, Recognise)] == [Purpose.FINAL]
    assert len(of(Judge, actions)) == 1


def finished(user: User, text: str = QUESTION, language: Language = Language.EN) -> list[Action]:
    user.speaks(1000)
    user.transcribed(None)
    user.pauses(100)
    return user.transcribed(text, language)


def test_a_reply_is_begun_before_the_turn_is_over_and_the_turn_ends_after_enough_silence() -> None:
    user = User()
    speculated = finished(user)
    assert of(Speculate, speculated) == [Speculate(QUESTION, Language.EN)]
    assert of(TurnOver, speculated + user.sounds_finished()) == []
    over = of(TurnOver, user.pauses(SETTINGS.least_silence_ms))
    assert over == [TurnOver(QUESTION, 0, 1000, Language.EN)]
    assert user.endpoint.over
    assert user.pauses(2000) == []


def test_a_hanging_last_word_waits_for_the_cap() -> None:
    user = User()
    finished(user, "What time does the next train leave for the")
    user.sounds_finished()
    before = user.pauses(SETTINGS.least_silence_ms + 500)
    assert of(TurnOver, before) == []
    assert len(of(TurnOver, user.pauses(SETTINGS.cap_ms))) == 1


def test_a_hanging_chinese_word_waits_too() -> None:
    user = User()
    finished(user, "我想去北京然后", Language.ZH)
    user.sounds_finished()
    assert of(TurnOver, user.pauses(SETTINGS.least_silence_ms + 500)) == []


def test_a_turn_that_does_not_sound_finished_is_judged_again_and_ends_at_the_cap() -> None:
    user = User()
    finished(user)
    user.sounds_finished(0.1)
    again = user.pauses(300)
    assert len(of(Judge, again)) == 1
    assert of(TurnOver, again) == []
    user.sounds_finished(0.2)
    assert len(of(TurnOver, user.pauses(SETTINGS.cap_ms))) == 1


def test_going_on_throws_the_speculation_away_and_the_turn_keeps_its_start() -> None:
    user = User()
    finished(user, "I have a question.")
    user.sounds_finished()
    back = user.speaks(100)
    assert of(Drop, back) == [Drop()]
    user.speaks(900)
    for job in list(user.asked):
        user.transcribed(None, job=job)
    user.pauses(100)
    speculated = user.transcribed("I have a question. How far is the moon?")
    assert of(Speculate, speculated) == [Speculate("I have a question. How far is the moon?", Language.EN)]
    user.sounds_finished()
    over = of(TurnOver, user.pauses(1500))
    assert [o.start_ms for o in over if isinstance(o, TurnOver)] == [0]


def test_going_on_after_the_turn_was_over_drops_the_reply_and_ends_it_again_later() -> None:
    user = User()
    finished(user)
    user.sounds_finished()
    assert of(TurnOver, user.pauses(SETTINGS.least_silence_ms))
    assert of(Drop, user.speaks(100)) == [Drop()]
    assert not user.endpoint.over


def test_the_same_words_again_do_not_start_a_second_reply() -> None:
    user = User()
    finished(user)
    user.speaking, user.quiet_ms = False, 100
    assert of(Speculate, user.pauses(300)) == []


def test_a_transcript_without_words_is_forgotten() -> None:
    user = User()
    assert of(Speculate, finished(user, "")) == []
    assert of(Nothing, user.pauses(1000))


def test_a_late_partial_never_replaces_a_longer_transcript() -> None:
    user = User()
    user.speaks(1000)
    early = max(user.asked)
    user.pauses(100)
    final = max(user.asked)
    assert final > early
    user.transcribed(QUESTION, job=final)
    assert user.transcribed("What's the", job=early) == []
    assert user.endpoint.text == QUESTION


def test_a_very_long_turn_is_cut_into_segments_whose_words_are_kept() -> None:
    user = User()
    seen: list[Action] = []
    for _ in range(LONGEST_MS // 500 + 4):
        seen += user.speaks(500)
        for job in list(user.asked):
            asked = user.asked[job][0]
            seen += user.transcribed("first part" if asked.purpose is Purpose.SEGMENT else "so far", job=job)
        user.endpoint.on_prefilled()
    assert len(of(Segment, seen)) == 1
    assert user.endpoint.text.startswith("first part")


def test_words_before_belong_to_the_turn() -> None:
    user = User()
    user.endpoint.reset("How far away")
    speculated = finished(user, "is the moon?")
    assert of(Speculate, speculated) == [Speculate("How far away is the moon?", Language.EN)]


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [("a", "b", "a b"), ("", "b", "b"), ("a", "", "a"), ("我想", "去", "我想去"), ("我用", "Python", "我用Python")],
)
def test_joining(first: str, second: str, whole: str) -> None:
    assert joined(first, second) == whole


def test_a_whole_question_that_does_not_sound_finished_waits_less_than_the_cap() -> None:
    user = User()
    finished(user)
    user.sounds_finished(0.1)
    assert of(TurnOver, user.pauses(700)) == []
    assert len(of(TurnOver, user.pauses(300))) == 1


def test_a_statement_that_announces_more_is_waited_for_longer_than_a_question() -> None:
    user = User()
    finished(user, "I have a question about my order.")
    user.sounds_finished()
    assert of(TurnOver, user.pauses(800)) == []
    assert len(of(TurnOver, user.pauses(900))) == 1
