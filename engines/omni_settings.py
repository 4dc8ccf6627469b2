"""Settings of the omni engine (section ``omni``).  Needs none of the packages that the network needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .base import EngineError

Device = Literal["auto", "cpu", "cuda"]
DType = Literal["auto", "float32", "bfloat16", "float16"]

M = TypeVar("M", bound=BaseModel)

_MARKS: Final = 16
"""Positions of what is heard in a second, and of the marks around it."""
_PICTURE: Final = 66
"""Positions of a picture, or of a part of one, with its marks."""
_PROMPT: Final = 256
"""About the positions of a prompt with the longest reference voice."""


class DecodingSettings(BaseModel):
    """How tokens are drawn; the defaults are those of the published web demo."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["sampling", "greedy"] = "sampling"
    temperature: float = Field(default=0.7, gt=0, le=5)
    top_k: int = Field(default=20, ge=0, le=1000)
    """Tokens that stay in the draw; 0 keeps all."""
    top_p: float = Field(default=0.8, gt=0, le=1)
    repetition_penalty: float = Field(default=1.05, gt=0, le=5)
    repetition_window: int = Field(default=512, ge=0, le=8192)
    """Generated tokens that the repetition penalty looks back on."""
    length_penalty: float = Field(default=0.8, ge=0.1, le=5)
    """Below 1 turns end sooner, above 1 later."""
    listen_prob_scale: float = Field(default=1.0, ge=0, le=10)
    tokens_per_unit: int = Field(default=50, ge=2, le=200)
    """Tokens the network may generate in one second, its decision and the end of the second included."""


class ContextSettings(BaseModel):
    """What is forgotten so that a conversation may last."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Literal["time", "basic", "context", "off"] = "time"
    """``time``: units older than ``window_s`` go.  ``basic``: beyond ``high`` positions the oldest go down to ``low``.
    ``context``: beyond ``units`` the oldest go, their words stay.  ``off``: the session ends when the cache is full.
    What is kept and one more unit must fit into ``positions``."""
    window_s: int = Field(default=120, ge=5, le=3600)
    high: int = Field(default=8000, ge=128)
    low: int = Field(default=6000, ge=64)
    units: int = Field(default=24, ge=2, le=4096)
    previous_tokens: int = Field(default=500, ge=0, le=8192)
    """Tokens of the agent's own earlier words that the policy ``context`` keeps."""


class OmniSettings(BaseModel):
    """The published network (Realtime-Venus, MiniCPM-o 4.5) as an engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Path | None = None
    """Folder of the checkpoint; without it the one that ``venus models pull omni`` (or ``audio``) brought."""
    device: Device = "auto"
    """``auto`` takes a CUDA device where there is one."""
    dtype: DType = "auto"
    """Of the weights and caches; ``auto`` is bfloat16 on CUDA and float32 on the CPU."""
    behaviour: Literal["venus", "hub", "demo"] = "venus"
    """``venus`` mends what the reference codes get wrong; the other two reproduce them."""
    max_sessions: int = Field(default=1, ge=1, le=64)
    positions: int = Field(default=12_288, ge=256, le=40_960)
    """Capacity of a session's cache, in positions of the network."""
    voice: Path | None = None
    """A recording of 3 to 15 seconds whose voice the agent takes; without it the checkpoint's own."""
    system_prompt: str = Field(default="Streaming Omni Conversation.", min_length=1, max_length=4000)
    """The released checkpoints were trained with this one alone."""
    facts_in_prompt: bool = False
    """Put a session's persona and facts behind the prompt.  The released checkpoints were not trained for it."""
    backend: Literal["text_unit", "media_unit"] = "text_unit"
    """Where a background result goes: into a unit of its own, or beside the media of the next one."""
    forced_listens: int = Field(default=0, ge=0, le=60)
    """Units at the beginning of a session in which the agent only listens."""
    max_slices: int = Field(default=1, ge=1, le=9)
    """Parts that a picture may be cut into, each of which costs 64 positions."""
    flow_steps: int = Field(default=10, ge=1, le=50)
    """Steps of the speech's flow model: fewer are quicker and rougher."""
    overlap_units: int = Field(default=0, ge=0, le=20)
    """Units that the audio encoder hears again when its memory of 30 seconds is full; the published codes hear none."""
    seed: int = Field(default=0, ge=0)
    """Of every random draw: tokens and codes of a session, and, with ``venus``, the noise of the speech decoder, so
    that the same input gives the same sound.  The other behaviours draw the noise afresh, as the published codes do."""
    close_timeout_s: float = Field(default=5.0, ge=0.1, le=60)
    """How long a session that is closed may still compute."""
    decoding: DecodingSettings = DecodingSettings()
    context: ContextSettings = ContextSettings()

    @property
    def unit_positions(self) -> int:
        """Positions that a second takes at most: what is heard, a picture with its parts, and what is said."""
        pictures = 1 if self.max_slices == 1 else 1 + self.max_slices
        return _MARKS + pictures * _PICTURE + self.decoding.tokens_per_unit

    @model_validator(mode="after")
    def _fits(self) -> OmniSettings:
        context, unit, name = self.context, self.unit_positions, "VENUS_OMNI__CONTEXT__"
        if context.policy == "basic":
            if context.low >= context.high:
                raise ValueError(f"{name}LOW ({context.low}) must lie below {name}HIGH ({context.high})")
            if context.high + unit > self.positions:
                raise ValueError(
                    f"{name}HIGH ({context.high}) and a second more ({unit}) do not fit into VENUS_OMNI__POSITIONS "
                    f"({self.positions}): {name}HIGH may be {max(self.positions - unit, 0)} at most"
                )
        if context.policy == "context":
            needed = _PROMPT + context.previous_tokens + (context.units + 1) * unit
            if needed > self.positions:
                raise ValueError(
                    f"{name}UNITS ({context.units}) seconds of {unit} positions, the prompt and "
                    f"{name}PREVIOUS_TOKENS ({context.previous_tokens}) need VENUS_OMNI__POSITIONS={needed}, and it is "
                    f"{self.positions}: keep less, or have more positions"
                )
        return self


def overridden(settings: M, **values: object) -> M:
    """``settings`` with the options of a command line; ``None`` leaves a value as it is.

    Raises :class:`~.base.EngineError`.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return type(settings).model_validate({**dict(settings), **given})
    except ValidationError as error:
        raise EngineError("; ".join(_complaints(error))) from None


def _complaints(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_input=False):
        where = "".join(f"{name}: " for name in [".".join(map(str, one["loc"]))] if name)
        yield where + one["msg"].removeprefix("Value error, ")
