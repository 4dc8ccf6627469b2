"""The conductor with hand-made workers: every message in a known order, no threads, no models, no clock."""

from __future__ import annotations

import numpy as np
import pytest
from realtime_venus.engines.base import (
    Changes,
    Decided,
    Decision,
    Heard,
    Language,
    MediaUnit,
    Overlap,
    SessionOptions,
    Speech,
    Text,
    Trouble,
    TurnEnded,
    UnitDone,
    Verdict,
)
from realtime_venus.engines.cascade.honest import all_lines
from realtime_venus.engines.cascade.inbox import HeardTold, Interrupted, Line, Typed
from realtime_venus.engines.cascade.parts import Message, Transcript
from realtime_venus.engines.cascade.workers import Aside, Broken, Prefilled, Recognised, Took

from ...kit.talk import QUESTION, Talk, kinds


def test_every_unit_is_taken_in_and_reported_in_order() -> None:
    talk = Talk()
    talk.silent(500)
    assert [done.index for done in talk.of(UnitDone)] == [0, 1, 2, 3, 4]
    assert kinds(talk.events) == []


def test_the_reply_is_made_while_silence_is_still_being_judged_and_is_heard_only_afterwards() -> None:
    talk = Talk()
    talk.asks()
    assert len(talk.desk.replies) == 1
    talk.voices("The cheetah.")
    assert talk.of(Speech) == []
    talk.silent(300)
    assert [speech.first_sample for speech in talk.of(Speech)] == [0]
    final = [heard for heard in talk.of(Heard) if heard.final]
    assert [(heard.text, heard.language) for heard in final] == [(QUESTION, Language.EN)]
    assert [decided.decision for decided in talk.of(Decided)] == [Decision.SPEAK]


def test_speech_text_and_the_end_carry_the_utterance_and_its_samples() -> None:
    talk = Talk()
    talk.asks()
    talk.silent(300)
    talk.voices("The cheetah, ", 500)
    talk.voices("of course.", 700)
    talk.written("The cheetah, of course.")
    assert [(s.utterance_id, s.first_sample, len(s.pcm)) for s in talk.of(Speech)] == [
        ("u1", 0, 12_000),
        ("u1", 12_000, 16_800),
    ]
    assert [(t.text, t.first_sample, t.end_sample) for t in talk.of(Text)] == [
        ("The cheetah, ", 0, 12_000),
        ("of course.", 12_000, 28_800),
    ]
    assert [(end.utterance_id, end.samples) for end in talk.of(TurnEnded)] == [("u1", 28_800)]


def test_going_on_after_a_pause_drops_the_reply_unheard_and_the_whole_turn_is_answered() -> None:
    talk = Talk()
    talk.asks("I have a question.")
    talk.voices("Sure.")
    talk.speaks(1000)
    assert talk.desk.replies[0][0].cancelled
    assert talk.of(Speech) == []
    talk.silent(100)
    talk.transcribed("I have a question. How far is the moon?")
    talk.sounds_finished()
    talk.silent(1500)
    talk.voices("Far.")
    assert [speech.utterance_id for speech in talk.of(Speech)] == ["u2"]
    assert [heard.text for heard in talk.of(Heard) if heard.final] == ["I have a question. How far is the moon?"]


def test_user_speech_of_half_a_second_takes_the_floor_and_shorter_speech_does_not() -> None:
    talk = Talk()
    talk.asks()
    talk.answers(ms=20_000)
    talk.speaks(300)
    talk.silent(500)
    assert [overlap.verdict for overlap in talk.of(Overlap)] == [Verdict.GO_ON]
    assert talk.desk.asides == 1
    talk.speaks(700)
    assert [overlap.verdict for overlap in talk.of(Overlap)] == [Verdict.GO_ON, Verdict.YIELD]
    assert talk.desk.replies[0][0].cancelled
    assert talk.of(Decided)[-1].decision is Decision.LISTEN


