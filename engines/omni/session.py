"""An engine session around the synchronous duplex core: an inbox that any thread may fill, units worked off in turn.

The engine has one thread for all its sessions.  A session asks for a turn on it whenever something waits in its inbox,
and takes one message in each turn, so that sessions share the thread fairly and a unit is never cut in two.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from ..base import (
    INPUT_HZ,
    Changes,
    Decided,
    Decision,
    DelegateClosed,
    DelegateOpened,
    DelegateRejected,
    DelegateText,
    EngineError,
    EngineEvent,
    EngineSession,
    FloatPcm,
    Frame,
    MediaUnit,
    Overlap,
    OverlapPhase,
    Trouble,
    UnitDone,
    Unsupported,
    Verdict,
)
from ..outbox import Outbox
from ..protocol import Close, Hide, Open, Reject
from ..texts import fitting
from . import parcel
from .duplex import Duplex
from .images import ImageError, check_image
from .inbox import Background, Interrupted, Message, Over, Restored, Typed
from .kv import Full
from .pieces import PrivatePiece, SpeechPiece, TextPiece, UnitEnd
from .utterances import Utterances

_log = logging.getLogger(__name__)

UNIT_MS: Final = 1000
INBOX: Final = 256
"""Messages that may wait.  Overflow rule ("stalled"): one more ends the session with an error."""
RESULTS: Final = 16
"""Background results that may wait for an idle moment.  Overflow rule ("newest refused"): one more is not taken."""
LONGEST_TEXT: Final = 4000
"""Characters of a typed text or a background result."""


@dataclass(frozen=True, slots=True)
class Ways:
    """What the engine gives a session.

    ``run`` runs a step on the engine's thread, behind those that others asked for; ``begin`` makes the duplex core,
    with its prompt taken in, on that thread; ``closed`` takes it back, once.  ``made_by`` names network and settings.
    """

    run: Callable[[Callable[[], None]], None]
    begin: Callable[[], Duplex]
    closed: Callable[[Duplex | None], None]
    made_by: str
    sees: bool = False
    max_slices: int = 1
    close_timeout_s: float = 5.0
    takes_results: bool = True
    """The tokenizer has ``<backend>``."""


class OmniSession(EngineSession):
    """One conversation with the network."""

    def __init__(self, ways: Ways, outbox: Outbox | None = None) -> None:
        self._ways = ways
        self._out = outbox or Outbox()
        self._inbox: deque[Message] = deque()
        self._lock = threading.Lock()
        self._asked = False
        self._closing = False
        self._gone: Future[None] = Future()
        self._next_index = 0
        self._now_ms = 0
        self._over: Over | None = None
        # Turns of the agent.  Only the engine's thread begins and ends one; an interruption gives one up.
        self._speaking = False
        self._turn = 0
        self._saying = ""
        self._given_up = -1
        # From here on, only the engine's thread; _core guards it where a snapshot reads it.
        self._core = threading.Lock()
        self._duplex: Duplex | None = None
        self._whole = False
        self._utterances = Utterances(self._out.put)
        self._requests = 0
        self._forced = False
        """The next second only closes the turn that was given up, and answers nothing."""
        self._results: deque[str] = deque()
        self._questions: deque[str] = deque()
        """Typed while a given-up turn was still open in the context; they come after the next second."""
        with self._lock:
            self._ask()

    # -- input ------------------------------------------------------------------------------------------------------

    def push(self, unit: MediaUnit) -> None:
        samples = UNIT_MS * INPUT_HZ // 1000
        with self._lock:
            if unit.index != self._next_index:
                raise ValueError(f"unit {unit.index} out of order: expected {self._next_index}")
            if unit.audio.shape != (samples,):
                raise ValueError(f"a unit has {samples} samples, not {unit.audio.shape}")
            self._next_index += 1
            self._append(unit)

    def overlap(self, phase: OverlapPhase, at_ms: int) -> None:
        with self._lock:
            if phase is OverlapPhase.STARTED:
                self._over = Over(at_ms)
            elif self._over is not None:
                self._over = Over(self._over.start_ms, at_ms)

    def heard(self, utterance_id: str, samples: int) -> None:
        """The network's context keeps what it said, heard or not: there is nothing to be told."""

    def interrupt(self, utterance_id: str) -> None:
        with self._lock:
            if not self._speaking or utterance_id not in ("", self._saying):
                return
            self._given_up = self._turn
            if self._duplex is not None:
                self._duplex.break_off()  # a unit under way stops at its next piece
            self._inbox.appendleft(Interrupted(self._turn))
            self._ask()

    def type(self, text: str) -> None:
        if stripped := fitting(text, LONGEST_TEXT):
            self._post(Typed(stripped))

    def say(self, text: str) -> None:
        raise Unsupported("the network speaks for itself; it cannot be made to say a text word for word")

    def inject(self, background: str) -> None:
        if not self._ways.takes_results:
            raise Unsupported("this checkpoint takes no background results: its tokenizer has no <backend>")
        if stripped := fitting(background, LONGEST_TEXT):
            self._post(Background(stripped))

    def configure(self, changes: Changes) -> None:
        if changes not in (Changes(), Changes(language="auto")):
            raise Unsupported("voice and prompt are set when a session begins, and the network follows your language")

    def snapshot(self) -> bytes:
        """The whole state as bytes.  Between two units it is only copied; nothing is computed.

        Texts and results that wait are in it; seconds of sound that wait are not, they will be over.  Raises
        :class:`~..base.EngineError` at once while something is being computed, and after a unit that broke.
        """
        if not self._core.acquire(blocking=False):
            raise EngineError("the session is busy and gives no snapshot")
        try:
            with self._lock:
                waiting = list(self._inbox)
            if any(isinstance(message, Restored) for message in waiting):
                raise EngineError("the session is busy with another snapshot and gives none")
            if self._duplex is None:
                raise EngineError("the session has not begun, or is over")
            if not self._whole:
                raise EngineError("the session broke in the middle of a unit and gives no snapshot")
            with torch.inference_mode():
                duplex = self._duplex.snapshot()
            state: dict[str, Any] = {
                "duplex": duplex,
                "utterances": self._utterances.snapshot(),
                "requests": self._requests,
                "results": [*self._results, *(each.text for each in waiting if isinstance(each, Background))],
                "questions": [*self._questions, *(each.text for each in waiting if isinstance(each, Typed))],
            }
            return parcel.pack(state, self._ways.made_by)
        finally:
            self._core.release()

    def restore(self, snapshot: bytes) -> None:
        self._post(Restored(parcel.unpack(snapshot, self._ways.made_by)))

    def events(self) -> AsyncIterator[EngineEvent]:
        return self._out.read()

    async def close(self) -> None:
        """Stop all work of the session and end :meth:`events`.

        A unit under way is broken off at its next piece.  When that takes longer than allowed the events end all the
        same, and the engine gets the session's memory back as soon as the unit is over.
        """
        with self._lock:
            self._closing = True
            self._inbox.clear()
            if self._duplex is not None:
                self._duplex.break_off()
            self._ask()
        try:
            async with asyncio.timeout(self._ways.close_timeout_s):
                await asyncio.shield(asyncio.wrap_future(self._gone))
        except TimeoutError:
            _log.warning("a session still computes after it was closed")
            self._out.end()

    def _post(self, message: Message) -> None:
        with self._lock:
            self._append(message)

    def _append(self, message: Message) -> None:
        if self._closing or self._out.shut:
            return
        if len(self._inbox) >= INBOX:
            told = "the engine takes no more input: it computes more slowly than the sound comes in"
            self._out.put(Trouble(self._now_ms, "engine.stalled", told, fatal=True))
            return
        self._inbox.append(message)
        self._ask()

    def _ask(self) -> None:
        """Ask for a turn on the engine's thread, unless one is coming."""
        if not self._asked and not self._gone.done():
            self._asked = True
            self._ways.run(self._step)

    # -- the engine's thread ----------------------------------------------------------------------------------------

    def _step(self) -> None:
        done: UnitDone | None = None
        with self._core:  # taken first: a message is in the inbox or its effect in the state, for whoever looks
            with self._lock:
                self._asked = False
                closing = self._closing
                message = self._inbox.popleft() if self._inbox else None
            if not closing and not self._out.shut:
                done = self._guarded(message)
        if closing:
            self._finish()
            return
        if done is not None:  # told last: whoever hears it finds the session at rest
            self._out.put(done)
        with self._lock:
            if self._inbox or self._closing:
                self._ask()

    def _guarded(self, message: Message | None) -> UnitDone | None:
        self._whole = False
        try:
            with torch.inference_mode():
                duplex = self._duplex or self._begin()
                done = None if message is None else self._handle(duplex, message)
            self._whole = not self._closing
        except Full as error:
            told = f"{error}; raise VENUS_OMNI__POSITIONS, or let VENUS_OMNI__CONTEXT__POLICY forget earlier"
            self._out.put(Trouble(self._now_ms, "context.full", told, fatal=True))
        except torch.OutOfMemoryError:
            told = "the device has no memory left: fewer VENUS_OMNI__MAX_SESSIONS or VENUS_OMNI__POSITIONS"
            self._out.put(Trouble(self._now_ms, "engine.memory", told, fatal=True))
        except Exception as error:  # noqa: BLE001 - the thread's last line: whatever it was, the session must say so
            _log.exception("an omni session broke")
            self._out.put(Trouble(self._now_ms, "engine.broken", f"{type(error).__name__}: {error}", fatal=True))
        else:
            return done
        return None

    def _begin(self) -> Duplex:
        duplex = self._ways.begin()
        with self._lock:
            self._duplex = duplex
        return duplex

    def _handle(self, duplex: Duplex, message: Message) -> UnitDone | None:
        match message:
            case MediaUnit():
                self._deliver(duplex)
                return self._unit(duplex, message)
            case Typed(text) if self._forced:
                self._questions.append(text)
            case Typed(text):
                self._ask_network(duplex, text)
            case Background(text):
                if len(self._results) < RESULTS:
                    self._results.append(text)
                else:
                    told = f"{RESULTS} background results wait already; this one was not taken"
                    self._out.put(Trouble(self._now_ms, "background.full", told))
            case Interrupted(turn):
                self._give_up(duplex, turn)
            case Restored(state):
                self._go_on(duplex, state)
        return None

    def _unit(self, duplex: Duplex, unit: MediaUnit) -> UnitDone | None:
        self._now_ms = unit.start_ms + UNIT_MS
        began = time.perf_counter()
        pictures = self._pictures(unit.frames)
        sound = self._sound(unit.audio)
        duplex.prefill(audio=sound, frames=pictures, max_slices=self._ways.max_slices, at_ms=unit.start_ms)
        fed = time.perf_counter()
        end = self._generate(duplex)
        if end is None:
            return None
        self._judge(unit.start_ms, end)
        timings = {"prefill": (fed - began) * 1000, "generate": (time.perf_counter() - fed) * 1000, **end.timings}
        duplex.finalise()
        while self._questions and not self._forced:
            self._ask_network(duplex, self._questions.popleft())
        return UnitDone(self._now_ms, unit.index, timings)

    def _generate(self, duplex: Duplex) -> UnitEnd | None:
        """Give out what the network makes of what it was fed; ``None`` when the session was closed meanwhile."""
        end: UnitEnd | None = None
        forced, self._forced = self._forced, False
        for piece in duplex.generate(force_listen=forced):
            if self._closing:
                return None
            match piece:
                case TextPiece(text):
                    self._speak()
                    if self._is_told():
                        self._utterances.text(self._now_ms, text)
                case SpeechPiece(pcm) if pcm.any():  # the published codes give zeros where nothing is said
                    self._speak()
                    if self._is_told():
                        self._utterances.speech(self._now_ms, pcm)
                case PrivatePiece(action):
                    self._speak()
                    self._private(action)
                case UnitEnd():
                    end = piece
                case SpeechPiece():
                    pass
        self._utterances.unit_over(self._now_ms)
        if end is not None and (end.is_listen or end.turn_closed):
            self._listen(duplex)
        elif end is not None:
            self._speak()
        return end

    def _speak(self) -> None:
        with self._lock:
            if self._speaking:
                return
            self._speaking = True
            self._turn += 1
        self._out.put(Decided(self._now_ms, Decision.SPEAK))

    def _is_told(self) -> bool:
        """Whether what comes now is to be heard: the utterance has its name before anything is told of it."""
        with self._lock:
            if self._given_up == self._turn:
                return False
            self._saying = self._utterances.begin()
            return True

    def _listen(self, duplex: Duplex) -> None:
        """The turn is over, if there was one."""
        self._utterances.end(self._now_ms)
        with self._lock:
            if not self._speaking:
                return
            self._speaking, self._saying = False, ""
            if self._given_up == self._turn and not self._closing:
                duplex.resume()  # the break was for this turn, and must not reach the next
        self._out.put(Decided(self._now_ms, Decision.LISTEN))

    def _private(self, action: Open | Hide | Close | Reject) -> None:
        if isinstance(action, Open):
            self._requests += 1
        name, now = f"d{self._requests}", self._now_ms
        match action:
            case Open():
                self._out.put(DelegateOpened(now, name))
            case Hide(text):
                self._out.put(DelegateText(now, name, text))
            case Close(query):
                self._out.put(DelegateClosed(now, name, query))
            case Reject(reason):
                self._out.put(DelegateRejected(now, name, reason.value))

    def _judge(self, start_ms: int, end: UnitEnd) -> None:
        """The verdict on user speech over the agent: what the network decided in the second that the speech lay in."""
        with self._lock:
            over = self._over
            if over is None or not over.within(start_ms, self._now_ms):
                return
            gives_way = end.is_listen or end.end_of_turn
            if gives_way or over.end_ms is not None:
                self._over = None
        utterance = self._utterances.latest
        if utterance:
            verdict = Verdict.YIELD if gives_way else Verdict.GO_ON
            kind = "listen" if end.is_listen else "turn_eos" if end.end_of_turn else "speak"
            self._out.put(Overlap(self._now_ms, utterance, verdict, kind, 1.0))

    def _deliver(self, duplex: Duplex) -> None:
        """At an idle boundary, the oldest background result that waits."""
        if not self._results or self._speaking or self._forced:
            return
        result = self._results.popleft()
        self._answer(duplex, lambda: duplex.inject(result))

    def _ask_network(self, duplex: Duplex, text: str) -> None:
        self._answer(duplex, lambda: duplex.prefill(text=text))

    def _answer(self, duplex: Duplex, feed: Callable[[], object]) -> None:
        """Feed a text and generate the unit it makes, if it makes one (``feed`` says ``False`` otherwise).

        A text that no room can be made for is refused, and nothing lost.
        """
        try:
            fed = feed()
        except Full as error:
            self._out.put(Trouble(self._now_ms, "text.too_long", f"this text was not taken: {error}"))
            return
        if fed is not False:
            self._generate(duplex)
            duplex.finalise()

    def _give_up(self, duplex: Duplex, turn: int) -> None:
        """The next unit closes the turn in the context; for the listener it is over now.

        Nothing is left to do where the turn has ended meanwhile.
        """
        if self._speaking and self._turn == turn:
            self._forced = duplex.text.turn_open
            self._listen(duplex)

    def _go_on(self, duplex: Duplex, state: dict[str, Any]) -> None:
        """Take over an earlier session's state.  A turn it was in is closed: its speech went down with that session.

        So is one of this session, which has said something else meanwhile; no name is used twice.
        """
        self._listen(duplex)
        self._over = None
        duplex.restore(state["duplex"])
        self._utterances.restore(state["utterances"])
        self._requests = max(self._requests, int(state["requests"]))
        self._results = deque([str(one) for one in state["results"]][:RESULTS])
        self._questions = deque(str(one) for one in state["questions"])
        self._forced = duplex.text.turn_open

    def _pictures(self, frames: tuple[Frame, ...]) -> tuple[Any, ...]:
        """The newest picture that can be looked at."""
        if not self._ways.sees or not frames:
            return ()
        image = frames[-1].image
        try:
            check_image(image)
        except ImageError as error:
            self._out.put(Trouble(self._now_ms, "frame.unreadable", f"a picture was left out: {error}"))
            return ()
        return (image,)

    def _sound(self, audio: FloatPcm) -> FloatPcm:
        """What is heard; silence where a sample is no number."""
        finite = np.isfinite(audio)
        if finite.all():
            return audio
        count = int(audio.size - finite.sum())
        told = f"{count} samples that are no numbers were taken for silence: see what sends them"
        self._out.put(Trouble(self._now_ms, "audio.unreadable", told))
        return np.where(finite, audio, 0).astype(np.float32)

    def _finish(self) -> None:
        with self._core, self._lock:
            duplex, self._duplex = self._duplex, None
        try:
            self._ways.closed(duplex)
        finally:
            self._out.end()
            self._gone.set_result(None)
