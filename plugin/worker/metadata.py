"""What a job's metadata may say about its conversation: JSON from outside, hostile until checked."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...engines.base import Engine, Language, SessionOptions, VenusError

MAX_BYTES = 65_536
"""Longer metadata is refused unread."""

Fact = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class BadMetadata(VenusError):
    """The metadata of a job cannot be used.  The message never holds what was written there."""


class JobMetadata(BaseModel):
    """``{"language": "en", "voice": "…", "persona": "…", "facts": ["…"]}``; every part may be left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    language: Annotated[Literal["auto", "en", "zh"] | None, Field()] = None
    """``auto``, like leaving it out, follows the user."""
    voice: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """One of the engine's voices; ``auto`` is the default one of the language spoken."""
    persona: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)] | None = None
    facts: Annotated[list[Fact], Field(max_length=200)] = []
    """What the agent may state as true."""


def parse(text: str) -> JobMetadata:
    """The metadata of a job; nothing at all is fine.  Raises :class:`BadMetadata`."""
    if not text.strip():
        return JobMetadata()
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise BadMetadata(f"the job's metadata is longer than {MAX_BYTES} bytes")
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMetadata("the job's metadata is not JSON") from None
    if not isinstance(content, dict):
        raise BadMetadata("the job's metadata is not a JSON object")
    try:
        return JobMetadata.model_validate(cast(dict[str, Any], content))
    except ValidationError as error:
        raise BadMetadata(f"the job's metadata cannot be used: {_complaints(error)}") from None


def session_options(metadata: JobMetadata, engine: Engine) -> SessionOptions:
    """What to open a session of ``engine`` with.  Raises :class:`BadMetadata` for what the engine does not have."""
    language = None if metadata.language in (None, "auto") else Language(metadata.language)
    voice = None if metadata.voice == "auto" else metadata.voice
    able = engine.capabilities
    if language is not None and language not in engine.languages:
        raise BadMetadata(f"the engine does not speak the language asked for; it speaks {', '.join(engine.languages)}")
    if voice is not None and not any(voice in names for names in engine.voices.values()):
        raise BadMetadata("the engine has no voice of the name asked for")
    if metadata.persona is not None and not able.persona:
        raise BadMetadata("the engine takes no persona")
    if metadata.facts and not able.facts:
        raise BadMetadata("the engine takes no facts")
    return SessionOptions(language=language, voice=voice, persona=metadata.persona, facts=tuple(metadata.facts))


def _complaints(error: ValidationError) -> str:
    """Which parts, and what is wrong with them; unknown names are not repeated, since anybody may have written them."""
    said: list[str] = []
    for one in error.errors(include_input=False, include_url=False, include_context=False):
        where, message = one["loc"], one["msg"]
        if one["type"] == "extra_forbidden":
            message = f"only {', '.join(JobMetadata.model_fields)} are known"
        else:
            message = f"{'.'.join(str(part) for part in where)}: {message}"
        if message not in said:
            said.append(message)
    return "; ".join(said[:5])
