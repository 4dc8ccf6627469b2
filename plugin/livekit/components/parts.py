"""The models behind the components: each is loaded once a process, by whoever needs it first, on a thread.

Nothing heavy is imported here.  A part that failed to load is tried again by the next one who needs it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from ....engines.base import EngineError, MissingExtra, VenusError
from ....engines.cascade.parts import Message, Recogniser
from ....engines.cascade.settings import CascadeSettings

if TYPE_CHECKING:
    from ....engines.cascade.tts.voices import VoiceBook
    from ....engines.silero import SileroModel
    from ....engines.store import Store
    from ...settings import Settings

_log = logging.getLogger(__name__)

T = TypeVar("T")

LOADING_S: Final = 300.0
"""Deadline of the first use, which loads; hashing and loading take some seconds, on a cold disk more."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one generation, as the model counted them; ``cached`` of the prompt's tokens were known already."""

    prompt: int
    cached: int
    completion: int


class PromptTooLong(EngineError):
    """The prompt has more tokens than the context."""


class AnswerModel(Protocol):
    """A language model for any number of conversations; one generation at a time runs, others wait."""

    @property
    def name(self) -> str: ...

    @property
    def context_tokens(self) -> int:
        """Prompt and answer together must fit into this."""
        ...

    def answer(
        self,
        messages: Sequence[Message],
        on_text: Callable[[str], bool],
        *,
        max_tokens: int,
        cancelled: Callable[[], bool],
    ) -> Usage | None:
        """Write the assistant's next message; ``on_text`` gets each piece and ends it by returning true.

        Blocks.  ``cancelled`` is asked before it begins.  Gives the usage, or ``None`` of what was broken off.
        Raises :class:`PromptTooLong` and other :class:`~....engines.base.EngineError`.
        """
        ...

    def close(self) -> None: ...


class Lazy(Generic[T]):
    """A value that is made when it is first asked for, once, whoever asks."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """The value; blocks while it is made.  Raises what making it raises."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]

    @property
    def ready(self) -> bool:
        """Whether it has been made."""
        return bool(self._made)

    def take(self) -> T | None:
        """Give it up, so that it is made anew when it is asked for again."""
        with self._lock:
            return self._made.pop() if self._made else None


@dataclass(frozen=True)
class Parts:
    """What the components share.  Everything in it may be called from any thread."""

    settings: Callable[[], CascadeSettings]
    recogniser: Lazy[Recogniser]
    model: Lazy[AnswerModel]
    voices: Lazy[VoiceBook]
    speech: Lazy[SileroModel]

    def load(self) -> None:
        """Load all of it; blocks for some seconds.  For a process that wants to be ready before its first call.

        Raises :class:`~....engines.base.VenusError`.
        """
        with ThreadPoolExecutor(4, "venus-load") as pool:
            # llama.cpp holds Python's lock while it loads; before that those begin whose libraries let go of it.
            loading = [pool.submit(part) for part in (self.recogniser, self.voices, self.speech, self.model)]
        for one in loading:
            one.result()

    def unload(self) -> None:
        """Free what is loaded; blocks until a generation in progress has ended.  What is needed again loads again."""
        if (model := self.model.take()) is not None:
            model.close()
        self.recogniser.take()
        self.voices.take()
        self.speech.take()


class _FromStore:
    """The parts as the settings of this process describe them."""

    @cached_property
    def settings(self) -> CascadeSettings:
        return self._all.section(CascadeSettings)

    @cached_property
    def store(self) -> Store:
        from ....engines.store import Store
        from ....engines.store.settings import ModelsSettings

        return Store(self._all.section(ModelsSettings))

    @cached_property
    def _all(self) -> Settings:
        from ...settings import load_settings

        return load_settings()

    def recogniser(self) -> Recogniser:
        from ....engines.cascade.asr import WhisperRecogniser

        made = WhisperRecogniser(self.store.path("whisper-base/model.bin").parent)
        made.warm()
        return made

    def model(self) -> AnswerModel:
        from .reply_model import load_model

        return load_model(self.settings, self.store)

    def voices(self) -> VoiceBook:
        from .voices import load_voices

        return load_voices(self.settings, self.store)

    def speech(self) -> SileroModel:
        from ....engines.silero import SileroModel

        return SileroModel()


def make_parts() -> Parts:
    """Parts of one's own, which load what the settings and the model store say, when they are asked for."""
    source = _FromStore()
    return Parts(
        settings=lambda: source.settings,
        recogniser=Lazy(source.recogniser),
        model=Lazy(source.model),
        voices=Lazy(source.voices),
        speech=Lazy(source.speech),
    )


shared = Lazy(make_parts)
"""The parts of this process."""


def need(module: str, *packages: str) -> None:
    """Raise :class:`MissingExtra` for ``module`` unless the packages of the ``local`` extra that it needs are there."""
    if any(find_spec(package) is None for package in packages):
        raise MissingExtra(module, "local")


def prewarm(part: Lazy[T], name: str) -> None:
    """Begin to load, without waiting.  A failure is logged, and met again by whoever uses the part."""
    if part.ready:
        return

    def load() -> None:
        try:
            part()
        except VenusError as error:
            _log.error("a model could not be loaded", extra={"part": name, "reason": str(error)})

    pool = ThreadPoolExecutor(1, f"venus-load-{name}")
    pool.submit(load)
    pool.shutdown(wait=False)
