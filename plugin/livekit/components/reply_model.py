"""The cascade's language model for conversations that are given whole each time, as LiveKit gives them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, cast

from ....engines.base import EngineError
from ....engines.cascade.chatml import chatml
from ....engines.cascade.llm import LlamaOptions, LlamaReplyModel, NativeModel
from ....engines.cascade.loading import threads_for
from ....engines.cascade.model_size import choose_model
from ....engines.cascade.parts import Message
from ....engines.cascade.settings import CascadeSettings
from ....engines.machine import available_memory
from ....engines.store import Store
from .parts import PromptTooLong, Usage

_MOST_OF_IT: Final = 0.8
"""A prompt that has so much of another one goes on with it: the end of a turn may have been said otherwise."""

_TOO_LONG: Final = "exceeds the available context size"
"""How llama.cpp says it."""

_Chunk = Mapping[str, object]


class _Counted:
    """The native model, which also remembers for each calling thread what its last call used."""

    def __init__(self, native: NativeModel) -> None:
        self._native = native
        self._told = threading.local()

    def handle_completions(self, request: _Chunk, on_chunk: Callable[[_Chunk], bool]) -> object:
        self._told.usage = None

        def counted(chunk: _Chunk) -> bool:
            # The last chunk of a generation that was not broken off has it.
            if isinstance(usage := chunk.get("usage"), dict):
                self._told.usage = _usage(cast(dict[str, object], usage))
            return on_chunk(chunk)

        return self._native.handle_completions(request, counted)

    @property
    def usage(self) -> Usage | None:
        """Of the last call of this thread."""
        return getattr(self._told, "usage", None)


class SlotChoice:
    """Which of the model's slots a prompt should go to: the one whose last prompt it continues.

    Safe from any thread.  A prompt that continues none takes the slot unused for longest, although another one may know
    its instructions: that belongs to a conversation that would have to be read again.
    """

    def __init__(self, slots: int) -> None:
        self._remembered = [""] * slots
        self._order = list(range(slots))
        self._lock = threading.Lock()

    def choose(self, prompt: str) -> int:
        """The slot, which remembers this prompt from now on."""
        with self._lock:
            shared = {slot: _shared(self._remembered[slot], prompt) for slot in self._order}
            going_on = [slot for slot in self._order if shared[slot] > _MOST_OF_IT * len(self._remembered[slot])]
            best = max(going_on, key=lambda slot: shared[slot]) if going_on else self._order[0]
            self._order.remove(best)
            self._order.append(best)
            self._remembered[best] = prompt
            return best


class CountingReplyModel(LlamaReplyModel):
    """An :class:`~.parts.AnswerModel`.  Raises :class:`EngineError` when the file is missing or damaged."""

    def __init__(self, path: Path, options: LlamaOptions) -> None:
        super().__init__(path, options)
        self.name = path.stem
        self.context_tokens = options.context_tokens
        self._slots = SlotChoice(options.slots)
        if self._native is None:
            raise EngineError("the language model is closed")
        self._native = self._counted = _Counted(self._native)

    def answer(
        self,
        messages: Sequence[Message],
        on_text: Callable[[str], bool],
        *,
        max_tokens: int,
        cancelled: Callable[[], bool],
    ) -> Usage | None:
        """See :class:`~.parts.AnswerModel`."""
        prompt = chatml(messages)
        try:
            self._complete(self._slots.choose(prompt), prompt, max_tokens, on_text, cancelled)
        except EngineError as error:
            if _TOO_LONG in str(error):
                raise PromptTooLong(str(error)) from error
            raise
        return self._counted.usage


def load_model(settings: CascadeSettings, store: Store) -> CountingReplyModel:
    """Load the model that the settings name and the memory allows; blocks for some seconds.

    Raises :class:`~....engines.base.NotEnoughMemory` and, for a file that is missing or damaged, :class:`EngineError`.
    """
    size = choose_model(available_memory(), settings.model)
    options = LlamaOptions(
        slots=settings.max_sessions,
        context_tokens=settings.context_tokens,
        threads=threads_for(settings),
        temperature=settings.temperature,
    )
    return CountingReplyModel(store.path(size.file), options)


def _usage(told: Mapping[str, object]) -> Usage:
    details = cast(Mapping[str, object], told.get("prompt_tokens_details") or {})
    return Usage(
        prompt=_count(told, "prompt_tokens"),
        cached=_count(details, "cached_tokens"),
        completion=_count(told, "completion_tokens"),
    )


def _count(told: Mapping[str, object], name: str) -> int:
    value = told.get(name)
    return value if isinstance(value, int) else 0


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
