"""The thin part of a session: tasks, waiting and calling; what to do is decided in :mod:`.core`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import uuid
from collections import deque

from ...engines.base import Engine, EngineError, SessionOptions, Speech, VenusError
from ...engines.silero import SileroModel, SileroVad
from ..playback import Playback
from ..reflex import Reflex, SpeechDetector
from ..rooms.base import AudioChunk, KnowsSpeakers, MediaRoom, PlayoutFrame
from ..timeline import Recorder, Timeline, TimelineEvent, to_json
from ..units import Aligner, Chunker
from . import actions as act
from .clock import MediaClock
from .core import SessionCore, SessionFacts
from .link import EngineLink
from .lull import Lull
from .settings import SessionSettings

_log = logging.getLogger(__name__)

_STALLED = {
    "engine": (
        "the engine has finished nothing for %.1f s and is started anew: it hangs, or the machine is too busy; "
        "end other programs, allow fewer sessions, or raise VENUS_SESSION__WATCHDOG_S"
    ),
    "playout": (
        "the room has fetched no sound for %.1f s and is asked anew: look at the network, the page and the load"
    ),
}
_MAX_UNDONE_MS = 600
_LEDGER_EVERY_MS = 200
"""How often the page learns of playback's steady progress; beginnings and ends are told at once."""
_IDLE_TICK_S = 0.25
"""How often it is looked whether the engine goes on while the agent has nothing to say."""


@functools.cache
def _shared_silero() -> SileroModel:
    return SileroModel()


