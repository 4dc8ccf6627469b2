"""Typed text: the text streams of the topic ``lk.chat``, each a line of chat."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from ..messages import MAX_BYTES
from .sdk import rtc
from .tracks import Spawn

_OPEN, _OPEN_EACH = 8, 2
"""Texts that may be arriving or waiting at a time, of all and of one participant; others are refused and counted."""
_ARRIVE_S = 10.0


class ChatReader:
    """``typed`` gets identity and text of every line, ``refused`` is told of one that is longer than 16 KiB or is one
    too many."""

    def __init__(self, typed: Callable[[str, str], Awaitable[None]], refused: Callable[[], None]) -> None:
        self._typed = typed
        self._refused = refused
        self._spawn: Spawn | None = None
        self._open: Counter[str] = Counter()

    def begin(self, spawn: Spawn) -> None:
        """Start."""
        self._spawn = spawn

    def end(self) -> None:
        """Read nothing more."""
        self._spawn = None

    def opened(self, reader: rtc.TextStreamReader, identity: str) -> None:
        """A stream begins."""
        if self._spawn is None or self._open.total() >= _OPEN or self._open[identity] >= _OPEN_EACH:
            reader.close()
            if self._spawn is not None:
                self._refused()
            return
        self._open[identity] += 1
        self._spawn(self._read(reader, identity), "livekit-chat")

    async def _read(self, reader: rtc.TextStreamReader, identity: str) -> None:
        try:
            text = await self._text(reader)
            if text is not None:
                await self._typed(identity, text)
        finally:
            self._open[identity] -= 1
            self._open += Counter()  # forgets whom nothing is open of

    async def _text(self, reader: rtc.TextStreamReader) -> str | None:
        text, size = "", 0
        try:
            async with asyncio.timeout(_ARRIVE_S):
                async for piece in reader:
                    size += len(piece.encode(errors="surrogatepass"))
                    if size > MAX_BYTES:
                        self._refused()
                        return None
                    text += piece
        except (rtc.StreamError, TimeoutError):
            return None
        finally:
            reader.close()
        return text
