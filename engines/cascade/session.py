"""An engine session around the conductor: an inbox that any thread may fill, one thread, one event stream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor

from .. import daemons
from ..base import (
    INPUT_HZ,
    Changes,
    EngineEvent,
    EngineSession,
    MediaUnit,
    OverlapPhase,
    Trouble,
    Unsupported,
)
from ..outbox import UNREAD, Outbox
from ..texts import fitting
from .conductor import Conductor
from .dialogue import Dialogue
from .inbox import Begin, HeardTold, Input, Interrupted, Line, OverlapTold, Typed
from .parts import CLOSE_S
from .workers import Report, Workers

_log = logging.getLogger(__name__)

INBOX = 4096
"""Messages that may wait; beyond it the engine is taken to be stuck and the session ends with an error."""
LONGEST_TEXT = 1000
"""Characters of typed text or of a line to say: what the model's context holds beside the conversation."""

Build = Callable[[Callable[[EngineEvent], None], Workers, Callable[[Report], None]], Conductor]


class CascadeSession(EngineSession):
    """One conversation with the cascade.

    ``build`` makes the conductor from the event sink, the workers and the sink of their reports; ``workers`` makes
    the workers from the sink of their reports; ``closed`` is called once when the session is over.  Work that goes on
    for longer than ``close_s`` after the end is left to itself, and nobody hears of it.
    """

    def __init__(
        self,
        build: Build,
        workers: Callable[[Callable[[Report], None]], Workers],
        dialogue: Dialogue,
        unit_ms: int,
        closed: Callable[[], None],
        unread: int = UNREAD,
        close_s: float = CLOSE_S,
    ) -> None:
        self._out = Outbox(unread)
        self._close_s = close_s
        self._unit_samples = unit_ms * INPUT_HZ // 1000
        self._inbox: queue.Queue[Input | None] = queue.Queue(INBOX)
        self._next_index = 0
        self._dialogue = dialogue
        self._closed = closed
        self._close_once = threading.Lock()
        self._closing = False
        self._shutting: Future[None] | None = None
        self._workers = workers(self._post)
        self._conductor = build(self._out.put, self._workers, self._post)
        self._thread = daemons.begin(self._run, "venus-conductor", self._leave)
        self._post(Begin())

    # -- input ------------------------------------------------------------------------------------------------------

    def push(self, unit: MediaUnit) -> None:
        if unit.index != self._next_index:
            raise ValueError(f"unit {unit.index} out of order: expected {self._next_index}")
        if unit.audio.shape != (self._unit_samples,):
            raise ValueError(f"a unit has {self._unit_samples} samples, not {unit.audio.shape}")
        self._next_index += 1
        self._post(unit)

    def overlap(self, phase: OverlapPhase, at_ms: int) -> None:
        self._post(OverlapTold(phase, at_ms))

    def heard(self, utterance_id: str, samples: int) -> None:
        self._post(HeardTold(utterance_id, samples))

    def interrupt(self, utterance_id: str) -> None:
        self._post(Interrupted(utterance_id))

    def type(self, text: str) -> None:
        self._post_text(Typed(fitting(text, LONGEST_TEXT)))

    def say(self, text: str) -> None:
        self._post_text(Line(fitting(text, LONGEST_TEXT)))

    def inject(self, background: str) -> None:
        raise Unsupported("the cascade takes no background results")

    def configure(self, changes: Changes) -> None:
        self._dialogue.check(changes)
        self._post(changes)

    def snapshot(self) -> bytes:
        return self._dialogue.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self._dialogue.restore(snapshot)

    # -- output -----------------------------------------------------------------------------------------------------

    def events(self) -> AsyncIterator[EngineEvent]:
        return self._out.read()

    def _post_text(self, message: Typed | Line) -> None:
        if message.text:
            self._post(message)

    def _now_ms(self) -> int:
        return self._conductor.now_ms

    # -- the conductor's thread ---------------------------------------------------------------------------------------

    def _post(self, message: Input) -> None:
        if self._closing or self._out.shut:
            return
        try:
            self._inbox.put_nowait(message)
        except queue.Full:
            self._out.put(Trouble(0, "engine.stalled", "the engine takes no more input", fatal=True))

    def _run(self) -> None:
        try:
            while not (self._closing or self._out.shut) and (message := self._inbox.get()) is not None:
                self._conductor.handle(message)
        except Exception as error:  # noqa: BLE001 - the thread's last line: whatever it was, the session must say so
            _log.exception("the conductor of a session broke")
            self._out.put(Trouble(0, "engine.broken", f"{type(error).__name__}: {error}", fatal=True))

    def _leave(self) -> None:
        """Let the thread end soon."""
        self._closing = True
        self._conductor.stop()
        # When it is full the thread needs no waking: it looks at _closing before it takes the next message.
        with contextlib.suppress(queue.Full):
            self._inbox.put_nowait(None)

    async def close(self) -> None:
        """Stop all work of the session and end :meth:`events`.

        Goes on to the end on a thread of its own, also when the caller gives up waiting; every caller waits for it.
        """
        with self._close_once:
            self._closing = True
            if self._shutting is None:
                pool = ThreadPoolExecutor(1, "venus-close")
                self._shutting = pool.submit(self._shut)
                pool.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(self._shutting))

    def _shut(self) -> None:
        until_s = time.monotonic() + self._close_s
        self._leave()
        self._thread.join(self._close_s)
        self._conductor.stop()  # its last message may have begun another reply
        self._workers.close(max(0.0, until_s - time.monotonic()))
        self._out.end()
        self._closed()
