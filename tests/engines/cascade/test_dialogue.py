"""What a session says and remembers, at its surface: scripts, prompts, changes, snapshots."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from realtime_venus.engines.base import Changes, Language, SessionOptions
from realtime_venus.engines.cascade.dialogue import Dialogue
from realtime_venus.engines.cascade.honest import all_lines
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.cascade.tts.voices import VoiceBook, VoiceEntry
from realtime_venus.engines.cascade.utterance import Utterance

from ...kit.cascade import KnowsAll, Tone

NOW = datetime(2026, 11, 30, 15, 41, tzinfo=UTC)
PRICE = "What is the price of gold?"
QUESTION = "What's the fastest land animal?"
VOICES = VoiceBook(
    [
        VoiceEntry(Language.EN, "anna", Tone()),
        VoiceEntry(Language.EN, "ben", Tone()),
        VoiceEntry(Language.ZH, "xiao", Tone()),
    ]
)


class Told:
    """A dialogue under test at a fixed time, and its router."""

    def __init__(self, options: SessionOptions | None = None, settings: CascadeSettings | None = None) -> None:
        self.router = KnowsAll()
        self.dialogue = Dialogue(
            options or SessionOptions(), settings or CascadeSettings(), VOICES, self.router, lambda: NOW
        )
        self.count = 0

    def exchange(
        self, asked: str, said: str, language: Language = Language.EN, heard_ms: int | None = None
    ) -> Utterance:
        """One question and its answer of ten seconds, all or ``heard_ms`` of it heard."""
        self.count += 1
        utterance = Utterance(f"u{self.count}", language)
        self.dialogue.began(utterance, asked)
        utterance.add(240_000, said, last=True)
        utterance.complete, utterance.written = True, said
        self.dialogue.wrote(utterance)
        self.dialogue.heard(utterance.id, 240_000 if heard_ms is None else heard_ms * 24)
        utterance.yielded = heard_ms is not None
        self.dialogue.ended(utterance)
        return utterance

    def prompt(self, text: str = "And then?", language: Language = Language.EN) -> list[Message]:
        return list(self.dialogue.script(text, language).messages)

    def honest(self, text: str, language: Language = Language.EN) -> str:
        """What is said instead of the model's answer, if anything."""
        instead = self.dialogue.script(text, language).instead
        assert instead is not None
        return instead()

    def conversation(self) -> list[tuple[str, str]]:
        """The prompt without the system message, the two example turns and the last question."""
        return [(message.role, message.content) for message in self.prompt()[5:-1]]


@pytest.mark.parametrize(
    ("asked", "language", "answer"),
    [
        ("What time is it?", Language.EN, "It is 3:41 PM."),
        ("What day is it today?", Language.EN, "Today is Monday, 30 November 2026."),
        ("现在几点了？", Language.ZH, "现在是下午3点41分。"),
    ],
)
def test_the_clock_answers_by_itself(asked: str, language: Language, answer: str) -> None:
    script = Told().dialogue.script(asked, language)
    assert (script.text, script.language) == (answer, language)
    assert not script.messages


@pytest.mark.parametrize(("asked", "language"), [(PRICE, Language.EN), ("黄金的价格是多少？", Language.ZH)])
def test_what_needs_the_world_gets_an_honest_line_that_is_not_always_the_same(asked: str, language: Language) -> None:
    told = Told()
    lines: list[str] = []
    for _ in range(len(all_lines(language))):
        line = told.honest(asked, language)
        assert line == told.honest(asked, language)
        told.exchange(asked, line, language)
        lines.append(line)
    assert sorted(lines) == sorted(all_lines(language))


def test_the_threshold_of_the_world_is_a_setting() -> None:
    exact = Told(settings=CascadeSettings(world_threshold=1.0))
    assert exact.honest(PRICE) in all_lines(Language.EN)
    assert exact.honest(QUESTION) == ""


