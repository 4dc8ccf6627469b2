"""One reply: from the model's pieces to voiced clauses, and how it stops."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from realtime_venus.engines.base import EngineError, Language
from realtime_venus.engines.cascade.clauses import ClauseOptions
from realtime_venus.engines.cascade.parts import Message
from realtime_venus.engines.cascade.reply import Finished, Piece, Reply, Script

from ...kit.cascade import DEADLINE_S, Tone, Words

SENTENCES = ("The", " cheetah", " is", " fast.", " It", " lives", " in", " Africa.")
TEXT = "".join(SENTENCES)
ASKED = Script(Language.EN, [Message("user", "What's the fastest land animal?")])


class Making:
    """A reply under test and what it posted."""

    def __init__(self, voice: Tone, *, pause_for_voice: bool = False) -> None:
        self.posted: list[Piece | Finished] = []
        self.on_post: Callable[[Piece | Finished], None] = self.posted.append
        self.reply = Reply(
            7,
            voice,
            "tone",
            lambda message: self.on_post(message),
            options=ClauseOptions(),
            pause_for_voice=pause_for_voice,
        )

    def make(self, script: Script, model: Words, max_tokens: int = 100) -> None:
        """Write on this thread, speak on another."""
        speaking = threading.Thread(target=self.reply.speak)
        speaking.start()
        self.reply.write(script, model, 3, max_tokens)
        speaking.join(DEADLINE_S)
        assert not speaking.is_alive()

    @property
    def clauses(self) -> list[str]:
        return [post.clause for post in self.posted if isinstance(post, Piece) and post.clause is not None]

    @property
    def finished(self) -> Finished:
        (found,) = [post for post in self.posted if isinstance(post, Finished)]
        assert self.posted[-1] is found
        return found


def test_clauses_come_in_order_and_together_are_the_text() -> None:
    voice, model = Tone(pieces=2), Words(*SENTENCES)
    making = Making(voice)
    making.make(ASKED, model)
    assert len(making.clauses) >= 2
    assert "".join(making.clauses) == TEXT
    assert making.finished == Finished(7, TEXT)
    assert {post.generation for post in making.posted} == {7}
    (asked,) = model.asked
    assert (asked.slot, asked.messages, asked.prefix) == (3, tuple(ASKED.messages), "")


def test_a_clause_is_named_with_its_first_piece_and_ends_with_its_last() -> None:
    making = Making(Tone(pieces=3))
    making.make(Script(Language.EN, text="Good morning."), Words())
    pieces = [post for post in making.posted if isinstance(post, Piece)]
    assert [(piece.clause, piece.last) for piece in pieces] == [
        ("Good morning.", False),
        (None, False),
        (None, True),
    ]


def test_a_fixed_text_is_spoken_whole_and_the_model_is_not_asked() -> None:
    voice, model = Tone(), Words("never")
    making = Making(voice)
    making.make(Script(Language.ZH, text="这个我查不到，我这里没有联网。"), model)
    assert model.asked == []
    assert "".join(making.clauses) == "这个我查不到，我这里没有联网。"
    assert making.finished.text == "这个我查不到，我这里没有联网。"


def test_a_line_that_is_known_to_be_better_is_said_instead_of_the_models_words() -> None:
    voice, model = Tone(), Words(*SENTENCES)
    making = Making(voice)
    making.make(Script(Language.EN, ASKED.messages, instead=lambda: "I can't look that up here."), model)
    assert "".join(making.clauses) == "I can't look that up here."
    assert making.finished.text == "I can't look that up here."


def test_without_a_better_line_the_models_words_are_said() -> None:
    making = Making(Tone())
    making.make(Script(Language.EN, ASKED.messages, instead=lambda: ""), Words(*SENTENCES))
    assert making.finished.text == TEXT


def test_what_is_voiced_is_the_spoken_form_and_what_is_shown_the_written_one() -> None:
    voice = Tone()
    making = Making(voice)
    making.make(Script(Language.EN, text="It has **42** legs."), Words())
    assert "".join(making.clauses) == "It has **42** legs."
    assert voice.spoken == ["It has 42 legs."]


def test_a_clause_of_which_nothing_can_be_spoken_is_left_out() -> None:
    voice = Tone()
    making = Making(voice)
    making.make(Script(Language.EN, text="***"), Words())
    assert voice.spoken == []
    assert making.finished == Finished(7, "***")


def test_the_model_is_given_its_limit_of_tokens() -> None:
    model = Words(*SENTENCES)
    making = Making(Tone())
    making.make(ASKED, model, max_tokens=3)
    assert model.asked[0].max_tokens == 3
    assert making.finished.text == "The cheetah is"


def test_for_a_heavy_voice_the_model_waits_for_the_first_clause_and_goes_on_from_there() -> None:
    model = Words(*SENTENCES)
    given_at_first_clause: list[int] = []
    making = Making(Tone(on_piece=lambda: given_at_first_clause.append(model.given)), pause_for_voice=True)
    making.make(ASKED, model)
    first, second = model.asked
    assert first.prefix == ""
    assert second.prefix == "".join(SENTENCES[: given_at_first_clause[0]])
    assert second.max_tokens == 100 - given_at_first_clause[0]
    assert 0 < len(second.prefix) < len(TEXT)
    assert "".join(making.clauses) == TEXT
    assert making.finished.text == TEXT


def test_a_heavy_voice_and_no_tokens_left_ends_after_the_first_clause() -> None:
    model = Words(*SENTENCES)
    making = Making(Tone(), pause_for_voice=True)
    paused_after = 5  # the full stop and the word that shows that it was one
    making.make(ASKED, model, max_tokens=paused_after)
    assert making.finished.text == "".join(SENTENCES[:paused_after])
    assert sum(asked.max_tokens for asked in model.asked) <= 2 * paused_after
    assert model.given == paused_after


def test_a_heavy_voice_and_a_text_of_one_clause_needs_no_second_run() -> None:
    model = Words("Hello", " there")
    making = Making(Tone(), pause_for_voice=True)
    making.make(ASKED, model)
    assert len(model.asked) == 1
    assert making.clauses == ["Hello there"]


def test_cancelled_it_stops_at_the_next_token_and_posts_nothing() -> None:
    voice, model = Tone(), Words(*SENTENCES)
    making = Making(voice)
    making.reply.cancel()
    making.make(ASKED, model)
    assert making.reply.cancelled
    assert model.given == 1
    assert voice.spoken == []
    assert making.posted == []


def test_cancelled_while_it_speaks_it_stops_at_the_next_piece() -> None:
    voice = Tone(pieces=5)
    making = Making(voice)

    def once(message: Piece | Finished) -> None:
        making.posted.append(message)
        making.reply.cancel()

    making.on_post = once
    making.make(Script(Language.EN, text=TEXT), Words())
    assert len(making.posted) == 1
    assert voice.given <= 2
    assert len(voice.spoken) == 1


def test_cancelled_while_the_model_waits_for_the_voice_it_does_not_go_on() -> None:
    model = Words(*SENTENCES)
    making = Making(Tone(on_piece=lambda: making.reply.cancel()), pause_for_voice=True)
    making.make(ASKED, model)
    assert len(model.asked) == 1


def test_an_error_of_the_model_is_told_with_what_was_written_before() -> None:
    making = Making(Tone())
    making.make(ASKED, Words("The", " cheetah", " is", " fast.", " It", error=EngineError("out of context")))
    assert making.finished.error == "out of context"
    assert making.finished.text == "The cheetah is fast. It"


def test_an_error_of_the_voice_is_told() -> None:
    making = Making(Tone(error=EngineError("no voice")))
    making.make(ASKED, Words(*SENTENCES))
    assert making.finished.error == "no voice"
    assert making.clauses == []


def test_a_failing_voice_does_not_keep_the_model_waiting() -> None:
    model = Words(*SENTENCES)
    making = Making(Tone(error=EngineError("no voice")), pause_for_voice=True)
    making.make(ASKED, model)
    assert making.finished.error == "no voice"


def test_a_mistake_in_the_voice_is_raised_and_not_reported_as_the_end() -> None:
    making = Making(Tone(error=RuntimeError("boom")))
    making.reply.write(Script(Language.EN, text=TEXT), Words(), 0, 100)
    with pytest.raises(RuntimeError, match="boom"):
        making.reply.speak()
    assert making.posted == []


def test_abandoned_it_ends_with_nothing_said() -> None:
    making = Making(Tone())
    making.reply.abandon()
    making.reply.speak()
    assert making.posted == [Finished(7, "")]
