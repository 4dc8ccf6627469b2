"""The session's one mind: takes messages in order, decides, starts work, and emits events.

Everything here runs on one thread, so nothing needs a lock.  The conductor knows no threads itself: work goes to
:class:`~.workers.Workers` (or a fake of it) and comes back as messages.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..base import (
    INPUT_HZ,
    OUTPUT_HZ,
    Changes,
    Decided,
    Decision,
    EngineEvent,
    Heard,
    Language,
    MediaUnit,
    Overlap,
    Speech,
    Text,
    Trouble,
    TurnEnded,
    UnitDone,
    Verdict,
)
from .dialogue import Dialogue
from .ear import Ear, Sound
from .endpoint import (
    Action,
    Drop,
    Endpoint,
    Judge,
    Nothing,
    Partial,
    Prefill,
    Recognise,
    Segment,
    Speculate,
    TurnOver,
)
from .inbox import Begin, HeardTold, Input, Interrupted, Line, OverlapTold, Typed, WorkerPool
from .reply import Finished, Piece, Reply, Script
from .script import language_of
from .settings import CascadeSettings
from .utterance import Utterance
from .workers import Aside, Broken, Judged, Prefilled, Prepared, Recognised, Report, Took

_log = logging.getLogger(__name__)

PLAYED_SLACK_MS = 30_000
"""Without any word from the listener an utterance counts as played this long after its samples should have run out."""
WAITING_LINES = 16
"""``say`` lines kept while the agent speaks; the oldest gives way."""


@dataclass(slots=True)
class Performance:
    """A reply and what has become of it: kept back until its turn is over, then audible."""

    reply: Reply
    utterance: Utterance
    user_text: str
    turn_ms: int = -1
    """When the spoken turn that it answers began; -1 when it answers none."""
    due: bool = False
    """The user's turn is over: the reply may be heard."""
    audible: bool = False
    promised: bool = False
    """It answers typed text or is a line to say: no speech of the user puts it aside before it is heard."""
    fallback: bool = False
    """It only asks to say it again."""
    kept: deque[Piece] = field(default_factory=deque[Piece])


