"""The session's decisions: what comes from engine, reflex, playback, page and clock goes in; actions come out.

Nothing here waits, reads a clock or touches a room.  Every method returns the actions it leads to, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...engines import base
from ...engines.base import Capabilities, EngineEvent, SessionOptions
from ..playback import LedgerState, Moved, Resolved
from ..reflex import OverDuck, OverEnded, OverHold, Signal, SpeechEnded, SpeechStarted
from ..rooms.base import Acknowledge, Command, Configure, Interrupt, Say, TypeText
from ..timeline import events as ev
from .actions import (
    Acknowledged,
    Action,
    Emit,
    End,
    EndUtterance,
    Enqueue,
    Flush,
    Now,
    Recover,
    TellConfigure,
    TellHeard,
    TellInterrupt,
    TellSay,
    TellTyped,
)
from .latency import LatencyMeter
from .overlap import Output, OverlapControl
from .settings import SessionSettings
from .watchdog import Watchdog
from .words import Span, heard_text, join_words

_REMEMBERED_IDS = 512

WhoSpoke = Callable[[int, int], str | None]
"""Who spoke between two moments (media milliseconds), as far as the room knows."""


def _nobody_knows(start_ms: int, end_ms: int) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the core needs to know about engine and room."""

    session_id: str
    engine: str
    room: str
    unit_ms: int
    capabilities: Capabilities
    options: SessionOptions
    recording: bool


@dataclass(slots=True)
class _Utterance:
    spans: list[Span] = field(default_factory=list[Span])
    has_speech: bool = False
    begun: bool = False
    heard: int = 0


