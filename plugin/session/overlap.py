"""User speech over the agent: duck, hold, and what follows from the engine's verdict or from its absence.

A pure state machine.  The reflex says what it hears, the engine judges, time limits decide when it does not.
"""

from __future__ import annotations

from enum import StrEnum

from ...engines.base import Overlap, OverlapPhase, Verdict
from ..reflex import OverDuck, OverEnded, OverHold
from ..timeline.events import OverlapEvent
from .actions import Action, Duck, Emit, Flush, GoOn, HoldOutput, TellOverlap
from .settings import SessionSettings


class Output(StrEnum):
    """How the agent's voice is let out."""

    OPEN = "open"
    DUCKED = "ducked"
    HELD = "held"


class OverlapControl:
    """``verdicts``: the engine judges overlaps (and is told of them); without, the limits alone decide."""

    def __init__(self, settings: SessionSettings, unit_ms: int, *, verdicts: bool) -> None:
        self._hold_limit_ms = settings.hold_limit_ms
        self._verdict_limit_ms = unit_ms + settings.verdict_grace_ms
        self._verdicts = verdicts
        self.output = Output.OPEN
        self._utterance = ""
        self._onset_ms = 0
        self._sounding = False  # the user's speech over the agent lasts
        self._deadline_ms: int | None = None  # of the verdict; None: nothing is awaited
        self._held_until_ms = 0

    @property
    def utterance(self) -> str:
        """The utterance spoken over, or ``""``."""
        return self._utterance

    def signal(self, signal: OverDuck | OverHold | OverEnded, speaking: str | None, now_ms: int) -> list[Action]:
        """What the reflex heard while ``speaking`` was being said."""
        if isinstance(signal, OverEnded):
            return self._ended(now_ms)
        if speaking is None:
            return []
        if isinstance(signal, OverHold):
            if self._deadline_ms is None or self.output is Output.HELD:
                return []  # decided already
            return [*self._hold(now_ms), self._event("hold", now_ms)]
        actions: list[Action] = []
        self._utterance, self._onset_ms, self._sounding = speaking, signal.onset_ms, True
        self._deadline_ms = now_ms + self._verdict_limit_ms
        if self.output is Output.OPEN:
            self.output = Output.DUCKED
            actions.append(Duck(on=True))
        actions += [self._event("started", now_ms), self._event("duck", now_ms)]
        if self._verdicts:
            actions.append(TellOverlap(OverlapPhase.STARTED, signal.onset_ms))
        return actions

    def verdict(self, event: Overlap, now_ms: int) -> list[Action]:
        """What the engine judged.  It may come late, or before the reflex noticed anything."""
        if self._utterance != event.utterance_id:
            self._utterance, self._onset_ms = event.utterance_id, now_ms
        kind, score = event.kind, event.score
        if event.verdict is Verdict.YIELD:
            said = self._event("yield", now_ms, kind, score)
            return [said, Flush(event.utterance_id), *self._open(resume=False)]
        if event.verdict is Verdict.HOLD:
            self._deadline_ms = now_ms + self._verdict_limit_ms
            held = [] if self.output is Output.HELD else self._hold(now_ms)
            self._held_until_ms = self._deadline_ms  # a verdict: the short limit is for its absence
            return [*held, self._event("hold", now_ms, kind, score)]
        return [self._event("go_on", now_ms, kind, score), *self._open()]

    def tick(self, now_ms: int) -> list[Action]:
        """Apply the limits."""
        if self._deadline_ms is not None and now_ms >= self._deadline_ms:
            return [self._event("go_on", now_ms, "no_verdict"), *self._open()]
        if self.output is Output.HELD and now_ms >= self._held_until_ms:
            self.output = Output.DUCKED
            return [self._event("duck", now_ms, "hold_limit"), Duck(on=True), GoOn()]
        return []

    def gone(self, utterance_id: str) -> list[Action]:
        """The utterance is finished: nothing is left to duck or hold."""
        return self._open() if utterance_id == self._utterance else []

    # -- inside ------------------------------------------------------------------------------------------------

    def _hold(self, now_ms: int) -> list[Action]:
        self.output = Output.HELD
        self._held_until_ms = now_ms + self._hold_limit_ms
        return [HoldOutput()]

    def _ended(self, now_ms: int) -> list[Action]:
        if not self._sounding:
            return []
        self._sounding = False
        actions: list[Action] = [self._event("ended", now_ms)]
        if self._verdicts:
            actions.append(TellOverlap(OverlapPhase.ENDED, now_ms))
        self._forget_if_over()
        return actions

    def _open(self, *, resume: bool = True) -> list[Action]:
        actions: list[Action] = [] if self.output is Output.OPEN else [Duck(on=False)]
        if self.output is Output.HELD and resume:
            actions.append(GoOn())
        self.output = Output.OPEN
        self._deadline_ms = None
        self._forget_if_over()
        return actions

    def _forget_if_over(self) -> None:
        if not self._sounding and self._deadline_ms is None:
            self._utterance = ""

    def _event(self, phase: str, now_ms: int, kind: str = "", score: float = 0.0) -> Emit:
        return Emit(
            OverlapEvent(
                at_ms=now_ms,
                phase=phase,
                utterance_id=self._utterance,
                kind=kind,
                score=score,
                after_ms=max(0, now_ms - self._onset_ms),
            )
        )