class Session:
    """One user in one room with one engine, from :meth:`run` to the end.

    ``timeline`` and ``recorder`` are made here when not given (a recorder only if the settings say so).  ``detector``
    is Silero unless another one is injected; ``session_id`` is random unless given.
    """

    def __init__(
        self,
        room: MediaRoom,
        engine: Engine,
        options: SessionOptions,
        settings: SessionSettings,
        *,
        timeline: Timeline | None = None,
        recorder: Recorder | None = None,
        detector: SpeechDetector | None = None,
        session_id: str | None = None,
    ) -> None:
        self.session_id = session_id or uuid.uuid4().hex
        self.timeline = timeline if timeline is not None else Timeline()
        self._room = room
        self._engine = engine
        self._options = options
        self._settings = settings
        self._recorder = recorder
        self._detector = detector
        self._link = EngineLink(engine, options, settings.close_timeout_s)
        self._aligner = Aligner()
        self._chunker = Chunker(engine.unit_ms, fast=options.fast)
        self._lull = Lull(engine.unit_ms, 0 if options.fast else settings.quiet_step_ms)
        self._max_undone = max(2, -(-_MAX_UNDONE_MS // engine.unit_ms))
        self._todo: deque[act.Action] = deque()
        self._doing = False
        self._drained_ms = 0
        self._over = asyncio.Event()
        self._reason = "failed"
        self._restart = asyncio.Event()
        self._units_done = asyncio.Event()
        self._to_say = asyncio.Event()

    @property
    def recorder(self) -> Recorder | None:
        """Where the session is being recorded, if it is."""
        return self._recorder

    async def run(self) -> None:
        """Run until the room is left or the engine fails for good; closes the engine session and the room.

        Raises :class:`EngineFull` or ``ValueError`` when the engine refuses to begin, ``OSError`` when a recording was
        asked for and cannot begin.
        """
        try:
            detector = self._detector or SileroVad(await asyncio.to_thread(_shared_silero))
            self._link.open()
            if self._recorder is None and self._settings.record:
                self._recorder = Recorder(self._settings.recordings_dir / self.session_id)
            self._begin(detector)
            try:
                await self._run_tasks()
            finally:
                self._drain()
                self._apply(self._core.end(self._reason, self._now()))
        finally:
            await self._close()

    def stop(self, reason: str = "stopped") -> None:
        """End the session soon; :meth:`run` returns after closing everything."""
        if not self._over.is_set():
            self._reason = reason
            self._over.set()

    # -- beginning and end -------------------------------------------------------------------------------------

    def _begin(self, detector: SpeechDetector) -> None:
        fast = self._options.fast
        self._clock = MediaClock(self._loop_time(), fast=fast)
        self._reflex = Reflex(detector, self._settings.reflex)
        self._playback = Playback(
            lambda: self._now().ms,
            acknowledges=self._room.acknowledges,
            delay_ms=self._room.playout_delay_ms,
            duck_db=self._settings.duck_db,
            kept_pause_ms=self._settings.kept_pause_ms,
            max_queued_ms=self._settings.max_queued_speech_s * 1000,
        )
        facts = SessionFacts(
            session_id=self.session_id,
            engine=self._engine.name,
            room=self._room.kind,
            unit_ms=self._engine.unit_ms,
            capabilities=self._engine.capabilities,
            options=self._options,
            recording=self._recorder is not None,
        )
        if isinstance(self._room, KnowsSpeakers):
            self._core = SessionCore(facts, self._settings, self._room.speaker)
        else:
            self._core = SessionCore(facts, self._settings)
        self._apply(self._core.start(self._now()))
        self._room.play(self)

    async def _run_tasks(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._listen(), name="venus-listen"),
                group.create_task(self._serve_engine(), name="venus-engine"),
                group.create_task(self._obey(), name="venus-commands"),
            ]
            if not self._options.fast:
                tasks.append(group.create_task(self._tick_forever(), name="venus-tick"))
            await self._over.wait()
            for task in tasks:
                task.cancel()

    async def _close(self) -> None:
        try:
            await self._link.close()
        finally:
            try:
                async with asyncio.timeout(self._settings.close_timeout_s):
                    await self._room.close()
            except TimeoutError:
                _log.warning("a room did not close in time", extra={"session": self.session_id})
            finally:
                self.timeline.close()
                if self._recorder is not None:
                    self._recorder.close()

    # -- the room pulls ----------------------------------------------------------------------------------------

    def pull(self) -> PlayoutFrame:
        """The next 20 ms for the room (:class:`PlayoutSource`)."""
        frame = self._playback.pull()
        if self._recorder is not None:
            try:
                self._recorder.agent_audio(frame.pcm, self._now().ms)
            except OSError as error:
                self._recording_failed(error)
        return frame

    # -- tasks -------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        async for chunk in self._room.audio():
            heard = self._take(chunk)
            if self._options.fast:
                await self._feed_in_step()
                self._tick()
            elif heard:
                self._feed()
        self._look()
        self.stop("left")

    def _take(self, chunk: AudioChunk) -> bool:
        """Take what was heard; whether it was looked at, or may wait."""
        calm = self._playback.idle and self._reflex.calm(chunk.samples)
        chunks = self._lull.add(chunk, urgent=not calm)
        for waited in chunks:
            self._hear(waited)
        if not chunks:
            self._clock.arrived(chunk.position + len(chunk.samples), chunk.arrival_s)
        return bool(chunks)

    def _look(self) -> None:
        """Look at what was heard and held back."""
        for chunk in self._lull.release():
            self._hear(chunk)

    def _hear(self, chunk: AudioChunk) -> None:
        aligned = self._aligner.add(chunk)
        if aligned is None:
            return
        self._clock.arrived(aligned.position + len(aligned.samples), chunk.arrival_s)
        if self._recorder is not None:
            try:
                self._recorder.user_audio(aligned.samples, aligned.position)
            except OSError as error:
                self._recording_failed(error)
        signals = self._reflex.feed(
            aligned.samples, aligned.position, agent_speaking=self._playback.speaking is not None
        )
        self._core.sound(self._reflex.last_sound_ms)
        for signal in signals:
            self._apply(self._core.signal(signal, self._playback.speaking, self._now()))
        if aligned.lost >= 16:
            self._apply(self._core.gap("lost", aligned.lost // 16, self._now()))
        if "video" in self._engine.modalities and (frame := self._room.latest_frame()) is not None:
            self._chunker.offer_frame(frame)
        self._chunker.add(aligned)
        dropped_ms = self._chunker.take_dropped_ms()
        if dropped_ms:
            self._apply(self._core.gap("backlog", dropped_ms, self._now()))

    def _feed(self) -> None:
        """Give the engine what waits, but never far more than it works off: a backlog is ours to drop."""
        while self._link.ready and self._link.undone < self._max_undone:
            unit = self._chunker.take()
            if unit is None:
                break
            self._link.push(unit)
            self._core.pushed(unit.index, self._now())
        if self._link.undone == 0:
            self._chunker.caught_up()

    async def _feed_in_step(self) -> None:
        """Fast mode: one unit at a time, the next when the engine is done with it."""
        while self._chunker.waiting:
            if not self._link.ready:
                await self._wait_for_engine()
                continue
            unit = self._chunker.take()
            if unit is None:
                return
            self._units_done.clear()
            self._link.push(unit)
            self._core.pushed(unit.index, self._now())
            while self._link.undone:
                await self._wait_for_engine()

    async def _wait_for_engine(self) -> None:
        self._units_done.clear()
        try:
            async with asyncio.timeout(self._settings.liveness_s(fast=True)):
                await self._units_done.wait()
        except TimeoutError:
            self._tick()

    async def _serve_engine(self) -> None:
        while not self._over.is_set():
            self._restart.clear()
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read_engine(), name="venus-engine-events")
                await self._restart.wait()
                reader.cancel()
            await self._reopen_engine()

    async def _read_engine(self) -> None:
        async for event in self._link.events():
            self._apply(self._core.engine_event(event, self._now()))
            if not self._options.fast:
                self._feed()
            self._units_done.set()
        if not self._over.is_set():
            self._apply(self._core.engine_gone(self._now()))

    async def _reopen_engine(self) -> None:
        try:
            await self._link.reopen()
        except (EngineError, ValueError) as error:
            _log.warning("an engine session could not be reopened", extra={"error": type(error).__name__})
            self._apply(self._core.trouble("engine_lost", str(error), self._now(), fatal=True))
            return
        self._chunker.restart()
        self._units_done.set()

    async def _obey(self) -> None:
        async for command in self._room.commands():
            self._apply(self._core.command(command, self._now()))

    async def _tick_forever(self) -> None:
        while True:
            if self._playback.idle:
                self._to_say.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_IDLE_TICK_S):
                        await self._to_say.wait()
            if not self._playback.idle:
                await asyncio.sleep(self._settings.tick_ms / 1000)
            self._tick()

    def _tick(self) -> None:
        now = self._now()
        self._playback.expect_reports(self._room.acknowledges)  # people come and go
        if self._playback.urgent or now.ms - self._drained_ms >= _LEDGER_EVERY_MS:
            self._drain()
        frames, waits = self._playback.pulled_frames, self._playback.queued_samples > 0
        self._apply(self._core.tick(now, pulled_frames=frames, speech_waits=waits))

    # -- doing -------------------------------------------------------------------------------------------------

    def _apply(self, actions: list[act.Action]) -> None:
        """Do ``actions``; what they lead to comes after them, so that the timeline keeps the order of decisions."""
        self._todo.extend(actions)
        if self._doing:
            return
        self._doing = True
        try:
            while self._todo:
                self._do(self._todo.popleft())
        finally:
            self._doing = False

    def _drain(self) -> None:
        now = self._now()
        self._drained_ms = now.ms
        self._apply(self._core.ledger(self._playback.drain(), now))

    def _do(self, action: act.Action) -> None:
        match action:
            case act.Emit(event):
                self._emit(event)
            case act.Enqueue(speech):
                self._enqueue(speech)
            case act.EndUtterance(utterance_id, samples):
                self._playback.end(utterance_id, samples)
            case act.Duck(on):
                self._playback.duck(on)
            case act.HoldOutput():
                self._playback.hold()
            case act.GoOn():
                self._playback.go_on()
            case act.Flush(utterance_id):
                self._playback.flush(utterance_id)
                self._drain()
            case act.Acknowledged(number):
                self._playback.acknowledge(number)
            case act.TellOverlap(phase, at_ms):
                self._link.overlap(phase, at_ms)
            case act.TellHeard(utterance_id, samples):
                self._link.heard(utterance_id, samples)
            case act.TellInterrupt(utterance_id):
                self._link.interrupt(utterance_id)
            case act.TellTyped() | act.TellSay() | act.TellConfigure():
                self._tell(action)
            case act.Recover(what, stalled_ms):
                self._recover(what, stalled_ms)
            case act.End(reason):
                self.stop(reason)

    def _enqueue(self, speech: Speech) -> None:
        self._look()  # it was heard before the agent spoke
        self._to_say.set()
        try:
            self._playback.enqueue(speech.utterance_id, speech.first_sample, speech.pcm)
        except ValueError:
            _log.warning("speech out of order", extra={"session": self.session_id})
            self._apply(self._core.bad_speech(speech.utterance_id, self._now()))

    def _tell(self, action: act.TellTyped | act.TellSay | act.TellConfigure) -> None:
        try:
            match action:
                case act.TellTyped(text=text):
                    self._link.type(text)
                case act.TellSay(text):
                    self._link.say(text)
                case act.TellConfigure(changes):
                    self._link.configure(changes)
        except (VenusError, ValueError) as error:
            self._apply(self._core.trouble("refused", str(error), self._now()))
        else:
            self._apply(self._core.done(action, self._now()))

    def _recover(self, what: str, stalled_ms: int) -> None:
        _log.warning(_STALLED[what], stalled_ms / 1000, extra={"session": self.session_id, "what": what})
        if what == "playout":
            self._room.play(self)
        else:
            self._restart.set()

    def _emit(self, event: TimelineEvent) -> None:
        entry = self.timeline.append(event)
        if self._recorder is not None:
            try:
                self._recorder.event(entry)
            except OSError as error:
                self._recording_failed(error)
        self._room.publish(to_json(entry))

    def _recording_failed(self, error: OSError) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        _log.warning("recording stopped", extra={"session": self.session_id, "error": error.strerror})
        try:
            recorder.close()
        except OSError:
            _log.warning("the recording could not be closed", extra={"session": self.session_id})
        message = "The recording stopped: its disk takes no more."
        self._apply(self._core.trouble("recording_stopped", message, self._now()))

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    def _now(self) -> act.Now:
        wall_s = self._loop_time()
        return act.Now(self._clock.now_ms(wall_s), wall_s)