def test_after_an_interruption_the_new_words_are_answered_and_the_model_knows_what_was_heard() -> None:
    talk = Talk()
    talk.asks()
    talk.silent(300)
    talk.voices("The cheetah is the fastest land animal of all of them.", 6000)
    talk.tell(HeardTold("u1", 24 * 3000))
    talk.speaks(1000)
    talk.tell(HeardTold("u1", 24 * 3200))
    talk.silent(100)
    talk.transcribed("And the slowest?")
    talk.sounds_finished()
    talk.silent(1500)
    messages = talk.script().messages
    assert [message.role for message in messages[-4:]] == ["user", "assistant", "system", "user"]
    heard = messages[-3].content
    assert heard.startswith("The cheetah is the fastest")
    assert "of all of them" not in heard
    assert messages[-1].content == "And the slowest?"
    talk.voices("The sloth.")
    assert talk.of(Speech)[-1].utterance_id != "u1"


def test_an_answer_that_was_hardly_heard_leaves_the_turn_open() -> None:
    talk = Talk()
    talk.asks("I was thinking.")
    talk.silent(1500)
    talk.voices("Go on, please, I am listening to you.", 4000)
    talk.tell(HeardTold("u1", 24 * 300))
    talk.speaks(1000)
    talk.silent(100)
    talk.transcribed("About the moon?")
    messages = talk.script().messages
    assert messages[-1].content == "I was thinking About the moon?"
    assert not any("Go on" in message.content for message in messages)
    talk.sounds_finished()
    talk.silent(1500)
    first, whole = [heard for heard in talk.of(Heard) if heard.final]
    assert whole.text == "I was thinking. About the moon?"
    assert whole.start_ms == first.start_ms, "it is the same turn, and shown as one"
    assert {heard.start_ms for heard in talk.of(Heard)} == {first.start_ms}


def test_typed_words_that_were_answered_are_no_part_of_what_is_said_then() -> None:
    talk = Talk()
    talk.tell(Typed("Who are you?"))
    talk.voices("I am Venus, and I am glad to be here with you.", 4000)
    talk.tell(HeardTold("u1", 24 * 300))
    talk.speaks(1000)
    talk.silent(100)
    talk.transcribed("And where?")
    assert talk.script().messages[-1].content == "And where?"


def test_when_all_was_heard_the_agent_listens_again_and_remembers_the_exchange() -> None:
    talk = Talk()
    talk.asks()
    talk.answers("The cheetah.", 1000)
    talk.tell(HeardTold("u1", 24_000))
    assert [decided.decision for decided in talk.of(Decided)] == [Decision.SPEAK, Decision.LISTEN]
    talk.asks("And the slowest?")
    contents = [message.content for message in talk.script().messages]
    assert contents[-3:] == [QUESTION, "The cheetah.", "And the slowest?"]


def test_without_any_word_from_the_listener_an_utterance_ends_some_time_after_it_was_played() -> None:
    talk = Talk()
    talk.asks()
    talk.answers("The cheetah.", 1000)
    talk.silent(33_000)
    assert talk.of(Decided)[-1].decision is Decision.LISTEN


def test_the_stop_button_ends_the_utterance_at_once() -> None:
    talk = Talk()
    talk.asks()
    talk.answers(ms=9000)
    talk.tell(Interrupted("u0"))
    assert not talk.desk.replies[0][0].cancelled
    talk.tell(Interrupted("u1"))
    assert talk.desk.replies[0][0].cancelled
    assert talk.of(Decided)[-1].decision is Decision.LISTEN


def test_typed_text_is_answered_without_waiting_and_takes_the_floor() -> None:
    talk = Talk()
    talk.asks()
    talk.answers(ms=9000)
    talk.tell(Typed("你好，你叫什么名字？"))
    assert talk.of(Overlap)[-1].kind == "typed"
    assert talk.script().language is Language.ZH
    talk.voices("我叫小维。")
    assert talk.of(Speech)[-1].utterance_id == "u2"


