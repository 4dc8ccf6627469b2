"""When the user's turn is over, and what is computed before that is certain: a pure core, events in, actions out.

While the user speaks, partial transcripts are made and run through the language model.  At the first quiet (40 ms) a
final transcript is begun and the reply is generated on it, as a speculation.  The turn ends when its sound (Smart
Turn) and its words agree and enough silence has passed; what is enough depends on how complete the words are.  Sound
that comes back before that throws the speculation away.  The reply becomes audible only when the turn is over *and*
its first clause is voiced, so a patient rule costs nothing while the reply is still being made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..base import Language
from .ear import Sound
from .lastword import completeness
from .parts import Transcript
from .settings import EndpointSettings

COVER_MS = 80
"""A transcript whose audio ends this much before the last sound still holds every word (measured in the spike)."""
SURELY_COMPLETE = 0.9
"""Completeness of a whole question or request."""
PREFILL_CHARS = {Language.EN: 12, Language.ZH: 5}
"""A prefill costs a tenth of a second and more however few words it adds: so many more are worth one."""
SEGMENT_MS = 18_000
"""A turn longer than this is closed off as a segment at the next gap, since the recogniser takes 30 s at most."""
LONGEST_MS = 26_000
"""...and is cut at this length when no gap comes."""


class Purpose(StrEnum):
    """What a transcript is for."""

    PARTIAL = "partial"
    FINAL = "final"
    SEGMENT = "segment"


@dataclass(frozen=True, slots=True)
class Recognise:
    """Transcribe the turn's audio up to now."""

    job: int
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask whether the turn sounds finished."""

    job: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """Run the words so far through the language model."""

    text: str


@dataclass(frozen=True, slots=True)
class Speculate:
    """Make the reply to these words, but keep it back."""

    text: str
    language: Language


@dataclass(frozen=True, slots=True)
class Drop:
    """Throw the speculative reply away: the user goes on."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Words heard so far, to be shown."""

    text: str
    end_ms: int
    language: Language


@dataclass(frozen=True, slots=True)
class TurnOver:
    """The user's turn is complete; sent again, with more words, when the user went on before the reply was audible."""

    text: str
    start_ms: int
    end_ms: int
    language: Language


@dataclass(frozen=True, slots=True)
class Nothing:
    """What was heard had no words: the turn is forgotten."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The words up to here are settled: the audio before ``until_ms`` is no longer needed."""

    until_ms: int


Action = Recognise | Judge | Prefill | Speculate | Drop | Partial | TurnOver | Nothing | Segment


def joined(first: str, second: str) -> str:
    """Two stretches of one turn as one text; a space between them unless both sides are Chinese."""
    if not first or not second:
        return first or second
    chinese = ord(first[-1]) > 0x2E80 or ord(second[0]) > 0x2E80
    return first + second if chinese else f"{first} {second}"


