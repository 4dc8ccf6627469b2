"""The only file of the components that touches names livekit-agents keeps private.

Streams of LiveKit's classes are filled and read through channels whose names begin with an underscore; every plugin
uses them, and none is documented.  The release is checked when the package is imported, see :mod:`..compat`; what is
relied on is observed by ``tests/contract/test_livekit_components.py`` (livekit-agents 1.8.9).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any, Literal

from ....engines.base import MissingExtra, VenusError

try:
    from livekit import rtc
    from livekit.agents import APIConnectOptions, APIError, APITimeoutError, llm, tts, vad
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error


Events = Literal["metrics_collected", "error"]
"""What our components emit, for the type arguments of their base classes."""


@contextmanager
def api_errors(doing: str) -> Generator[None]:
    """Turn our errors into LiveKit's.  None is worth a retry: the same model would fail at the same words.

    :class:`~....engines.base.MissingExtra` goes through as it is.
    """
    try:
        yield
    except MissingExtra:
        raise
    except TimeoutError as error:
        raise APITimeoutError(f"{doing} took too long: is the machine overloaded?", retryable=False) from error
    except (VenusError, ValueError) as error:
        raise APIError(str(error), retryable=False) from error


class ReplyStream(llm.LLMStream):
    """An ``LLMStream`` that is filled by :meth:`emit`."""

    def __init__(
        self, owner: llm.LLM[Any], *, chat_ctx: llm.ChatContext, tools: list[llm.Tool], conn_options: APIConnectOptions
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - its argument lacks a type argument
            owner, chat_ctx=chat_ctx, tools=tools, conn_options=conn_options
        )

    def emit(self, chunk: llm.ChatChunk) -> None:
        """Hand a chunk to whoever reads the stream; nothing when nobody does any more."""
        if not self._event_ch.closed:
            self._event_ch.send_nowait(chunk)


class WholeTextStream(tts.ChunkedStream):
    """A ``ChunkedStream``."""

    def __init__(self, owner: tts.TTS[Any], *, input_text: str, conn_options: APIConnectOptions) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - its argument lacks a type argument
            tts=owner, input_text=input_text, conn_options=conn_options
        )


class TextStream(tts.SynthesizeStream):
    """A ``SynthesizeStream`` whose text is read by :meth:`pieces`."""

    def __init__(self, owner: tts.TTS[Any], *, conn_options: APIConnectOptions) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - its argument lacks a type argument
            tts=owner, conn_options=conn_options
        )

    async def pieces(self) -> AsyncIterator[str | None]:
        """The text as it comes; ``None`` where it was flushed, and the end when there will be no more."""
        async for piece in self._input_ch:
            yield piece if isinstance(piece, str) else None

    def begun(self) -> None:
        """The first words go to the voice now; LiveKit's time to the first byte counts from here."""
        self._mark_started()


class DetectorStream(vad.VADStream):
    """A ``VADStream`` whose audio is read by :meth:`frames` and whose events are sent by :meth:`emit`."""

    async def frames(self) -> AsyncIterator[rtc.AudioFrame | None]:
        """The audio as it comes; ``None`` where it was flushed, and the end when there will be no more."""
        async for frame in self._input_ch:
            yield frame if isinstance(frame, rtc.AudioFrame) else None

    def emit(self, event: vad.VADEvent) -> None:
        """Hand an event to whoever reads the stream."""
        if not self._event_ch.closed:
            self._event_ch.send_nowait(event)

    @abstractmethod
    async def detect(self) -> None:
        """Read :meth:`frames` and :meth:`emit` until they end."""

    async def _main_task(self) -> None:
        await self.detect()
