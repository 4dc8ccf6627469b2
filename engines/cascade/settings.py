"""Settings of the cascade engine (section ``cascade``)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .facts import clean_facts
from .prompt import LONGEST_INSTRUCTION


class EndpointSettings(BaseModel):
    """When the user's turn is taken to be over.  All times are silence since the user's last sound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partial_every_ms: int = Field(default=500, ge=200, le=5000)
    """A partial transcript at most this often while the user speaks."""
    final_every_ms: int = Field(default=300, ge=100, le=2000)
    """A transcript of a possible end of turn at most this often."""
    quiet_ms: int = Field(default=40, ge=20, le=400)
    """Quiet after which the transcript of a possible end is begun."""
    sound_probability: float = Field(default=0.5, ge=0, le=1)
    """End-of-turn probability by sound that is needed, short of the cap."""
    again_ms: int = Field(default=200, ge=100, le=2000)
    """A turn that did not sound finished is judged again after this much more silence."""
    least_silence_ms: int = Field(default=240, ge=100, le=2000)
    """Silence after which a turn that is surely complete ends."""
    doubt_silence_ms: int = Field(default=1500, ge=0, le=5000)
    """Silence added in proportion to how incomplete the words are."""
    doubtful_sound_ms: int = Field(default=1000, ge=100, le=5000)
    """Silence after which a whole question ends that does not sound finished."""
    cap_ms: int = Field(default=1800, ge=300, le=10_000)
    """Silence after which the turn ends whatever it sounds like."""


class OverlapSettings(BaseModel):
    """What user speech over the agent counts as."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    yield_ms: int = Field(default=500, ge=100, le=5000)
    """Confirmed user speech of this length takes the floor."""
    ended_ms: int = Field(default=300, ge=100, le=2000)
    """Silence after which an overlap is over."""
    same_turn_ms: int = Field(default=1500, ge=0, le=10_000)
    """An answer of which less than this was heard leaves the user's turn open: what follows belongs to it."""


class CascadeSettings(BaseModel):
    """The offline voice stack."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit_ms: Literal[100, 120, 160, 200] = 100
    max_sessions: int = Field(default=2, ge=1, le=16)
    threads: int = Field(default=0, ge=0, le=64)
    """Threads for the language model and the voices; 0 takes the cores of the machine, two at most."""
    max_tokens: int = Field(default=160, ge=16, le=1024)
    """Longest reply, in tokens."""
    context_tokens: int = Field(default=2048, ge=512, le=32_768)
    """Context of the language model per session, in tokens."""
    temperature: float = Field(default=0.2, ge=0, le=2)
    first_clause_words: int = Field(default=5, ge=4, le=12)
    """Longest first clause in English, in words."""
    first_clause_chars: int = Field(default=8, ge=3, le=20)
    """Longest first clause in Chinese, in characters."""
    facts: tuple[str, ...] = ()
    """Statements the engine may repeat as true, for every session."""
    persona: str | None = Field(default=None, max_length=LONGEST_INSTRUCTION)
    """Who the agent is."""
    system_prompt: str | None = Field(default=None, max_length=LONGEST_INSTRUCTION)
    """Instructions beside the engine's own rules."""
    model: Literal["auto", "1.5b", "0.5b"] = "auto"
    """The language model; ``auto`` takes the 0.5B only when memory is short."""
    world_threshold: float = Field(default=0.5, ge=0, le=1)
    """Probability from which a question is taken to need something the engine cannot know."""
    endpoint: EndpointSettings = EndpointSettings()
    overlap: OverlapSettings = OverlapSettings()

    @field_validator("facts")
    @classmethod
    def _facts_are_within_limits(cls, facts: tuple[str, ...]) -> tuple[str, ...]:
        return clean_facts(facts)