class Endpoint:
    """Follows one user turn after another.  Times are media milliseconds."""

    def __init__(self, settings: EndpointSettings) -> None:
        self._set = settings
        self._job = 0
        self._asked: dict[int, tuple[Purpose, int]] = {}
        self._prefilling = False
        self.prior = ""
        """Words of earlier segments of the turn, or of a turn that was answered too early."""
        self.reset()

    def reset(self, prior: str = "", begun_ms: int = -1) -> None:
        """Begin a new turn; ``prior`` are words that belong to it already, the first of them said at ``begun_ms``."""
        self.prior, self._begun_ms = prior, begun_ms
        self._text, self._language, self._covered_ms = "", Language.EN, -1
        self._prefilled = ""
        self._speculated: str | None = None
        self._over = False
        self._probability: float | None = None
        self._judged_ms = self._judging = self._segment_ms = -1
        self._last_asked_ms = self._last_final_ms = -10_000
        self._asked.clear()

    @property
    def over(self) -> bool:
        """Whether the turn has been reported over."""
        return self._over

    @property
    def text(self) -> str:
        """All words of the turn as far as they are known."""
        return joined(self.prior, self._text)

    def start_ms(self, sound: Sound) -> int:
        """When the turn began, which is what it is known by for as long as it goes on."""
        return self._begun_ms if self._begun_ms >= 0 else max(0, sound.start_ms)

    # -- events -----------------------------------------------------------------------------------------------------

    def on_sound(self, sound: Sound) -> list[Action]:
        """A unit was heard."""
        if sound.start_ms < 0:
            return []
        actions: list[Action] = []
        if self._came_back(sound):
            actions += self._went_on(sound)
        if sound.speaking and sound.quiet_ms < self._set.quiet_ms:
            actions += self._while_speaking(sound)
        elif not self._over:
            actions += self._while_quiet(sound)
        return actions

    def on_transcript(self, job: int, end_ms: int, result: Transcript | None, sound: Sound) -> list[Action]:
        """A transcript of the audio up to ``end_ms`` is there; ``None`` means it was dropped as stale."""
        asked = self._asked.pop(job, None)
        if asked is None or result is None:
            return []
        actions: list[Action] = []
        if asked[0] is Purpose.SEGMENT:
            self._text, self._covered_ms, self._language = result.text, end_ms, result.language
            return [*self._close_segment(), Partial(self.prior, end_ms, result.language)]
        if end_ms < self._covered_ms:
            return []
        self._text, self._covered_ms = result.text, end_ms
        if result.text:
            self._language = result.language
        if self.text:
            actions.append(Partial(self.text, end_ms, self._language))
        if self._quiet(sound) and self._covers(sound):
            actions += self._on_words(sound)
        elif self._may_prefill():
            self._prefilling = True
            self._prefilled = self.text
            actions.append(Prefill(self.text))
        return actions

    def on_judged(self, job: int, probability: float, sound: Sound) -> list[Action]:
        """The turn sounds finished with this probability."""
        if job != self._judging:
            return []
        self._judging = -1
        self._probability = probability
        return self._decide(sound)

    def on_prefilled(self) -> None:
        """The language model is free again."""
        self._prefilling = False

    def on_failed(self) -> None:
        """Some work broke: ask again for whatever is still wanted."""
        self._asked.clear()
        self._prefilling, self._judging = False, -1

    # -- while the user speaks --------------------------------------------------------------------------------------

    def _came_back(self, sound: Sound) -> bool:
        """Whether speech went on after words were taken as final (a gap inside the turn)."""
        last = max(sound.last_speech_ms, 0)
        return (
            (self._speculated is not None or self._over)
            and sound.speaking
            and (sound.began or min(last, sound.last_sound_ms) > self._covered_ms + COVER_MS)
        )

    def _went_on(self, sound: Sound) -> list[Action]:
        actions: list[Action] = [Drop()]
        self._speculated, self._over, self._probability, self._judging = None, False, None, -1
        if self._text and self._length_ms(sound) > SEGMENT_MS:
            self._asked.clear()
            actions += self._close_segment()
        return actions

    def _close_segment(self) -> list[Action]:
        self.prior = joined(self.prior, self._text)
        self._text, self._segment_ms = "", self._covered_ms
        return [Segment(self._covered_ms)]

    def _length_ms(self, sound: Sound) -> int:
        return sound.now_ms - max(sound.start_ms, self._segment_ms)

    def _while_speaking(self, sound: Sound) -> list[Action]:
        self._probability = None
        if self._length_ms(sound) > LONGEST_MS and not self._asked:
            return [self._ask(Purpose.SEGMENT, sound)]
        if sound.now_ms - self._last_asked_ms < self._set.partial_every_ms or self._asked or self._prefilling:
            return []
        return [self._ask(Purpose.PARTIAL, sound)]

    def _may_prefill(self) -> bool:
        grown = len(self.text) - len(self._prefilled)
        worth = grown >= PREFILL_CHARS[self._language]
        return worth and not self._prefilling and not self._asked and self._speculated is None

    # -- when it is quiet -------------------------------------------------------------------------------------------

    def _quiet(self, sound: Sound) -> bool:
        return not sound.speaking or sound.quiet_ms >= self._set.quiet_ms

    def _needed_ms(self, sound: Sound) -> int:
        """A transcript must cover the audio up to here to hold every word."""
        return min(sound.last_sound_ms, sound.last_speech_ms) - COVER_MS

    def _covers(self, sound: Sound) -> bool:
        return self._covered_ms >= self._needed_ms(sound)

    def _while_quiet(self, sound: Sound) -> list[Action]:
        actions: list[Action] = []
        if self._judging < 0 and (
            self._probability is None
            or (
                self._probability <= self._set.sound_probability
                and sound.now_ms - self._judged_ms >= self._set.again_ms
            )
        ):
            self._judging = self._next_job()
            self._judged_ms = sound.now_ms
            actions.append(Judge(self._judging))
        pending = max((end for _, end in self._asked.values()), default=-1)
        if not self._covers(sound):
            settled = any(purpose is Purpose.SEGMENT for purpose, _ in self._asked.values())
            due = not self._asked or sound.now_ms - self._last_final_ms >= self._set.final_every_ms
            if pending < self._needed_ms(sound) and due and not settled:
                actions.append(self._ask(Purpose.FINAL, sound))
        elif self._covers(sound) and self._speculated is None:
            actions += self._on_words(sound)
        return actions + self._decide(sound)

    def _on_words(self, sound: Sound) -> list[Action]:
        """A transcript that covers everything said so far is there, and it is quiet."""
        text = self.text
        if not text:
            return [Nothing()] if sound.silence_ms >= self._set.least_silence_ms and not self._asked else []
        actions: list[Action] = []
        if self._speculated != text:
            if self._speculated is not None:
                actions.append(Drop())
            self._speculated = text
            actions.append(Speculate(text, self._language))
        return actions + self._decide(sound)

    def _decide(self, sound: Sound) -> list[Action]:
        if self._over or self._speculated is None or not self._quiet(sound) or not self._covers(sound):
            return []
        end_ms = min(sound.last_sound_ms, sound.last_speech_ms)
        if sound.now_ms - end_ms < self.silence_wanted_ms():
            return []
        self._over = True
        return [TurnOver(self._speculated, self.start_ms(sound), end_ms, self._language)]

    def silence_wanted_ms(self) -> int:
        """Silence after which the turn is over, from its words and its sound."""
        complete = completeness(self._speculated or self.text, self._language)
        wanted = self._set.least_silence_ms + round((1.0 - complete) * self._set.doubt_silence_ms)
        if self._probability is None or self._probability <= self._set.sound_probability:
            # Words that are surely complete outweigh a doubtful sound, though not at once.
            wanted = self._set.doubtful_sound_ms if complete >= SURELY_COMPLETE else self._set.cap_ms
        return min(wanted, self._set.cap_ms)

    def _ask(self, purpose: Purpose, sound: Sound) -> Recognise:
        job = self._next_job()
        self._asked[job] = (purpose, sound.now_ms)
        self._last_asked_ms = sound.now_ms
        if purpose is Purpose.FINAL:
            self._last_final_ms = sound.now_ms
        return Recognise(job, purpose)

    def _next_job(self) -> int:
        self._job += 1
        return self._job