def test_lines_are_said_word_for_word_one_after_the_other() -> None:
    talk = Talk()
    talk.tell(Line("Welcome."))
    talk.tell(Line("Take a seat."))
    assert [make().text for _, make in talk.desk.replies] == ["Welcome."]
    talk.voices("Welcome.")
    talk.written("Welcome.")
    talk.tell(HeardTold("u1", 24_000))
    talk.silent(100)
    assert [make().text for _, make in talk.desk.replies] == ["Welcome.", "Take a seat."]


def test_what_needs_the_world_gets_an_honest_line_instead_of_the_models_words() -> None:
    talk = Talk()
    talk.asks("What is the price of gold?")
    instead = talk.script().instead
    assert instead is not None
    assert instead() in all_lines(Language.EN)


def test_the_reply_follows_the_language_of_the_words() -> None:
    talk = Talk()
    talk.asks("世界上最大的海洋是哪个？", Language.ZH)
    assert talk.script().language is Language.ZH


def test_a_session_language_is_what_the_recogniser_is_told() -> None:
    talk = Talk(options=SessionOptions(language=Language.ZH))
    talk.speaks(600)
    assert {language for _, _, language in talk.desk.asked.values()} == {Language.ZH}
    talk.tell(Changes(language="auto"))
    talk.desk.asked.clear()
    talk.silent(300)
    assert {language for _, _, language in talk.desk.asked.values()} <= {None}


def test_partial_words_are_prefilled_with_an_open_end() -> None:
    talk = Talk()
    talk.speaks(700)
    talk.transcribed("What's the fastest")
    (prompt,) = talk.desk.prefills
    assert prompt()[-1] == Message("user", "What's the fastest")
    talk.tell(Prefilled())


def test_an_empty_reply_becomes_a_request_to_say_it_again() -> None:
    talk = Talk()
    talk.asks()
    talk.silent(300)
    talk.written("", error="the model refused")
    assert [trouble.code for trouble in talk.of(Trouble)] == ["reply.failed"]
    assert "again" in talk.script().text
    talk.voices(talk.script().text)
    assert len(talk.of(Speech)) == 1


def test_when_not_even_that_can_be_said_she_listens_again() -> None:
    talk = Talk()
    talk.asks()
    talk.silent(300)
    talk.written("", error="no voice")
    talk.written("", error="no voice")
    assert len(talk.desk.replies) == 2
    assert [trouble.code for trouble in talk.of(Trouble)] == ["reply.failed", "reply.failed"]
    assert talk.of(Decided)[-1].decision is Decision.LISTEN
    talk.tell(Line("Welcome."))
    assert talk.script().text == "Welcome."


def test_a_broken_worker_is_reported_and_the_conversation_goes_on() -> None:
    talk = Talk()
    talk.speaks(500)
    talk.tell(Broken("asr", -1, RuntimeError("boom")))
    assert [(trouble.code, trouble.fatal) for trouble in talk.of(Trouble)] == [("asr.failed", False)]
    talk.desk.asked.clear()
    talk.silent(100)
    talk.transcribed(QUESTION)
    talk.sounds_finished()
    talk.silent(300)
    talk.tell(Broken("llm", talk.desk.replies[0][0].generation, RuntimeError("boom")))
    assert talk.of(Trouble)[-1].code == "llm.failed"
    assert "again" in talk.script().text
    talk.tell(Broken("voice", talk.desk.replies[1][0].generation, RuntimeError("boom")))
    assert len(talk.desk.replies) == 2
    assert talk.of(Decided)[-1].decision is Decision.LISTEN


def test_the_words_of_a_short_remark_are_kept_for_the_record() -> None:
    talk = Talk()
    talk.tell(Aside(100, 300, Transcript("Mm-hm.", Language.EN, 0.8)))
    assert [(heard.text, heard.final) for heard in talk.of(Heard)] == [("Mm-hm.", True)]


def test_fast_mode_holds_a_unit_until_nothing_is_computed_or_enough_is_voiced() -> None:
    talk = Talk(fast=True)
    talk.speaks(600)
    talk.silent(100)
    assert len(talk.of(UnitDone)) < talk.index
    talk.transcribed(QUESTION)
    talk.sounds_finished()
    talk.silent(300)
    before = len(talk.of(UnitDone))
    talk.voices("The cheetah.", 1000)
    assert len(talk.of(UnitDone)) == before + 1