def test_other_questions_become_a_prompt_with_rules_facts_and_the_words() -> None:
    told = Told(
        SessionOptions(persona="You like boats.", system_prompt="Never swear.", facts=("The bar is open.",)),
        CascadeSettings(facts=("Breakfast is at eight.",)),
    )
    script = told.dialogue.script(QUESTION, Language.EN)
    system, *_, last = script.messages
    assert not script.text
    assert system.role == "system"
    for part in ("You like boats.", "Never swear.", "Breakfast is at eight.", "The bar is open.", "30 November 2026"):
        assert part in system.content
    assert last == Message("user", QUESTION)
    assert told.router.facts == ("Breakfast is at eight.", "The bar is open.")


def test_the_settings_give_the_persona_unless_the_session_does() -> None:
    settings = CascadeSettings(persona="You like boats.")
    assert "boats" in Told(settings=settings).prompt()[0].content
    content = Told(SessionOptions(persona="You like trains."), settings).prompt()[0].content
    assert "trains" in content
    assert "boats" not in content


def test_an_open_prompt_is_a_beginning_of_the_final_one() -> None:
    told = Told()
    told.exchange("Hello", "Hi!")
    *before, last = told.dialogue.open_prompt("What's the fastest", Language.EN)
    *final_before, final = told.prompt(QUESTION)
    assert before == final_before
    assert final.content.startswith(last.content)


def test_the_rules_stand_before_every_conversation() -> None:
    told = Told()
    rules = list(told.dialogue.rules(Language.ZH))
    assert rules == told.prompt("你好", Language.ZH)[: len(rules)]
    assert rules != told.dialogue.rules(Language.EN)


def test_what_was_asked_and_heard_is_remembered() -> None:
    told = Told()
    told.exchange(QUESTION, "The cheetah.")
    told.exchange("And the slowest?", "The sloth.")
    assert told.conversation() == [
        ("user", QUESTION),
        ("assistant", "The cheetah."),
        ("user", "And the slowest?"),
        ("assistant", "The sloth."),
    ]


def test_of_an_answer_that_was_cut_only_what_was_heard_is_remembered() -> None:
    told = Told()
    told.exchange(QUESTION, "The cheetah is the fastest of them all.", heard_ms=5000)
    (_, user), (role, heard) = told.conversation()[:2]
    assert user == QUESTION
    assert role == "assistant"
    assert heard
    assert "The cheetah is the fastest of them all.".startswith(heard)
    assert "all" not in heard


def test_a_late_report_of_playback_corrects_what_was_heard() -> None:
    told = Told()
    utterance = told.exchange(QUESTION, "The cheetah is the fastest of them all.", heard_ms=0)
    assert "cheetah" not in str(told.conversation())
    told.dialogue.heard(utterance.id, 7000 * 24)
    assert "cheetah" in str(told.conversation())


def test_reports_about_an_older_utterance_change_nothing() -> None:
    told = Told()
    old = told.exchange(QUESTION, "The cheetah is the fastest of them all.", heard_ms=5000)
    told.exchange("Hello", "Hi!")
    before = told.conversation()
    told.dialogue.heard(old.id, 240_000)
    told.dialogue.ended(old)
    told.dialogue.wrote(old)
    told.dialogue.take_back(old.id)
    assert told.conversation() == before


def test_a_turn_that_had_not_ended_is_taken_back_once() -> None:
    told = Told()
    told.exchange("Hello", "Hi!")
    utterance = told.exchange("I was thinking", "Go on.", heard_ms=100)
    told.dialogue.take_back(utterance.id)
    told.dialogue.take_back(utterance.id)
    assert told.conversation() == [("user", "Hello"), ("assistant", "Hi!")]


def test_a_long_conversation_is_summed_up() -> None:
    told = Told()
    for index in range(40):
        told.exchange(f"Question {index}", f"Answer {index}.")
    assert ("user", "Question 39") in told.conversation()
    assert ("user", "Question 0") not in told.conversation()
    assert "Earlier in this call" in told.prompt()[0].content