class Conductor:
    """One conversation.  Call :meth:`handle` from one thread only."""

    def __init__(
        self,
        ear: Ear,
        dialogue: Dialogue,
        workers: WorkerPool,
        emit: Callable[[EngineEvent], None],
        make_reply: Callable[[int, Language], Reply],
        settings: CascadeSettings,
        *,
        fast: bool = False,
    ) -> None:
        self._ear, self._dialogue, self._workers, self._emit = ear, dialogue, workers, emit
        self._make_reply, self._set, self._fast = make_reply, settings, fast
        self._endpoint = Endpoint(settings.endpoint)
        self._generation = 0
        self._decided = Decision.LISTEN
        self._utterances = 0
        self._now: Performance | None = None
        self._lines: deque[str] = deque(maxlen=WAITING_LINES)
        self._sure_language: Language | None = None
        self._timings: dict[str, float] = {}
        self._plays_until_ms = 0
        self._working = 0
        self._prefill_wanted = 0
        self._unit: MediaUnit | None = None

    # -- input ------------------------------------------------------------------------------------------------------

    def handle(self, message: Input) -> None:
        """Take one message."""
        match message:
            case Begin():
                self._begin_session()
            case MediaUnit():
                self._on_unit(message)
            case OverlapTold():
                pass  # the ear hears the same speech, and its length is what counts
            case HeardTold():
                self._on_heard(message)
            case Interrupted():
                if self._now and message.utterance_id in ("", self._now.utterance.id):
                    self._end_performance(cut=True)
                    self._decide(Decision.LISTEN)
            case Typed():
                self._on_typed(message.text)
            case Line():
                self._lines.append(message.text)
                self._say_next()
            case Changes():
                self._dialogue.configure(message)
                self._sure_language = None
                if message.voice is not None:
                    self._prepare_voice()
            case _:
                self._on_report(message)
        self._finish_unit()

    @property
    def now_ms(self) -> int:
        """Media time of the end of what was heard; may be asked from any thread."""
        return self._ear.now_ms

    def stop(self) -> None:
        """Let go of the current reply; the one method that another thread may call."""
        if (now := self._now) is not None:
            now.reply.cancel()

    def _on_report(self, report: Report) -> None:
        sound = self._ear.sound()
        match report:
            case Took():
                self._timings[report.work] = self._timings.get(report.work, 0.0) + round(report.ms, 1)
            case Recognised():
                self._working -= 1
                found = report.transcript
                if found and found.text and report.seconds >= 2:
                    self._sure_language = found.language
                self._act(self._endpoint.on_transcript(report.job, report.end_ms, found, sound))
            case Judged():
                self._working -= 1
                self._act(self._endpoint.on_judged(report.job, report.probability, sound))
            case Prefilled():
                self._working -= 1
                self._endpoint.on_prefilled()
                self._act(self._endpoint.on_sound(sound) if not self._speaking() else [])
            case Prepared():
                self._working -= 1
            case Aside():
                self._working -= 1
                found = report.transcript
                if found and found.text:
                    self._emit(
                        Heard(self._ear.now_ms, found.text, report.start_ms, report.end_ms, True, found.language)
                    )
            case Piece():
                self._on_piece(report)
            case Finished():
                self._on_finished(report)
            case Broken():
                self._on_broken(report)

    # -- hearing ----------------------------------------------------------------------------------------------------

    def _on_unit(self, unit: MediaUnit) -> None:
        sound = self._ear.take(unit.audio, unit.start_ms, patient=self._now is None and not self._fast)
        self._unit = unit
        if self._speaking():
            self._over_the_agent(sound)
        elif not self._promised():
            self._act(self._endpoint.on_sound(sound))
        self._say_next()

    def _over_the_agent(self, sound: Sound) -> None:
        """The user is heard while the agent speaks: short speech passes, longer speech takes the floor."""
        if sound.start_ms < 0:
            return
        length = sound.last_speech_ms - sound.start_ms
        if length >= self._set.overlap.yield_ms:
            self._yield("speech", min(1.0, length / (2 * self._set.overlap.yield_ms)))
            self._act(self._endpoint.on_sound(sound))
        elif not sound.speaking and sound.silence_ms >= self._set.overlap.ended_ms:
            utterance = self._now.utterance.id if self._now else ""
            self._emit(Overlap(sound.now_ms, utterance, Verdict.GO_ON, "short", length / self._set.overlap.yield_ms))
            audio, start_ms, end_ms = self._ear.audio()
            self._working += 1
            self._workers.aside(audio, start_ms, end_ms, self._hint(len(audio)))
            self._new_turn()

    def _yield(self, kind: str, score: float) -> None:
        if self._now is None:
            return
        utterance = self._now.utterance
        self._emit(Overlap(self._ear.now_ms, utterance.id, Verdict.YIELD, kind, score))
        heard_ms = utterance.heard * 1000 // OUTPUT_HZ
        answered, turn_ms = self._now.user_text, self._now.turn_ms
        self._end_performance(cut=True)
        self._decide(Decision.LISTEN)
        if answered and turn_ms >= 0 and heard_ms < self._set.overlap.same_turn_ms:
            # Hardly anything of the answer was heard: the user had not finished, and goes on with the same turn.
            self._dialogue.take_back(utterance.id)
            self._endpoint.reset(answered, turn_ms)
        else:
            self._endpoint.reset()

    def _new_turn(self) -> None:
        """Whatever the user says from now on is another turn, in whatever language."""
        self._ear.forget()
        self._endpoint.reset()
        self._sure_language = None

    # -- what the endpoint wants --------------------------------------------------------------------------------------

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Recognise():
                    audio, _, end_ms = self._ear.audio()
                    self._working += 1
                    self._workers.recognise(action.job, action.purpose, audio, end_ms, self._hint(len(audio)))
                case Judge():
                    self._working += 1
                    self._workers.judge(action.job, self._ear.audio()[0])
                case Prefill():
                    self._prefill(action.text)
                case Speculate():
                    self._speculate(action.text, action.language)
                case Drop():
                    self._end_performance(cut=True)
                    self._decide(Decision.LISTEN)
                case Partial():
                    start_ms = self._endpoint.start_ms(self._ear.sound())
                    self._emit(Heard(self._ear.now_ms, action.text, start_ms, action.end_ms, False, action.language))
                case TurnOver():
                    self._turn_over(action)
                case Segment():
                    self._ear.forget(action.until_ms)
                case Nothing():
                    self._new_turn()

    def _hint(self, samples: int) -> Language | None:
        """The language to recognise: a setting, or what a long enough stretch of this turn has shown."""
        return self._dialogue.language or (self._sure_language if samples >= 2 * INPUT_HZ else None)

    def _prepare_voice(self) -> None:
        """Get the chosen voice ready while nobody waits for it."""
        if (ready := self._dialogue.chosen_voice()) is not None:
            self._working += 1
            self._workers.prepare(ready)

    def _begin_session(self) -> None:
        """Run the rules of the conversation through the model while nobody has spoken yet."""
        self._prepare_voice()
        for language in [self._dialogue.language] if self._dialogue.language else Language:
            self._working += 1
            self._workers.prefill(lambda at=language: self._dialogue.rules(at), language, lambda: False)

    def _prefill(self, text: str) -> None:
        self._prefill_wanted += 1
        wanted = self._prefill_wanted
        language = self._dialogue.language or language_of(text) or self._dialogue.latest_language
        if self._fast:
            # Without a clock there is nothing to hide the time behind.
            self._endpoint.on_prefilled()
            return
        self._working += 1
        self._workers.prefill(
            lambda: self._dialogue.open_prompt(text, language),
            language,
            lambda: self._prefill_wanted != wanted,
        )

    def _speculate(self, text: str, language: Language) -> None:
        self._end_performance(cut=True)
        self._prefill_wanted += 1
        language = language_of(text) or language
        self._perform(text, language, lambda: self._dialogue.script(text, language))

    def _perform(self, user_text: str, language: Language, script: Callable[[], Script]) -> Performance:
        self._generation += 1
        self._utterances += 1
        reply = self._make_reply(self._generation, language)
        self._now = Performance(reply, Utterance(f"u{self._utterances}", language), user_text)
        self._working += 1
        self._workers.reply(reply, script, self._set.max_tokens)
        return self._now

    def _turn_over(self, over: TurnOver) -> None:
        self._emit(Heard(self._ear.now_ms, over.text, over.start_ms, over.end_ms, True, over.language))
        if self._now is None:  # its reply broke: once more, now that it is certain to be wanted
            self._speculate(over.text, over.language)
        if self._now is not None:
            self._decide(Decision.SPEAK)
            self._now.due, self._now.turn_ms = True, over.start_ms
            self._release(self._now)

    def _on_typed(self, text: str) -> None:
        if self._speaking():
            self._yield("typed", 1.0)
        self._end_performance(cut=True)
        self._new_turn()
        language = self._dialogue.language or language_of(text) or self._dialogue.latest_language
        performance = self._perform(text, language, lambda: self._dialogue.script(text, language, typed=True))
        performance.due = performance.promised = True
        self._decide(Decision.SPEAK)

    def _say_next(self) -> None:
        if not self._lines or self._now is not None or self._speaking() or self._ear.sound().start_ms >= 0:
            return
        text = self._lines.popleft()
        language = language_of(text) or self._dialogue.latest_language
        performance = self._perform("", language, lambda: Script(language, text=text))
        performance.due = performance.promised = True

    def _decide(self, decision: Decision) -> None:
        if decision is not self._decided:
            self._decided = decision
            self._emit(Decided(self._ear.now_ms, decision))

    def _promised(self) -> bool:
        """Whether typed text or a line is about to be answered: what the user says meanwhile waits for its sound."""
        return self._now is not None and self._now.promised and not self._now.audible

    # -- speaking ---------------------------------------------------------------------------------------------------

    def _speaking(self) -> bool:
        """Whether the listener still hears the agent, as far as is known."""
        now = self._now
        if now is None or not now.audible:
            return False
        done = now.utterance.complete and now.utterance.heard >= now.utterance.samples
        if done or (now.utterance.complete and self._ear.now_ms > self._plays_until_ms + PLAYED_SLACK_MS):
            self._dialogue.ended(now.utterance)
            self._now = None
            self._decide(Decision.LISTEN)
            return False
        return True

    def _on_piece(self, piece: Piece) -> None:
        now = self._now
        if now is None or piece.generation != now.reply.generation:
            return
        now.kept.append(piece)
        if now.due:
            self._release(now)

    def _release(self, now: Performance) -> None:
        """Let out what is voiced of a reply whose turn has come."""
        while now.kept:
            piece = now.kept.popleft()
            if not now.audible:
                self._begin(now)
            first = now.utterance.samples
            span = now.utterance.add(len(piece.pcm), piece.clause, piece.last)
            at_ms = self._ear.now_ms
            self._plays_until_ms = max(self._plays_until_ms, at_ms) + len(piece.pcm) * 1000 // OUTPUT_HZ
            self._emit(Speech(at_ms, now.utterance.id, first, piece.pcm))
            if span is not None:
                self._emit(Text(at_ms, now.utterance.id, span.text, span.first, span.end))
        if now.audible and now.utterance.complete:
            self._emit(TurnEnded(self._ear.now_ms, now.utterance.id, now.utterance.samples))

    def _begin(self, now: Performance) -> None:
        now.audible = True
        self._decide(Decision.SPEAK)
        self._plays_until_ms = self._ear.now_ms
        self._dialogue.began(now.utterance, now.user_text)
        if not (now.promised and self._ear.sound().start_ms >= 0):
            self._new_turn()

    def _on_finished(self, finished: Finished) -> None:
        now = self._now
        if now is None or finished.generation != now.reply.generation:
            return
        self._working -= 1
        if finished.error:
            self._emit(Trouble(self._ear.now_ms, "reply.failed", finished.error))
        now.utterance.complete, now.utterance.written = True, finished.text
        self._dialogue.wrote(now.utterance)
        if not now.audible and not now.kept:
            self._nothing_said(now)
        elif now.due:
            self._release(now)

    def _nothing_said(self, now: Performance) -> None:
        """There is nothing to hear: ask again rather than leave the user in silence, but only once."""
        due = now.due
        self._now = None
        if now.fallback:
            self._give_up(now)
            return
        language = now.utterance.language
        text = self._dialogue.say_again(language)
        again = self._perform(now.user_text, language, lambda: Script(language, text=text))
        again.due, again.turn_ms, again.fallback = due, now.turn_ms, True

    def _give_up(self, now: Performance) -> None:
        """The turn gets no answer: be ready for the next one."""
        if now.due:
            self._ear.forget()
            self._endpoint.reset()
        self._decide(Decision.LISTEN)

    def _end_performance(self, *, cut: bool) -> None:
        """Stop the current reply, audible or not."""
        now = self._now
        if now is None:
            return
        now.reply.cancel()
        if not now.utterance.complete:
            self._working -= 1
        if now.audible:
            now.utterance.yielded = cut
            self._dialogue.ended(now.utterance)
        self._now = None

    def _on_heard(self, told: HeardTold) -> None:
        self._dialogue.heard(told.utterance_id, told.samples)
        self._speaking()

    def _break_off(self, now: Performance) -> None:
        """Let what is voiced be heard to its end; there will be no more of it."""
        now.reply.cancel()
        if not now.utterance.complete:
            self._working -= 1
            now.utterance.complete, now.utterance.written = True, now.utterance.text
            self._dialogue.wrote(now.utterance)
            self._emit(TurnEnded(self._ear.now_ms, now.utterance.id, now.utterance.samples))

    def _on_broken(self, broken: Broken) -> None:
        _log.error("a part of the engine failed", exc_info=broken.error, extra={"work": broken.work})
        self._emit(Trouble(self._ear.now_ms, f"{broken.work}.failed", "a part of the engine failed: see the log"))
        now = self._now
        if broken.generation < 0:
            self._working -= 1
            self._endpoint.on_failed()
        elif now is not None and now.reply.generation == broken.generation and now.audible:
            self._break_off(now)
        elif now is not None and now.reply.generation == broken.generation:
            self._end_performance(cut=True)
            if now.due and not now.audible:
                self._nothing_said(now)
            else:
                self._decide(Decision.LISTEN)

    # -- the unit's end -----------------------------------------------------------------------------------------------

    def _finish_unit(self) -> None:
        """Report the unit as taken in; in fast mode only when enough is voiced or nothing is being computed."""
        unit = self._unit
        if unit is None:
            return
        if self._fast and self._working > 0:
            ahead = self._plays_until_ms - self._ear.now_ms
            if not (self._now is not None and self._now.audible and ahead >= self._set.unit_ms):
                return
        self._unit = None
        timings, self._timings = self._timings, {}
        self._emit(UnitDone(self._ear.now_ms, unit.index, timings))
