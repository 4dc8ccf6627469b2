"""The threads of one session: each kind of work has its own, and reports back with a message."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from ..base import FloatPcm, Language
from .endpoint import Purpose
from .parts import CLOSE_S, Message, Recogniser, ReplyModel, Transcript, TurnDetector
from .reply import Finished, Piece, Reply, Script

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A transcript is there; ``None`` when it was dropped as stale."""

    job: int
    purpose: Purpose
    end_ms: int
    seconds: float
    transcript: Transcript | None


@dataclass(frozen=True, slots=True)
class Judged:
    """How finished the turn sounds."""

    job: int
    probability: float


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The words so far have been run through the language model."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The chosen voice is ready."""


@dataclass(frozen=True, slots=True)
class Took:
    """A piece of work of this kind took ``ms`` milliseconds."""

    work: str
    ms: float


@dataclass(frozen=True, slots=True)
class Aside:
    """The words of user speech that did not take the floor."""

    start_ms: int
    end_ms: int
    transcript: Transcript | None


@dataclass(frozen=True, slots=True)
class Broken:
    """A worker failed in a way nobody foresaw; ``generation`` is the reply it was for, or -1."""

    work: str
    generation: int
    error: BaseException


Report = Took | Recognised | Judged | Prefilled | Prepared | Aside | Piece | Finished | Broken


_LANGUAGES = tuple(Language)
SLOTS_PER_SESSION = len(_LANGUAGES)


def slot_of(seat: int, language: Language) -> int:
    """The model's slot: each language of a session has one, so that a change costs no second reading."""
    return seat * SLOTS_PER_SESSION + _LANGUAGES.index(language)


class Workers:
    """Runs a session's work and posts a :data:`Report` for each piece of it, from the worker's thread."""

    def __init__(
        self,
        recogniser: Recogniser,
        turns: TurnDetector,
        model: ReplyModel,
        seat: int,
        post: Callable[[Report], None],
    ) -> None:
        self._recogniser, self._turns, self._model, self._seat, self._post = recogniser, turns, model, seat, post
        # Two recognisers: a final transcript must not wait for a partial one that is already stale.
        self._asr = ThreadPoolExecutor(2, "venus-asr")
        self._judge = ThreadPoolExecutor(1, "venus-turn")
        self._writer = ThreadPoolExecutor(1, "venus-llm")
        self._speaker = ThreadPoolExecutor(1, "venus-voice")
        self._running: dict[Future[None], str] = {}
        self._newest_wanted = 0

    def recognise(self, job: int, purpose: Purpose, audio: FloatPcm, end_ms: int, language: Language | None) -> None:
        """Transcribe; a partial transcript is dropped when a later final one is asked for meanwhile."""
        if purpose is not Purpose.PARTIAL:
            self._newest_wanted = job

        def stale() -> bool:
            return purpose is Purpose.PARTIAL and self._newest_wanted > job

        def work() -> None:
            found = self._recogniser.transcribe(audio, language, stale)
            self._post(Recognised(job, purpose, end_ms, len(audio) / 16_000, found))

        self._start(self._asr, "asr", work)

    def aside(self, audio: FloatPcm, start_ms: int, end_ms: int, language: Language | None) -> None:
        """Transcribe for the record only."""
        self._start(
            self._asr, "asr", lambda: self._post(Aside(start_ms, end_ms, self._recogniser.transcribe(audio, language)))
        )

    def judge(self, job: int, audio: FloatPcm) -> None:
        """Ask whether the turn sounds finished."""
        self._start(self._judge, "turn", lambda: self._post(Judged(job, self._turns.probability(audio))))

    def prefill(
        self,
        messages: Callable[[], Sequence[Message]],
        language: Language,
        cancelled: Callable[[], bool],
    ) -> None:
        """Run a prompt whose end is open through the model."""

        def work() -> None:
            if not cancelled():
                self._model.prefill(slot_of(self._seat, language), messages(), cancelled)
            self._post(Prefilled())

        self._start(self._writer, "llm", work)

    def reply(self, reply: Reply, script: Callable[[], Script], max_tokens: int) -> None:
        """Write and speak a reply; ``script`` is made on the writing thread."""

        def write() -> None:
            if not reply.cancelled:
                made = script()
                reply.write(made, self._model, slot_of(self._seat, made.language), max_tokens)
            else:
                reply.abandon()

        self._start(self._writer, "llm", write, reply)
        self._start(self._speaker, "voice", reply.speak, reply)

    def prepare(self, ready: Callable[[], None]) -> None:
        """Run ``ready`` before the next word is voiced: a voice was chosen."""

        def work() -> None:
            ready()
            self._post(Prepared())

        self._start(self._speaker, "voice", work)

    def close(self, deadline_s: float = CLOSE_S) -> None:
        """Stop taking work and wait for what runs; blocks, at most for ``deadline_s``.

        What has not ended by then is left to itself: its thread ends when its native call returns.
        """
        pools = (self._asr, self._judge, self._writer, self._speaker)
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        running = wait(list(self._running), deadline_s).not_done
        if running:
            work = sorted(self._running.get(future, "ended") for future in running)
            _log.warning("work that does not end in time is left to itself", extra={"work": work})
            return
        for pool in pools:
            pool.shutdown(wait=True)

    def _start(self, pool: ThreadPoolExecutor, name: str, work: Callable[[], None], reply: Reply | None = None) -> None:
        def report(done: Future[None]) -> None:
            self._running.pop(done, None)
            error = None if done.cancelled() else done.exception()
            if reply is not None and (done.cancelled() or error is not None):
                # The other half of it waits for this one.
                reply.cancel()
                reply.abandon()
            if error is not None:
                self._post(Broken(name, reply.generation if reply else -1, error))

        def timed() -> None:
            began = time.perf_counter()
            work()
            self._post(Took(name, (time.perf_counter() - began) * 1000))

        future = pool.submit(timed)
        self._running[future] = name
        future.add_done_callback(report)