def test_it_speaks_the_language_last_spoken_unless_one_is_set() -> None:
    told = Told()
    assert (told.dialogue.language, told.dialogue.latest_language) == (None, Language.EN)
    told.exchange("你好", "你好！", Language.ZH)
    assert (told.dialogue.language, told.dialogue.latest_language) == (None, Language.ZH)
    told.dialogue.configure(Changes(language=Language.EN))
    assert (told.dialogue.language, told.dialogue.latest_language) == (Language.EN, Language.EN)
    told.dialogue.configure(Changes(language="auto"))
    assert told.dialogue.language is None


def test_the_voice_chosen_is_used_for_its_language() -> None:
    told = Told(SessionOptions(voice="ben"))
    assert told.dialogue.voice(Language.EN) == "ben"
    assert told.dialogue.voice(Language.ZH) is None
    told.dialogue.configure(Changes(voice="xiao"))
    assert told.dialogue.voice(Language.EN) is None
    assert told.dialogue.voice(Language.ZH) == "xiao"
    told.dialogue.configure(Changes(persona="You like boats."))
    assert told.dialogue.voice(Language.ZH) == "xiao"


def test_changes_apply_from_the_next_answer_on_and_leave_the_rest() -> None:
    told = Told(SessionOptions(persona="You like boats.", facts=("The bar is open.",)))
    told.dialogue.configure(Changes(facts=("The pool is closed.",)))
    content = told.prompt()[0].content
    assert "The pool is closed." in content
    assert "The bar is open." not in content
    assert "boats" in content
    assert told.router.facts == ("The pool is closed.",)
    told.dialogue.configure(Changes(persona="You like trains."))
    content = told.prompt()[0].content
    assert "trains" in content
    assert "The pool is closed." in content


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (Changes(voice="nobody"), "unknown voice 'nobody': known are anna, ben, xiao"),
        (Changes(facts=("x" * 401,)), "at most 400 characters"),
        (Changes(facts=tuple(str(number) for number in range(41))), "at most 40 facts"),
        (Changes(persona="x" * 2001), "persona has 2001 characters"),
    ],
)
def test_changes_that_cannot_be_are_refused(changes: Changes, why: str) -> None:
    told = Told()
    with pytest.raises(ValueError, match=why):
        told.dialogue.check(changes)
    told.dialogue.check(Changes())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (SessionOptions(voice="nobody"), "unknown voice"),
        (SessionOptions(facts=("x" * 401,)), "at most 400 characters"),
        (SessionOptions(persona="x" * 2001), "persona has"),
        (SessionOptions(system_prompt="x" * 2001), "system_prompt has"),
    ],
)
def test_options_that_cannot_be_are_refused(options: SessionOptions, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Told(options)


def test_a_snapshot_carries_the_conversation_and_its_language() -> None:
    told = Told()
    told.exchange("Hello", "Hi!")
    told.exchange("你好", "你好，有什么事？", Language.ZH, heard_ms=3000)
    other = Told()
    other.dialogue.restore(told.dialogue.snapshot())
    assert other.conversation() == told.conversation()
    assert other.dialogue.latest_language is Language.ZH


@pytest.mark.parametrize("snapshot", [b"", b"\xff\xfe", b"{}", b"[]", b'{"format": 2}', b"not a snapshot"])
def test_what_is_no_snapshot_is_refused_and_nothing_is_lost(snapshot: bytes) -> None:
    told = Told()
    told.exchange("Hello", "Hi!")
    with pytest.raises(ValueError, match=r"histor|snapshot"):
        told.dialogue.restore(snapshot)
    assert told.conversation() == [("user", "Hello"), ("assistant", "Hi!")]


@pytest.mark.parametrize(("language", "word"), [(Language.EN, "again"), (Language.ZH, "再说一遍")])
def test_there_is_something_to_say_without_an_answer(language: Language, word: str) -> None:
    assert word in Told().dialogue.say_again(language)
