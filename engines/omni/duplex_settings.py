"""Settings of a duplex session."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from .behaviour import Behaviour, Decoding
from .context import Policy, Recent


class DuplexSettings(BaseModel):
    """Settings of one session."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    behaviour: Behaviour = Behaviour.VENUS
    decoding: Decoding | None = None
    """``None``: the behaviour's own."""
    context: Policy = Field(default_factory=Recent)
    positions: PositiveInt = 12_288
    """Capacity of the thinker's cache."""
    speaks: bool = True
    backend: Literal["text_unit", "media_unit"] = "text_unit"
    """Where a background result goes: into a unit of its own, or behind the media of the next one."""
    overlap_units: int = Field(default=0, ge=0)
    """Units the audio encoder hears again when its memory is wiped."""
    seed: int = Field(default=0, ge=0)
