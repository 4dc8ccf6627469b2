"""The reply model for LiveKit: Qwen2.5 1.5B (or 0.5B, where memory is short) on the CPU."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from ....engines.base import MissingExtra
from ....engines.cascade.facts import local_clock
from ....engines.cascade.parts import Message
from ....engines.cascade.prompt import Brief, opening
from ....engines.cascade.settings import CascadeSettings
from . import parts as engine_parts
from .bases import Events, ReplyStream, api_errors
from .lanes import Lane, Lanes
from .parts import LOADING_S, Parts, PromptTooLong, Usage, need

try:
    from livekit.agents import DEFAULT_API_CONNECT_OPTIONS, NOT_GIVEN, APIConnectOptions, NotGivenOr, llm, utils
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

from .chat import Line, fitted, has_pictures, last_language, lines_of

_log = logging.getLogger(__name__)

_TEMPLATE_TOKENS: Final = 64
"""Left free for the marks around the messages."""
_GENERATING_S: Final = 300.0
"""Deadline of a reply, waiting for others included, beside that of the loading."""


class LLM(llm.LLM[Events]):
    """Answers a chat context, one at a time; others wait their turn.

    ``max_tokens`` bounds a reply (the setting ``cascade.max_tokens`` when it is ``None``).  It calls no tools and sees
    no pictures, and says so once in the log when it is given some.  Without instructions in the context it gets those
    of the cascade.  Raises :class:`MissingExtra` without the ``local`` extra; what fails later is an ``APIError``.
    """

    def __init__(self, *, max_tokens: int | None = None, parts: Parts | None = None) -> None:
        need(__name__, "xllamacpp")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens must be positive, not {max_tokens}")
        super().__init__()
        self.max_tokens = max_tokens
        self.parts = parts or engine_parts.shared()
        self.lanes = Lanes("venus-llm")
        self._warned: set[str] = set()

    @property
    def model(self) -> str:
        """Of the two sizes the one that was loaded; only the family before that."""
        return self.parts.model().name if self.parts.model.ready else "qwen2.5-coder"

    @property
    def provider(self) -> str:
        return "realtime-venus"

    def prewarm(self, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin to load the model, without waiting; ``loop`` is not needed."""
        engine_parts.prewarm(self.parts.model, "llm")

    def chat(
        self,
        *,
        chat_ctx: llm.ChatContext,
        tools: list[llm.Tool] | None = None,
        conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS,
        parallel_tool_calls: NotGivenOr[bool] = NOT_GIVEN,
        tool_choice: NotGivenOr[llm.ToolChoice] = NOT_GIVEN,
        extra_kwargs: NotGivenOr[dict[str, Any]] = NOT_GIVEN,
    ) -> llm.LLMStream:
        """Begin a reply.  Tools, and how they should be chosen, are left aside with a warning; so is
        ``extra_kwargs``."""
        if tools:
            self._warn("tools were given to a model that cannot call any: it answers without them", count=len(tools))
        if has_pictures(chat_ctx):
            self._warn("pictures were given to a model that cannot see: it answers without them")
        if utils.is_given(extra_kwargs) and extra_kwargs:
            self._warn("extra arguments were given to a model that knows none", names=sorted(extra_kwargs))
        return _Stream(self, chat_ctx=chat_ctx, tools=tools or [], conn_options=conn_options)

    async def aclose(self) -> None:
        """Break off the replies being written and wait for their threads.  The model stays loaded."""
        await self.lanes.aclose()
        await super().aclose()

    def _warn(self, message: str, **extra: object) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _log.warning(message, extra=extra)


class _Stream(ReplyStream):
    def __init__(
        self, owner: LLM, *, chat_ctx: llm.ChatContext, tools: list[llm.Tool], conn_options: APIConnectOptions
    ) -> None:
        self._owner = owner
        super().__init__(owner, chat_ctx=chat_ctx, tools=tools, conn_options=conn_options)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        request = utils.shortuuid("chat_")

        def say(piece: str) -> None:
            delta = llm.ChoiceDelta(role="assistant", content=piece)
            loop.call_soon_threadsafe(self.emit, llm.ChatChunk(id=request, delta=delta))

        with api_errors("writing a reply"), self._owner.lanes.open() as lane:
            usage = await lane.run(lambda: self._write(lane, say), LOADING_S + _GENERATING_S)
        if usage is not None:
            self.emit(llm.ChatChunk(id=request, usage=_completion_usage(usage)))

    def _write(self, lane: Lane, say: Callable[[str], None]) -> Usage | None:
        parts = self._owner.parts
        settings = parts.settings()
        model = parts.model()
        most = min(self._owner.max_tokens or settings.max_tokens, model.context_tokens // 2)
        room = model.context_tokens - most - _TEMPLATE_TOKENS

        def on_text(piece: str) -> bool:
            if not lane.left:
                say(piece)
            return lane.left

        def answer(room: int) -> Usage | None:
            messages = _messages(self.chat_ctx, settings, room)
            return model.answer(messages, on_text, max_tokens=most, cancelled=lambda: lane.left)

        try:
            return answer(room)
        except PromptTooLong:
            # What is fitted is an estimate; rare scripts and symbols take more tokens than it thinks.
            return answer(room // 2)


def _messages(context: llm.ChatContext, settings: CascadeSettings, room: int) -> Sequence[Message]:
    lines = lines_of(context)
    if any(line.pinned for line in lines):
        return fitted(lines, room)
    brief = Brief(settings.persona, settings.system_prompt, settings.facts)
    before = opening(brief, last_language(lines), local_clock())
    return fitted([*(Line(message, pinned=True) for message in before), *lines], room)


def _completion_usage(usage: Usage) -> llm.CompletionUsage:
    return llm.CompletionUsage(
        completion_tokens=usage.completion,
        prompt_tokens=usage.prompt,
        prompt_cached_tokens=usage.cached,
        total_tokens=usage.prompt + usage.completion,
    )
