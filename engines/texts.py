"""Texts that a user or a tool gives to an engine."""

from __future__ import annotations

from .base import EngineError


def fitting(text: str, most: int) -> str:
    """``text`` without the space around it.

    Raises :class:`EngineError` for more than ``most`` characters, and not by an event: whoever shows what was typed
    must not take it for accepted.
    """
    stripped = text.strip()
    if len(stripped) > most:
        raise EngineError(f"a text has at most {most} characters here; this one was not taken")
    return stripped