class SessionCore:
    """One conversation's state.  ``who_spoke`` names the speakers of a room with several people."""

    def __init__(self, facts: SessionFacts, settings: SessionSettings, who_spoke: WhoSpoke = _nobody_knows) -> None:
        self._facts = facts
        self._settings = settings
        self._who_spoke = who_spoke
        self._can = facts.capabilities
        self._overlap = OverlapControl(settings, facts.unit_ms, verdicts=self._can.overlap)
        self._watchdog = Watchdog(settings.liveness_s(fast=facts.options.fast))
        self._latency = LatencyMeter()
        self._live: dict[str, _Utterance] = {}
        self._over: deque[str] = deque(maxlen=_REMEMBERED_IDS)  # finished or given up: their events are dropped
        self._thinking = False
        self._state = ""
        self._language = str(facts.options.language or "auto")
        self._voice = facts.options.voice or ""
        self._recoveries = 0
        self._ended = False

    # -- beginning and end -------------------------------------------------------------------------------------

    def start(self, now: Now) -> list[Action]:
        """The session begins."""
        facts = self._facts
        started = ev.SessionStarted(
            at_ms=now.ms,
            session_id=facts.session_id,
            engine=facts.engine,
            room=facts.room,
            unit_ms=facts.unit_ms,
            language=self._language,
            voice=self._voice,
            recording=facts.recording,
        )
        return [Emit(started), *self._state_change(now)]

    def end(self, reason: str, now: Now) -> list[Action]:
        """The session is over; only the first reason counts."""
        if self._ended:
            return []
        self._ended = True
        return [Emit(ev.SessionEnded(at_ms=now.ms, reason=reason))]

    def trouble(self, code: str, message: str, now: Now, *, fatal: bool = False) -> list[Action]:
        """Something went wrong outside the core."""
        actions: list[Action] = [Emit(ev.TroubleEvent(at_ms=now.ms, code=code, message=message, fatal=fatal))]
        return [*actions, End(code)] if fatal else actions

    # -- the engine --------------------------------------------------------------------------------------------

    def engine_event(self, event: EngineEvent, now: Now) -> list[Action]:
        """Anything the engine says.  What belongs to a finished or yielded utterance is dropped."""
        match event:
            case base.Text() | base.Speech() | base.Overlap() | base.TurnEnded():
                actions = [] if event.utterance_id in self._over else self._utterance_event(event, now)
            case base.Decided():
                self._thinking = event.decision is base.Decision.SPEAK
                actions = [Emit(ev.Decision(at_ms=event.at_ms, decision=event.decision.value))]
            case base.Heard():
                speaker = self._who_spoke(event.start_ms, event.end_ms)
                actions = [Emit(_user_text(event, speaker or "user"))]
            case base.UnitDone():
                self._watchdog.done(event.index, now.wall_s)
                self._recoveries = 0
                timings = dict(event.timings)
                actions = [Emit(ev.UnitTimed(at_ms=event.at_ms, index=event.index, timings=timings))]
            case base.Trouble():
                actions = self.trouble(event.code, event.message, now, fatal=event.fatal)
            case _:
                actions = []  # private requests to tools: nothing executes them yet, and nothing may show them
        return [*actions, *self._state_change(now)]

    def bad_speech(self, utterance_id: str, now: Now) -> list[Action]:
        """The engine's speech left a hole in the utterance, which therefore cannot be said."""
        actions: list[Action] = [Flush(utterance_id), TellInterrupt(utterance_id), *self._give_up(utterance_id, now)]
        said = self.trouble("bad_speech", "The engine's speech came out of order; the utterance was given up.", now)
        return [*actions, *said, *self._state_change(now)]

    def pushed(self, index: int, now: Now) -> None:
        """Unit ``index`` was given to the engine."""
        self._watchdog.pushed(index, now.wall_s)

    def engine_gone(self, now: Now) -> list[Action]:
        """The engine's events ended though nobody asked for it."""
        return [*self._recover("engine", 0, now), *self._state_change(now)]

    # -- the user ----------------------------------------------------------------------------------------------

    def sound(self, last_sound_ms: int | None) -> None:
        """The end of the user's last sound within speech so far."""
        self._latency.last_sound_ms = last_sound_ms

    def signal(self, signal: Signal, speaking: str | None, now: Now) -> list[Action]:
        """What the reflex noticed while the utterance ``speaking`` was being played."""
        match signal:
            case SpeechStarted():
                self._latency.user_spoke()
                actions: list[Action] = [Emit(ev.UserSpeech(at_ms=signal.onset_ms, phase="started"))]
            case SpeechEnded():
                actions = [Emit(ev.UserSpeech(at_ms=signal.last_sound_ms, phase="ended"))]
            case OverDuck() | OverHold() | OverEnded():
                actions = self._overlap.signal(signal, speaking, now.ms)
        return [*actions, *self._state_change(now)]

    def gap(self, cause: str, missing_ms: int, now: Now) -> list[Action]:
        """Input was ``lost``, or dropped as a ``backlog``."""
        return [Emit(ev.InputGap(at_ms=now.ms, cause=cause, missing_ms=missing_ms))]

    def command(self, command: Command, now: Now) -> list[Action]:
        """What the page asks for."""
        match command:
            case Acknowledge(number):
                return [Acknowledged(number)]
            case Interrupt():
                return [*self._interrupt_all(now), *self._state_change(now)]
            case Configure(changes):
                return [TellConfigure(changes)]
            case TypeText(text, speaker):
                able, action = self._can.type, TellTyped(text.strip(), speaker)
            case Say(text):
                able, action = self._can.say, TellSay(text.strip())
        if not able:
            return self.trouble("unsupported", "This engine cannot do that; look at its capabilities.", now)
        if not action.text or len(action.text) > self._settings.max_text_chars:
            limit = self._settings.max_text_chars
            return self.trouble("bad_text", f"A text has 1 to {limit} characters; this one was not taken.", now)
        return [action]

    def done(self, action: TellTyped | TellSay | TellConfigure, now: Now) -> list[Action]:
        """The engine accepted what was told."""
        if isinstance(action, TellConfigure):
            changes = action.changes
            self._language = str(changes.language or self._language)
            self._voice = "" if changes.voice == "auto" else changes.voice or self._voice
            return [Emit(ev.SessionConfigured(at_ms=now.ms, language=self._language, voice=self._voice))]
        self._latency.cancel()
        if isinstance(action, TellSay):
            return []
        language = "zh" if any("\u4e00" <= char <= "\u9fff" for char in action.text) else "en"
        typed = ev.UserText(
            at_ms=now.ms,
            text=action.text,
            start_ms=now.ms,
            end_ms=now.ms,
            final=True,
            language=language,
            typed=True,
            speaker=action.speaker,
        )
        return [Emit(typed)]

    # -- playback and time -------------------------------------------------------------------------------------

    def ledger(self, news: Iterable[Moved | Resolved], now: Now) -> list[Action]:
        """What moved between queued, sent, heard and discarded."""
        actions: list[Action] = []
        for item in news:
            actions += self._moved(item) if isinstance(item, Moved) else self._resolved(item)
        return [*actions, *self._state_change(now)]

    def tick(self, now: Now, *, pulled_frames: int, speech_waits: bool) -> list[Action]:
        """Time passes: overlap limits and liveness."""
        self._watchdog.playout(pulled_frames, now.wall_s, wanted=speech_waits)
        actions = self._overlap.tick(now.ms)
        stall = self._watchdog.check(now.wall_s)
        if stall is not None:
            actions += self._recover(stall.what, round(stall.stalled_s * 1000), now)
        return [*actions, *self._state_change(now)]

    # -- inside ------------------------------------------------------------------------------------------------

    def _utterance_event(
        self, event: base.Text | base.Speech | base.Overlap | base.TurnEnded, now: Now
    ) -> list[Action]:
        if isinstance(event, base.Overlap):
            actions = self._overlap.verdict(event, now.ms)
            if event.verdict is base.Verdict.YIELD:
                actions += self._give_up(event.utterance_id, now)
            return actions
        utterance_id = event.utterance_id
        utterance = self._live.setdefault(utterance_id, _Utterance())
        if isinstance(event, base.TurnEnded):
            self._watchdog.utterance_over(utterance_id)
            return [EndUtterance(utterance_id, event.samples)]
        self._watchdog.utterance(utterance_id, now.wall_s)
        if isinstance(event, base.Text):
            utterance.spans.append(Span(event.text, event.first_sample, event.end_sample))
            shown = ev.AgentText(
                at_ms=event.at_ms,
                utterance_id=utterance_id,
                text=event.text,
                first_sample=event.first_sample,
                end_sample=event.end_sample,
            )
            return [Emit(shown)]
        utterance.has_speech = True
        end = event.first_sample + len(event.pcm)
        self._latency.speech(utterance_id, event.first_sample, end, opener=event.opener)
        queued = ev.AgentSpeech(
            at_ms=event.at_ms,
            utterance_id=utterance_id,
            first_sample=event.first_sample,
            samples=len(event.pcm),
            opener=event.opener,
        )
        return [Enqueue(event), Emit(queued)]

    def _moved(self, item: Moved) -> list[Action]:
        actions: list[Action] = [
            Emit(
                ev.Playout(
                    at_ms=item.at_ms,
                    utterance_id=item.utterance_id,
                    state=item.state.value,
                    first_sample=item.first,
                    end_sample=item.end,
                    estimated=item.estimated,
                )
            )
        ]
        utterance = self._live.get(item.utterance_id)
        if item.state is LedgerState.SENT:
            if utterance is not None:
                utterance.begun = True
                self._thinking = False
            latency = self._latency.sent(item.utterance_id, item.first, item.end, item.at_ms)
            if latency is not None and not self._facts.options.fast:
                actions.append(Emit(latency))
        elif item.state is LedgerState.HEARD:
            if utterance is not None:
                utterance.heard = max(utterance.heard, item.end)
            actions.append(TellHeard(item.utterance_id, item.end))
        return actions

    def _resolved(self, item: Resolved) -> list[Action]:
        utterance = self._live.pop(item.utterance_id, _Utterance())
        self._thinking = False
        self._remember_over(item.utterance_id)
        ended = ev.UtteranceEnded(
            at_ms=item.at_ms,
            utterance_id=item.utterance_id,
            heard_text=_heard_text(utterance, item),
            heard_samples=item.heard,
            total_samples=item.total,
            interrupted=item.flushed,
        )
        return [TellHeard(item.utterance_id, item.heard), Emit(ended), *self._overlap.gone(item.utterance_id)]

    def _give_up(self, utterance_id: str, now: Now) -> list[Action]:
        """Drop what the engine still says of the utterance.  What playback holds of it is resolved by its flush."""
        self._thinking = False
        self._remember_over(utterance_id)
        utterance = self._live.get(utterance_id)
        if utterance is None:
            return []
        utterance.begun = False  # its sound is cut off with this very decision
        if utterance.has_speech:
            return []
        del self._live[utterance_id]  # words only: playback never knew of it
        ended = ev.UtteranceEnded(
            at_ms=now.ms,
            utterance_id=utterance_id,
            heard_text="",
            heard_samples=0,
            total_samples=0,
            interrupted=True,
        )
        return [Emit(ended)]

    def _remember_over(self, utterance_id: str) -> None:
        self._watchdog.utterance_over(utterance_id)
        self._latency.over(utterance_id)
        if utterance_id not in self._over:
            self._over.append(utterance_id)

    def _interrupt_all(self, now: Now) -> list[Action]:
        actions: list[Action] = []
        for utterance_id in list(self._live):
            actions += [Flush(utterance_id), TellInterrupt(utterance_id), *self._give_up(utterance_id, now)]
        if not actions and self._thinking:
            self._thinking = False
            actions.append(TellInterrupt(""))  # what is being thought of has no name yet
        return actions

    def _recover(self, what: str, stalled_ms: int, now: Now) -> list[Action]:
        actions: list[Action] = [Emit(ev.Recovered(at_ms=now.ms, stalled_ms=stalled_ms, what=what))]
        if what == "playout":
            return [*actions, Recover("playout", stalled_ms)]
        if self._recoveries >= self._settings.max_recoveries:
            return self.trouble("engine_stalled", "The engine makes no progress any more.", now, fatal=True)
        self._recoveries += 1
        self._watchdog.engine_restarted()
        self._thinking = False  # whatever the old engine session was about to say is gone with it
        for utterance_id in list(self._live):
            actions += [Flush(utterance_id), *self._give_up(utterance_id, now)]
        return [*actions, Recover("engine", stalled_ms)]

    def _state_change(self, now: Now) -> list[Action]:
        if any(utterance.begun for utterance in self._live.values()):
            state = {Output.OPEN: "speaking", Output.DUCKED: "ducked", Output.HELD: "held"}[self._overlap.output]
        else:
            state = "thinking" if self._thinking else "listening"
        if state == self._state:
            return []
        self._state = state
        return [Emit(ev.AgentState(at_ms=now.ms, state=state))]


def _heard_text(utterance: _Utterance, item: Resolved) -> str:
    if item.flushed:
        return heard_text(utterance.spans, item.heard)
    return join_words(span.text for span in utterance.spans)  # spans may be estimates that reach past the end


def _user_text(event: base.Heard, speaker: str) -> ev.UserText:
    return ev.UserText(
        at_ms=event.at_ms,
        text=event.text,
        start_ms=event.start_ms,
        end_ms=event.end_ms,
        final=event.final,
        language=event.language.value,
        speaker=speaker,
    )
