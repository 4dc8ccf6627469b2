"""The reply model: a Qwen2.5 GGUF in llama.cpp (``xllamacpp``), in this process, one cached prompt prefix a session.

llama.cpp's server core does the work and is called directly; the listener that comes with it is bound to a socket file
in a private folder that is removed at once, so that nothing can connect to it.  A generation or prefill is cancelled
from the callback that llama.cpp asks for every token.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from ..base import EngineError, MissingExtra
from .chatml import chatml
from .parts import CLOSE_S, Message

_log = logging.getLogger(__name__)

# Two threads meet at hundreds of barriers a token.  By default OpenMP spins at each for some ten milliseconds before it
# lets go of the core: when something else holds the second core, a token takes seconds.  Read once, when the OpenMP
# library is loaded; a value set by the user stands.
os.environ.setdefault("GOMP_SPINCOUNT", "5000")

try:
    import xllamacpp
except ImportError as error:
    raise MissingExtra(__name__, "local") from error

GGUF = b"GGUF"


class _Cores(Protocol):
    n_threads: int
    poll: int


class _Model(Protocol):
    path: str


class _Params(Protocol):
    """What is set of ``xllamacpp.CommonParams``."""

    model: _Model
    cpuparams: _Cores
    cpuparams_batch: _Cores
    n_parallel: int
    n_ctx: int
    verbosity: int
    cache_ram_mib: int
    n_ctx_checkpoints: int
    fit_params: bool
    ui: bool
    endpoint_slots: bool
    endpoint_metrics: bool
    n_threads_http: int
    hostnames: list[str]


class NativeModel(Protocol):
    """What is used of ``xllamacpp.Server`` once it runs."""

    def handle_completions(
        self, request: Mapping[str, object], on_chunk: Callable[[Mapping[str, object]], bool]
    ) -> object: ...


class _Server(NativeModel, Protocol):
    """What is used of it at its start as well."""

    def handle_metrics(self) -> object: ...


class _Library(Protocol):
    """What is used of the untyped module ``xllamacpp``."""

    CommonParams: Callable[[], _Params]
    Server: Callable[[_Params], _Server]


_xllamacpp = cast(_Library, xllamacpp)


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """``slots`` sessions at once with ``context_tokens`` each; greedy decoding at temperature 0."""

    slots: int = 1
    context_tokens: int = 2048
    threads: int = 2
    temperature: float = 0.0


class LlamaReplyModel:
    """:class:`~.parts.ReplyModel` over llama.cpp.  Blocks the calling thread; one call at a time runs, others wait.

    Raises :class:`EngineError` when the file is missing, damaged, or no model.
    """

    def __init__(self, path: Path, options: LlamaOptions | None = None) -> None:
        self.options = options or LlamaOptions()
        _check_file(path)
        self._lock = threading.Lock()
        self._closing = False
        self._native: NativeModel | None = _start(path, self.options)

    def prefill(self, slot: int, messages: Sequence[Message], cancelled: Callable[[], bool]) -> None:
        """Run the prompt through the model, the last message left open, so that a longer one finds its prefix cached.

        Cancelled before it begins it does nothing; llama.cpp cannot be stopped inside a batch.
        """
        self._complete(slot, chatml(messages, last_open=True), 1, lambda _piece: True, cancelled)

    def generate(
        self,
        slot: int,
        messages: Sequence[Message],
        on_text: Callable[[str], bool],
        *,
        max_tokens: int,
        prefix: str = "",
    ) -> None:
        """Generate the assistant's next message; ``on_text`` gets each piece and ends the generation by returning true.

        ``prefix`` is what the assistant has already said of this message (generation goes on from there).
        Raises :class:`EngineError` when the prompt is longer than the context of the slot.
        """
        self._complete(slot, chatml(messages, prefix=prefix), max_tokens, on_text, lambda: False)

    def close(self, deadline_s: float = CLOSE_S) -> None:
        """Free the model once a call in progress has ended, which it is told to do at its next token.

        A call that needs longer than ``deadline_s`` (a prefill) frees it at its own end.  May be called repeatedly.
        """
        self._closing = True
        if not self._lock.acquire(timeout=deadline_s):
            _log.warning("the language model is freed when its call has ended", extra={"deadline_s": deadline_s})
            return
        try:
            self._native = None
        finally:
            self._lock.release()

    def _complete(
        self,
        slot: int,
        prompt: str,
        max_tokens: int,
        on_text: Callable[[str], bool],
        cancelled: Callable[[], bool],
    ) -> None:
        if not 0 <= slot < self.options.slots:
            raise ValueError(f"slot {slot} of {self.options.slots}")
        problem = ""

        def on_chunk(chunk: Mapping[str, object]) -> bool:
            nonlocal problem
            if (told := _error_of(chunk)) is not None:
                problem = told
                return True
            text = _text_of(chunk)
            return self._closing or (bool(text) and on_text(text))

        request = {
            "prompt": prompt,
            "max_tokens": max_tokens,
            "id_slot": slot,
            "stream": True,
            "cache_prompt": True,
            "temperature": self.options.temperature,
            "samplers": ["top_k", "temperature"],
            "top_k": 1 if self.options.temperature <= 0 else 20,
            "seed": 1,
        }
        with self._lock:
            if cancelled():
                return
            if self._native is None or self._closing:
                raise EngineError("the language model is closed")
            try:
                self._native.handle_completions(request, on_chunk)
            except RuntimeError as error:
                raise EngineError(f"the language model failed: {error}") from error
            finally:
                if self._closing:
                    self._native = None  # whoever closed it may have given up waiting
        if problem:
            raise EngineError(f"the language model refused the prompt: {problem}")


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF))
    except OSError as error:
        raise EngineError(f"the language model cannot be read: {error}; run `venus models pull`") from error
    if magic != GGUF:
        raise EngineError(f"{path} is no GGUF model file; run `venus models verify`")


def _start(path: Path, options: LlamaOptions) -> NativeModel:
    params = _xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.context_tokens
    params.verbosity = -1
    for cores in (params.cpuparams, params.cpuparams_batch):
        cores.n_threads = options.threads
    # The prompt cache in memory and the context checkpoints copy state that a slot keeps anyway.
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    # Fitting to the memory of devices loads the vocabulary once more (1.4 s) and has nothing to fit on a CPU.
    params.fit_params = False
    params.ui = False
    params.endpoint_slots = False
    params.endpoint_metrics = True
    params.n_threads_http = 1
    with tempfile.TemporaryDirectory(prefix="venus-") as private:
        params.hostnames = [str(Path(private) / "llama.sock")]
        try:
            native = _xllamacpp.Server(params)
        except RuntimeError as error:
            raise EngineError(
                f"{path} could not be loaded as a language model (damaged, or too little memory): {error} "
                "Run `venus models verify`."
            ) from error
    # Freed before its loop has begun to run, it would wait for the loop's end for ever: an answer shows that it runs.
    native.handle_metrics()
    return native


def _error_of(chunk: Mapping[str, object]) -> str | None:
    told = chunk.get("error")
    if told is None:
        return None
    if isinstance(told, dict):
        return str(cast(dict[str, object], told).get("message", "no reason given"))
    return str(told)


def _text_of(chunk: Mapping[str, object]) -> str:
    choices = cast(Sequence[Mapping[str, object]], chunk.get("choices") or ())
    return str(choices[0].get("text") or "") if choices else ""
