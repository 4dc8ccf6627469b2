"""How a duplex session behaves: as one of the two published reference codes, or as ``venus``.

``hub`` and ``demo`` follow the two published codes of the MiniCPM-o 4.5 layout in everything that can be measured and
exist for comparison.  ``venus``, the default, keeps what the checkpoints were trained for and mends what is a fault in
both.  All that differs between the three is a field of :class:`Rules` or a default of :class:`Decoding`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from .sampler import SamplerSettings


class Behaviour(StrEnum):
    """Whose behaviour a session has."""

    HUB = "hub"
    DEMO = "demo"
    VENUS = "venus"


class Closing(StrEnum):
    """How the terminator of a unit and ``</unit>`` reach the thinker."""

    AT_ONCE = "at_once"
    """In two forwards at the end of :meth:`~.duplex.Duplex.generate`."""
    ON_CALL = "on_call"
    """In one forward, when :meth:`~.duplex.Duplex.finalise` is called."""
    RIDING = "riding"
    """In front of the next unit's prefill, without a forward of their own."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs between the behaviours, one field for each thing."""

    closing: Closing
    flush_always: bool
    """Render whatever the code buffer holds above the minimum in every chunk, not only in the first of a turn."""
    silence_when_listening: bool
    """A listening unit returns one second of zeros instead of nothing."""
    silence_when_empty: bool
    """A speaking unit in which no window was rendered returns one second of zeros instead of nothing."""
    forced_listen_resets_talker: bool
    """A forced listen forgets the talker's part of the turn too, not only that of token2wav."""
    listen_after_turn_ends_it: bool
    """``<|listen|>`` right after ``<|turn_eos|>`` ends the turn; otherwise the unit counts as listening, and what it
    said is lost."""
    drain_chunks: int
    """How many more chunks the talker may make after the turn has ended, until it has said everything."""
    decision_after_text: bool
    """Text in a unit with media takes part in that unit's first decision; otherwise the decision falls before it."""
    failed_unit_leaves_mark: bool
    """A unit whose audio is too short leaves ``<unit>`` behind in the context."""
    break_closes_turn: bool
    """A break closes the turn in the context with the next unit; otherwise units are skipped until it is lifted."""
    quiet_outside_turns: bool
    """A unit that ends at once while no turn is open is silent; otherwise the talker speaks without words, and the next
    turn goes on from there."""
    private_spans: bool
    """``<delegate>`` spans are neither shown nor voiced, and text leaves while it is generated."""
    clear_encoder_at_start: bool
    """A new session begins with an empty audio-encoder cache."""
    stale_mel_floor: bool
    """The log floor of the last session's audio is used for the next one's reference voice."""
    visible_padding: bool
    """Recordings encoded together see part of the padding of the shorter ones."""
    seeded_noise: bool
    """The noise of the speech decoder follows from the seed, so that a session can be repeated; otherwise it is drawn
    afresh (:mod:`~.noises`)."""
    frozen_conformer: bool
    """The first conformer stage of token2wav keeps the oldest context instead of the newest when it is trimmed."""


_HUB: Final = Rules(
    closing=Closing.AT_ONCE,
    flush_always=False,
    silence_when_listening=True,
    silence_when_empty=False,
    forced_listen_resets_talker=False,
    listen_after_turn_ends_it=False,
    drain_chunks=0,
    decision_after_text=False,
    failed_unit_leaves_mark=True,
    break_closes_turn=False,
    quiet_outside_turns=False,
    private_spans=False,
    clear_encoder_at_start=False,
    stale_mel_floor=True,
    visible_padding=True,
    seeded_noise=False,
    frozen_conformer=True,
)
_DEMO: Final = replace(_HUB, closing=Closing.ON_CALL, flush_always=True, silence_when_empty=True)
_VENUS: Final = Rules(
    closing=Closing.RIDING,
    flush_always=False,
    silence_when_listening=False,
    silence_when_empty=False,
    forced_listen_resets_talker=True,
    listen_after_turn_ends_it=True,
    drain_chunks=8,
    decision_after_text=True,
    failed_unit_leaves_mark=False,
    break_closes_turn=True,
    quiet_outside_turns=True,
    private_spans=True,
    clear_encoder_at_start=True,
    stale_mel_floor=False,
    visible_padding=False,
    seeded_noise=True,
    frozen_conformer=False,
)

RULES: Final = {Behaviour.HUB: _HUB, Behaviour.DEMO: _DEMO, Behaviour.VENUS: _VENUS}


class Decoding(BaseModel):
    """How the text of a unit is decoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sampler: SamplerSettings
    max_tokens: PositiveInt
    """Steps of a unit, the first decision and the closing ``<|chunk_eos|>`` included."""
    max_characters: PositiveInt | None = None
    """A token with which the text of the unit would reach this many characters is rejected, and the unit ends."""
    initial_listens: int = Field(default=0, ge=0)
    """The first so many units of a session listen, whatever the model decides."""

    @classmethod
    def of(cls, behaviour: Behaviour) -> Decoding:
        """The defaults: those of the published codes, and for ``venus`` those of its published web demo."""
        published = SamplerSettings(
            mode="sampling",
            temperature=0.7,
            top_k=20,
            top_p=0.8,
            repetition_penalty=1.05,
            repetition_window=512,
            signed_repetition=behaviour is Behaviour.VENUS,
            length_penalty=0.8 if behaviour is Behaviour.VENUS else 1.1,
            listen_prob_scale=1.0,
            listen_top_k=None,
            listen_control="listen" if behaviour is Behaviour.VENUS else "im_end",
        )
        return cls(
            sampler=published,
            max_tokens=50 if behaviour is Behaviour.VENUS else 20,
            max_characters=28 if behaviour is Behaviour.DEMO else None,
        )
