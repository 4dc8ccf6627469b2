"""Typed text: the text streams of the topic ``lk.chat``, each a line of chat."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..messages import MAX_BYTES
from .sdk import rtc
from .tracks import Spawn

_OPEN = 8
"""Texts that may be arriving at a time; others are refused and counted."""
_ARRIVE_S = 10.0


class ChatReader:
    """``typed`` gets identity and text of every line, ``refused`` is told of one that is longer than 16 KiB."""

    def __init__(self, typed: Callable[[str, str], Awaitable[None]], refused: Callable[[], None]) -> None:
        self._typed = typed
        self._refused = refused
        self._spawn: Spawn | None = None
        self._open = 0

    def begin(self, spawn: Spawn) -> None:
        """Start."""
        self._spawn = spawn

    def end(self) -> None:
        """Read nothing more."""
        self._spawn = None

    def opened(self, reader: rtc.TextStreamReader, identity: str) -> None:
        """A stream begins."""
        if self._spawn is None or self._open >= _OPEN:
            reader.close()
            if self._spawn is not None:
                self._refused()
            return
        self._open += 1
        self._spawn(self._read(reader, identity), "livekit-chat")

    async def _read(self, reader: rtc.TextStreamReader, identity: str) -> None:
        text, size = "", 0
        try:
            async with asyncio.timeout(_ARRIVE_S):
                async for piece in reader:
                    size += len(piece.encode(errors="surrogatepass"))
                    if size > MAX_BYTES:
                        self._refused()
                        return
                    text += piece
        except (rtc.StreamError, TimeoutError):
            return
        finally:
            self._open -= 1
            reader.close()
        await self._typed(identity, text)
