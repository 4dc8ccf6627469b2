"""One duplex session: units in, words and speech out.

A unit is one second of what is heard and seen (or words alone).  :meth:`Duplex.prefill` puts it into the context,
:meth:`Duplex.generate` lets the model listen or speak, and gives out words and speech as they come.

All methods that need the thinker exist twice: as an iterator that asks for forwards (``…ing``), which
:class:`~.lockstep.Lockstep` drives for several sessions at once, and as a plain call.  Callers hold
``torch.inference_mode()``; a session belongs to one thread at a time, only :meth:`Duplex.break_off` may come from
another.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..base import OUTPUT_HZ, EngineError, FloatPcm, RgbImage
from .behaviour import RULES, Closing, Decoding
from .context import Memory, Policy, Recent
from .draws import Draws, SeededDraws
from .driving import pieces, result
from .duplex_settings import DuplexSettings
from .feeding import Part, mix
from .kv import Full, KVCache, KVSpan
from .model import OmniModel
from .pieces import Feed, Piece, SpeechPiece, UnitEnd, Work, forward
from .talker import Bias
from .thinker import Step
from .token2wav.stream import T2WState
from .unit_input import UNIT_MS as UNIT_MS
from .unit_input import Fed, UnitInput
from .unit_speech import UnitSpeech
from .unit_text import Said, Steer, UnitText
from .units import Unit, UnitKind, UnitTable
from .voice import VoicePrompt


class Duplex:
    """The synchronous core of one session."""

    def __init__(
        self,
        model: OmniModel,
        settings: DuplexSettings | None = None,
        *,
        draws: Draws | None = None,
        cache: KVCache | None = None,
        slot: int = 0,
    ) -> None:
        self.model = model
        self.settings = settings or DuplexSettings()
        self.rules = RULES[self.settings.behaviour]
        self.decoding = self.settings.decoding or Decoding.of(self.settings.behaviour)
        self.cache = model.thinker.cache(self.settings.positions) if cache is None else cache
        self.slot = slot
        self.units = UnitTable()
        self.text = UnitText(model, self.rules)
        self.memory = Memory(_bounded(self.settings.context, self.cache.capacity))
        self.input = UnitInput(model, self.rules, self.settings.overlap_units)
        self.voice = UnitSpeech(model, self.rules)
        self._given_draws = draws
        self._begin()

    def _begin(self) -> None:
        self._draws = self._given_draws or SeededDraws(self.settings.seed)
        self.cache.reset(self.slot)
        self.units.reset()
        self.text.reset()
        self.memory.reset()
        self._fed: Fed | None = None
        self._step: Step | None = None
        self._carry: list[int] = []
        self._said: Said | None = None
        self._unclosed: tuple[Fed, Said] | None = None
        self._broken = False
        self._next_id = 0
        self._generated = 0
        self._forwards = 0

    # -- what can be seen of the state ------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Positions in the thinker's cache."""
        return self.cache.length(self.slot)

    @property
    def pending(self) -> Step | None:
        """The step that the next decision is taken from."""
        return self._step

    @property
    def fed(self) -> Fed | None:
        """The unit that was prefilled last."""
        return self._fed

    @property
    def said(self) -> Said | None:
        """What the unit that was generated last said."""
        return self._said

    # -- preparation ------------------------------------------------------------------------------------------------

    def prepare(
        self, prefix: str, suffix: str, voice: VoicePrompt | FloatPcm | None, base: T2WState | None = None
    ) -> None:
        """Begin a session: the system prompt with the reference voice (or its samples at 16 kHz) between its parts.

        ``base`` is token2wav's state for that voice (:meth:`Token2Wav.base`), which sessions may share.
        """
        result(self.preparing(prefix, suffix, voice, base), self.run)

    def preparing(
        self, prefix: str, suffix: str, voice: VoicePrompt | FloatPcm | None, base: T2WState | None = None
    ) -> Work[None]:
        """See :meth:`prepare`."""
        self._begin()
        wave = voice.wave16k if isinstance(voice, VoicePrompt) else voice
        start = mix(self.model, [self.model.tokens.encode(prefix), *self.input.begin(wave)])
        after = mix(self.model, [self.model.tokens.encode(suffix)])
        yield from forward(torch.cat((start, after), dim=1))
        self.memory.prefix = start.shape[1]
        self.memory.suffix = after
        self.units.protected = self.length
        if self.settings.speaks and self.model.talker is not None and self.model.token2wav is not None:
            if base is None:
                if not isinstance(voice, VoicePrompt):
                    raise EngineError("a session that speaks needs an enrolled voice: see voice.enroll")
                base = self.model.token2wav.base(voice)
        else:
            base = None
        self.voice.begin(base, self._draws)

    # -- input ------------------------------------------------------------------------------------------------------

    def prefill(
        self,
        audio: FloatPcm | None = None,
        frames: Sequence[RgbImage] = (),
        text: str | Sequence[int] | None = None,
        max_slices: int | Sequence[int] = 1,
        *,
        at_ms: int | None = None,
    ) -> Fed | None:
        """Put a unit into the context: audio (``float32[n]`` at 16 kHz), pictures and text, in any combination.

        ``text`` as a string is a user's or a tool's and cannot hold control tokens; ids are taken as they are.
        ``at_ms`` is the media time at which the unit began; without it units with media follow each other second by
        second.  Where a clock is behind what the context holds, as that of a new session which a snapshot was restored
        into, its units are counted on from there.  ``None`` when there was too little audio for a unit, which is then
        kept for the next one.
        """
        return result(self.prefilling(audio, frames, text, max_slices, at_ms=at_ms), self.run)

    def prefilling(
        self,
        audio: FloatPcm | None = None,
        frames: Sequence[RgbImage] = (),
        text: str | Sequence[int] | None = None,
        max_slices: int | Sequence[int] = 1,
        *,
        at_ms: int | None = None,
    ) -> Work[Fed | None]:
        """See :meth:`prefill`."""
        if self._broken and not self.rules.break_closes_turn:
            self._step = None
            return None
        yield from self.finalising()
        self._forwards = 0
        unit = self.input.take(audio, frames, text, max_slices, at_ms)
        if unit is None:
            self._step = None
            if self.rules.failed_unit_leaves_mark:
                yield from self._feed([[self.model.tokens.ids.unit]])
            return None
        embeds = mix(self.model, [self._carry, *unit.parts])
        wanted = embeds.shape[1] + len(unit.words) + self.decoding.max_tokens + 1  # with what is generated after them
        yield from self._make_room(wanted)
        if unit.fed.kind is UnitKind.TEXT:
            self.cache.require(self.slot, wanted)  # a text is refused rather than left without its answer
        self._step = yield from forward(embeds)
        self._carry = []
        if unit.words:
            yield from self._feed([unit.words])
        self._fed = unit.fed
        return unit.fed

    def inject(self, text: str) -> bool:
        """Bring in a background result.

        Whether it was fed as a unit of its own, which wants :meth:`generate` now; otherwise it waits for the next unit
        with audio.
        """
        if self.settings.backend == "media_unit":
            words = self.input.backend(text)
            waiting = len(self.input.waiting) + len(words)
            # half of the cache, so that the unit they come with has room whatever that holds
            if waiting > self.cache.capacity // 2 - self.units.protected:
                raise Full(f"background results of {waiting} tokens do not fit beside a unit")
            self.input.waiting += words
            return False
        return self.prefill(text=self.input.backend(text)) is not None

    def break_off(self) -> None:
        """Stop speaking; may be called from another thread, while a unit is being generated too.

        With ``venus`` an open turn is closed in the context with the next unit, which listens.  The reference codes
        skip every unit until :meth:`resume`.
        """
        self._broken = True

    def resume(self) -> None:
        """Lift :meth:`break_off`."""
        self._broken = False

    # -- output -----------------------------------------------------------------------------------------------------

    def generate(
        self,
        *,
        force_listen: bool = False,
        decoding: Decoding | None = None,
        steer: Steer | None = None,
        code_bias: Bias | None = None,
    ) -> Iterator[Piece]:
        """Let the model listen or speak; pieces come as they are made, a :class:`UnitEnd` last.

        ``steer`` may change the raw logits of every token, ``code_bias`` those of the talker.
        """
        work = self.generating(force_listen=force_listen, decoding=decoding, steer=steer, code_bias=code_bias)
        return pieces(work, self.run)

    def generating(
        self,
        *,
        force_listen: bool = False,
        decoding: Decoding | None = None,
        steer: Steer | None = None,
        code_bias: Bias | None = None,
    ) -> Work[None]:
        """See :meth:`generate`."""
        decoding = decoding or self.decoding
        step, fed, self._step = self._step, self._fed, None
        if step is None or fed is None:
            yield from self._idle()
            return
        forced = force_listen or self._generated < decoding.initial_listens
        if self._broken and self.rules.break_closes_turn:
            self._broken = False
            forced = forced or self.text.turn_open
        self._generated += 1
        was_open = self.text.turn_open
        began = time.perf_counter()
        if forced:
            said = yield from self.text.force_listen()
            if was_open:
                self.voice.cut_off()
        else:
            said = yield from self.text.decode(step, decoding, self._draws, steer, self._stopped)
        self._said = said
        decoded = time.perf_counter()
        samples = yield from self.voice.speak(said, code_bias, self._stopped)
        voiced = time.perf_counter()
        self._unclosed = (fed, said)
        if self.rules.closing is not Closing.ON_CALL:
            yield from self._close()
        turn_closed = not self.text.turn_open and (was_open or bool(said.ids))
        yield UnitEnd(
            is_listen=said.is_listen,
            text=said.text,
            end_of_turn=said.end_of_turn,
            turn_closed=turn_closed,
            ids=(*said.ids, said.terminator, self.model.tokens.ids.unit_end),
            tokens=len(said.spoken),
            codes=self.voice.codes,
            samples=samples,
            forwards=self._forwards,
            timings={"text": (decoded - began) * 1000, "speech": (voiced - decoded) * 1000},
        )

    def finalise(self) -> None:
        """Close the unit that was generated, where the behaviour leaves that to its caller; else there is nothing to
        do."""
        result(self.finalising(), self.run)

    def finalising(self) -> Work[None]:
        """See :meth:`finalise`."""
        if self._unclosed is not None:
            yield from self._close()

    def settle(self) -> None:
        """Bring what would ride in the next prefill into the cache now, so that every unit in it is whole."""
        result(self._settling(), self.run)

    def _settling(self) -> Work[None]:
        yield from self.finalising()
        if self._carry:
            carry, self._carry = self._carry, []
            yield from self._feed([carry])

    # -- inside -----------------------------------------------------------------------------------------------------

    def _make_room(self, positions: int) -> Work[None]:
        """Room for so many, as far as the policy allows."""
        model = self.model
        return self.memory.make_room(positions, self.units, self.cache, self.slot, model.thinker, model.tokens)

    def _feed(self, parts: Sequence[Part]) -> Work[Step]:
        return forward(mix(self.model, parts))

    def run(self, feed: Feed) -> Step:
        """Run one forward of this session alone."""
        self.counted()
        return self.model.thinker(feed.embeds, self.cache, slots=[self.slot])

    def counted(self) -> None:
        """A forward of this session was run."""
        self._forwards += 1

    def _stopped(self) -> bool:
        return self._broken and self.rules.break_closes_turn

    def _idle(self) -> Work[None]:
        """Nothing was fed, so there is nothing to decide."""
        samples = 0
        if self.rules.silence_when_listening:
            samples = OUTPUT_HZ
            yield SpeechPiece(np.zeros(samples, np.float32))
        broken = self._broken and not self.rules.break_closes_turn
        yield UnitEnd(True, "", broken, False, (), 0, 0, samples, 0)

    def _close(self) -> Work[None]:
        """Terminator and ``</unit>``, the table, and what has to be forgotten."""
        assert self._unclosed is not None
        fed, said = self._unclosed
        self._unclosed = None
        closing = [said.terminator, self.model.tokens.ids.unit_end]
        if self.rules.closing is Closing.AT_ONCE:
            for token in closing:
                yield from self._feed([[token]])
        elif self.rules.closing is Closing.ON_CALL:
            yield from self._feed([closing])
        else:
            self._carry = closing
        length = self.length + len(self._carry) - self.units.end
        words = () if said.is_listen else tuple(token for token in said.spoken if self.model.tokens.decode([token]))
        self.units.append(Unit(self._next_id, length, fed.kind, said.is_listen, said.text, words, fed.at_ms))
        self._next_id += 1
        model = self.model
        yield from self.memory.enforce(self.units, self.cache, self.slot, model.thinker, model.tokens)

    # -- units by time ----------------------------------------------------------------------------------------------

    def copy_out(self, start_ms: int, end_ms: int) -> list[tuple[Unit, KVSpan]]:
        """The units that began in ``[start_ms, end_ms)`` with their keys and values; the context keeps them."""
        self.settle()
        places = ((self.units[index], self.units.start(index)) for index in self.units.between(start_ms, end_ms))
        return [(unit, self.cache.copy_out(self.slot, start, start + unit.length)) for unit, start in places]

    def copy_in(self, kept: Sequence[tuple[Unit, KVSpan]]) -> None:
        """Put units of an earlier time back into the context, in order of time behind the system prompt.

        They count as new: whatever is longer in the context is forgotten before them, now too, where room has to be
        made.  What the context still holds is left out.  Raises, before any is in, :class:`~.kv.Full` where they do not
        all fit, ``ValueError`` for a unit and keys of different lengths, and :class:`~..base.EngineError` for keys of
        another network.
        """
        self.settle()
        for unit, span in kept:
            self.cache.check(span)
            if len(span) != unit.length:
                raise ValueError(f"a unit of {unit.length} positions with keys of {len(span)}")
        missing = [(unit, span) for unit, span in kept if not self._holds(unit, span)]
        wanted = sum(len(span) for _, span in missing)
        result(self._make_room(wanted), self.run)
        self.cache.require(self.slot, wanted)
        now_ms = self.units[len(self.units) - 1].at_ms if len(self.units) else 0
        for unit, span in missing:
            index = self.units.insert(replace(unit, copied_at_ms=now_ms))
            self.cache.copy_in(self.slot, self.units.start(index), span)
            self.input.follow(unit.at_ms)

    def _holds(self, unit: Unit, span: KVSpan) -> bool:
        """Whether this very unit is in the context: those of two sessions may share name and time, never values."""
        for index, other in enumerate(self.units):
            if (other.id, other.at_ms, other.length) == (unit.id, unit.at_ms, unit.length):
                start = self.units.start(index)
                if torch.equal(self.cache.copy_out(self.slot, start, start + unit.length).v, span.v):
                    return True
        return False

    # -- state ------------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """As new: a session must be prepared again."""
        self._begin()
        self.input.reset()
        self.voice.reset()

    def snapshot(self) -> dict[str, Any]:
        """The state between two units: tensors on the CPU, numbers and texts, in dicts and lists.

        Nothing is computed for it, unless the unit was left unclosed (see :meth:`finalise`).
        """
        self.finalise()
        draws = self._draws.snapshot() if isinstance(self._draws, SeededDraws) else None
        return {
            "cache": self.cache.snapshot(self.slot),
            "units": self.units.snapshot(),
            "text": self.text.snapshot(),
            "memory": self.memory.snapshot(),
            "input": self.input.snapshot(),
            "voice": self.voice.snapshot(),
            "draws": draws,
            "carry": list(self._carry),
            "broken": self._broken,
            "next_id": self._next_id,
            "generated": self._generated,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot, in a session that was prepared with the same prompt and voice."""
        self._begin()
        self.cache.restore(snapshot["cache"], self.slot)
        self.units.restore(snapshot["units"])
        self.text.restore(snapshot["text"])
        self.memory.restore(snapshot["memory"], self.model.device)
        self.input.restore(snapshot["input"])
        self.voice.restore(snapshot["voice"], self._draws)
        if isinstance(self._draws, SeededDraws) and snapshot["draws"] is not None:
            self._draws.restore(snapshot["draws"])
        self._carry = [int(token) for token in snapshot["carry"]]
        self._broken = bool(snapshot["broken"])
        self._next_id = int(snapshot["next_id"])
        self._generated = int(snapshot["generated"])


def _bounded(policy: Policy, capacity: int) -> Policy:
    """The default policy also makes room before the cache is full, for more than a unit at a time."""
    if not isinstance(policy, Recent):
        return policy
    high = policy.high or capacity - capacity // 8
    return policy.model_copy(update={"high": high, "low": policy.low or high - high // 16})