@pytest.mark.parametrize("text", ["", "   "])
def test_noise_without_words_is_forgotten(text: str) -> None:
    talk = Talk()
    talk.asks(text.strip())
    talk.silent(2000)
    assert talk.desk.replies == []
    assert [heard for heard in talk.of(Heard) if heard.final] == []


def test_each_turn_may_be_in_another_language() -> None:
    talk = Talk()
    talk.speaks(2500)
    for job in list(talk.desk.asked):
        purpose, end_ms, _ = talk.desk.asked.pop(job)
        talk.tell(Recognised(job, purpose, end_ms, 2.4, Transcript("Tell me about the sea", Language.EN, 0.9)))
    talk.tell(Prefilled())
    talk.silent(100)
    talk.transcribed("Tell me about the sea, please.")
    talk.sounds_finished()
    talk.silent(1600)
    talk.voices("It is big.")
    talk.written("It is big.")
    assert talk.of(Speech)
    talk.tell(HeardTold("u1", 24_000))
    talk.desk.asked.clear()
    talk.speaks(2500)
    assert {language for _, _, language in talk.desk.asked.values()} == {None}


def test_a_reply_that_breaks_while_it_is_heard_ends_with_what_there_is() -> None:
    talk = Talk()
    talk.asks()
    talk.silent(300)
    talk.voices("The cheetah, ", 1000)
    talk.tell(Broken("voice", talk.desk.replies[0][0].generation, RuntimeError("boom")))
    assert [end.samples for end in talk.of(TurnEnded)] == [24_000]
    assert "boom" not in talk.of(Trouble)[-1].message
    talk.tell(HeardTold("u1", 24_000))
    assert talk.of(Decided)[-1].decision is Decision.LISTEN


def test_media_time_follows_the_units_over_a_gap() -> None:
    talk = Talk()
    talk.silent(200)
    talk.tell(MediaUnit(talk.index, 5000, np.zeros(1600, np.float32), missing_ms=4800))
    assert talk.of(UnitDone)[-1].at_ms == 5100


def test_speech_does_not_put_typed_words_aside_before_they_are_answered() -> None:
    talk = Talk()
    talk.tell(Typed("What is the largest ocean?"))
    talk.speaks(300)
    talk.silent(700)
    assert len(talk.desk.replies) == 1
    assert not talk.desk.replies[0][0].cancelled
    talk.voices("The Pacific.")
    assert [speech.utterance_id for speech in talk.of(Speech)] == ["u1"]


def test_stop_without_a_name_ends_whatever_is_pending() -> None:
    talk = Talk()
    talk.tell(Typed("What is the largest ocean?"))
    talk.tell(Interrupted(""))
    assert talk.desk.replies[0][0].cancelled
    assert talk.of(Decided)[-1].decision is Decision.LISTEN


def test_a_unit_tells_what_was_computed_in_it() -> None:
    talk = Talk()
    talk.tell(Took("asr", 120.0))
    talk.tell(Took("asr", 30.5))
    talk.silent(100)
    talk.silent(100)
    assert [dict(done.timings) for done in talk.of(UnitDone)] == [{"asr": 150.5}, {}]


def test_the_default_voice_can_be_chosen_again() -> None:
    talk = Talk()
    talk.tell(Changes(voice="heart"))
    assert talk.dialogue.voice(Language.EN) == "heart"
    talk.dialogue.check(Changes(voice="auto"))
    talk.tell(Changes(voice="auto"))
    assert talk.dialogue.voice(Language.EN) is None


def test_a_chosen_voice_is_made_ready_before_its_first_word() -> None:
    talk = Talk()
    talk.tell(Changes(language=Language.EN))
    assert talk.desk.prepared == 0
    talk.tell(Changes(voice="heart"))
    assert talk.desk.prepared == 1
    talk.tell(Changes(voice="auto"))
    assert talk.desk.prepared == 1
