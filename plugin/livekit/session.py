"""LiveKit's session of the model: the ordinary session in a room of its own."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from livekit.agents import NOT_GIVEN, NotGivenOr, llm, utils
from livekit.agents.metrics import RealtimeModelMetrics

from ...engines.base import Changes, SessionOptions, VenusError
from ..rooms.base import Configure, Interrupt, Say, TypeText
from .compat import rtc
from .context import opening, typed_texts
from .room import DuplexRoom
from .speech import Words

if TYPE_CHECKING:
    from ..session import Session
    from ..timeline import Timeline
    from .model import DuplexModel

_log = logging.getLogger(__name__)

_REMEMBERED = 16

VenusEvents = Literal["timeline", "cut"]
"""Events beyond LiveKit's own: ``timeline`` carries each timeline event as a JSON-ready ``dict``; ``cut`` the id of an
utterance that was given up, whose rest should not be heard."""


class DuplexSession(llm.DuplexSession[VenusEvents]):
    """One conversation.  LiveKit makes, feeds and closes it; :meth:`say` and its neighbours are for applications, which
    reach it as ``agent.duplex_session`` or as ``venus.attach(session).duplex``.

    Belongs to the event loop that made it.
    """

    def __init__(self, model: DuplexModel, attached: bool = False) -> None:
        super().__init__(model)
        self._model = model
        self._room: DuplexRoom | None = None
        self._session: Session | None = None
        self._running: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._over = False
        self._instructions = ""
        self._history: list[llm.ChatItem] = []
        self._tools = llm.ToolContext.empty()
        self._told_of_tools = False
        self._silently_typed: deque[str] = deque(maxlen=64)
        self._typed_waits = False
        self._cut_texts: dict[str, str] = {}
        self._turn: tuple[int, str, float] | None = None
        self.attached = attached
        """Whether somebody reports what was really heard."""

    # -- for applications -------------------------------------------------------------------------------------------

    @property
    def timeline(self) -> Timeline:
        """Everything that happened.  Raises ``RealtimeError`` before the session has begun."""
        if self._session is None:
            raise llm.RealtimeError("the session has not begun yet")
        return self._session.timeline

    @property
    def room(self) -> DuplexRoom:
        """The room of the session, for its counters.  Raises ``RealtimeError`` before the session has begun."""
        if self._room is None:
            raise llm.RealtimeError("the session has not begun yet")
        return self._room

    @property
    def utterance(self) -> str | None:
        """The utterance that was handed to LiveKit last, if any."""
        return self._room.current if self._room is not None else None

    def played(self, number: int) -> None:
        """The listener has heard every playout frame up to ``number``."""
        if self._room is not None:
            self._room.played(number)

    def heard_text(self, utterance_id: str) -> str | None:
        """What the listener got of an utterance that was given up lately; ``None`` for any other."""
        return self._cut_texts.get(utterance_id)

    def say(self, text: str) -> None:
        """Speak ``text`` word for word.  Raises ``RealtimeError`` when the engine cannot, or not that much."""
        if not self._model.engine.capabilities.say:
            raise llm.RealtimeError(f"the engine {self._model.engine.name} cannot speak a given text")
        self._need_words(text)
        self.room.command(Say(text))

    def type_text(self, text: str) -> None:
        """Take ``text`` as typed by the user; it is answered.

        Raises ``RealtimeError`` when the engine cannot read, and for more characters than it takes.
        """
        self._need_typing(text)
        self.room.command(TypeText(text))

    def interrupt(self) -> None:
        """Stop speaking, and give up what was about to be said."""
        self.room.command(Interrupt())

    def configure(self, changes: Changes) -> None:
        """Change language, voice, persona or facts; what the engine refuses is reported as an ``error`` event."""
        self.room.command(Configure(changes))

    # -- LiveKit's contract -----------------------------------------------------------------------------------------

    @property
    def audio_stream(self) -> AsyncIterator[llm.DuplexAudioFrame]:
        """The agent's voice: frames of 20 ms, at most ``lead_ms`` ahead of real time, nothing when idle."""
        return self._frames()

    @property
    def tools(self) -> llm.ToolContext:
        """The tools that were handed over.  None of them is called."""
        return self._tools

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        if self._room is not None:
            self._room.push_audio(frame)

    def push_video(self, frame: rtc.VideoFrame) -> None:
        if self._room is not None:
            self._room.push_video(frame)

    async def _update_session(
        self,
        *,
        instructions: NotGivenOr[str] = NOT_GIVEN,
        chat_ctx: NotGivenOr[llm.ChatContext] = NOT_GIVEN,
        tools: NotGivenOr[list[llm.Tool]] = NOT_GIVEN,
    ) -> None:
        """Begin with the configuration, or take another agent's; the conversation so far goes on.

        Raises ``RealtimeError`` when the models cannot be loaded or the engine refuses to begin.
        """
        if self._room is not None:
            chat_ctx = NOT_GIVEN  # the engine has lived through it
        await super()._update_session(instructions=instructions, chat_ctx=chat_ctx, tools=tools)
        if self._room is None:
            await self._begin()

    async def _update_instructions(self, instructions: str) -> None:
        self._instructions = instructions
        if self._room is not None:
            self._room.command(Configure(Changes(persona=instructions or self._model.persona or "")))

    async def _append_items(self, items: list[llm.ChatItem]) -> None:
        if self._room is None:
            self._history += items
            return
        texts, others = typed_texts(items)
        if others:
            _log.warning("only the user's messages reach the model in mid-session", extra={"items": others})
        for text in texts:
            self._need_typing(text)
        for text in texts:
            self._silently_typed.append(text)
            self._typed_waits = True
            self._room.command(TypeText(text))

    async def _update_tools(self, tools: list[llm.Tool]) -> None:
        self._tools = llm.ToolContext(tools)
        self._tell_of_tools(tools)

    def _update_options(self, *, tool_choice: NotGivenOr[llm.ToolChoice | None] = NOT_GIVEN) -> None:
        """No tool is ever called, whatever the choice."""

    def _generate_reply(
        self,
        *,
        instructions: NotGivenOr[str] = NOT_GIVEN,
        tool_choice: NotGivenOr[llm.ToolChoice] = NOT_GIVEN,
        tools: NotGivenOr[list[llm.Tool]] = NOT_GIVEN,
    ) -> None:
        """After typed text: its answer is on the way.  With instructions: the model is given them as if typed.

        The interface to the model knows no other way: they are in no transcript, but the model remembers them among
        what the user wrote.
        """
        if utils.is_given(tools):
            self._tell_of_tools(tools)
        if self._typed_waits:
            self._typed_waits = False
            if utils.is_given(instructions):
                _log.warning("instructions beside typed text are not used: the text is being answered already")
            return
        if not utils.is_given(instructions) or not instructions.strip():
            raise llm.RealtimeError(
                "Venus decides for itself when to speak: give generate_reply() instructions or user_input, "
                "or have a text spoken word for word with venus.attach(session).say(text)"
            )
        self._need_typing(instructions)
        self._silently_typed.append(instructions.strip())
        self.room.command(TypeText(instructions))

    async def aclose(self) -> None:
        """End the conversation, within twice ``options.close_s``.  May be called repeatedly."""
        await super().aclose()
        self._over = True
        self._opened.set()
        if self._session is not None:
            self._session.stop("closed")
        if (running := self._running) is not None:
            close_s = self._model.options.close_s
            if (await asyncio.wait([running], timeout=close_s))[1]:
                _log.warning("a conversation did not end in time and is cancelled", extra={"deadline_s": close_s})
                running.cancel()
                if (await asyncio.wait([running], timeout=close_s))[1]:
                    _log.error("a conversation cannot be ended and is left to itself")
        if self._room is not None:
            await self._room.close()

    # -- beginning and end ------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        try:
            engine = await self._model.load()
            settings = self._model.session_settings()
        except VenusError as error:
            raise llm.RealtimeError(str(error)) from error
        from ..session import Session  # heavy: it brings the speech detector's runtime

        if self._over:
            raise llm.RealtimeError("the session was closed before it had begun")
        options = self._model.options
        room = DuplexRoom(
            self,
            options,
            unit_ms=engine.unit_ms,
            video="video" in engine.modalities,
            attached=lambda: self.attached,
        )
        detector = self._model.detector() if self._model.detector is not None else None
        self._session = Session(room, engine, self._opening(), settings, detector=detector)
        self._running = asyncio.create_task(self._session.run(), name="venus-livekit-session")
        self._room = room
        self._opened.set()
        begun = asyncio.create_task(room.wait_playing(), name="venus-livekit-begin")
        try:
            async with asyncio.timeout(options.begin_s):
                await asyncio.wait([self._running, begun], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise llm.RealtimeError(f"the engine did not begin within {options.begin_s:g} s") from None
        finally:
            begun.cancel()
        if self._running.done():
            error = self._running.exception()
            raise llm.RealtimeError(f"the engine did not begin: {error}") from error
        self._running.add_done_callback(self._ended)

    def _opening(self) -> SessionOptions:
        model = self._model
        return SessionOptions(
            language=model.language,
            voice=model.voice,
            persona=self._instructions or model.persona,
            system_prompt=opening(self._history) or None,
            facts=model.facts,
        )

    def _ended(self, running: asyncio.Task[None]) -> None:
        if self._over or running.cancelled():
            return
        self._over = True
        error = running.exception()
        if error is not None:
            _log.error("a conversation broke", exc_info=error)
        self._report(f"the conversation ended: {error}" if error else "the conversation ended", "ended", fatal=True)

    # -- what the room tells ----------------------------------------------------------------------------------------

    async def _frames(self) -> AsyncIterator[llm.DuplexAudioFrame]:
        await self._opened.wait()
        if self._room is None:
            return
        async for frame, start_ms in self._room.stream():
            yield llm.DuplexAudioFrame(frame=frame, start_ms=start_ms)

    def on_words(self, words: Words) -> None:
        """:class:`~.room.Listener`"""
        delta = llm.DuplexOutputTranscriptDelta(text=words.text, start_ms=words.start_ms, end_ms=words.end_ms)
        self.emit("transcript_delta", delta)

    def on_cut(self, utterance_id: str) -> None:
        """:class:`~.room.Listener`"""
        self.emit("cut", utterance_id)

    def on_event(self, event: dict[str, Any]) -> None:
        """:class:`~.room.Listener`: translate into LiveKit's events."""
        match event["type"]:
            case "agent.utterance_ended" if event["interrupted"]:
                if len(self._cut_texts) >= _REMEMBERED:
                    del self._cut_texts[next(iter(self._cut_texts))]
                self._cut_texts[str(event["utterance_id"])] = str(event["heard_text"])
            case "agent.speech":
                self._typed_waits = False
            case "user.speech":
                self._user_speech(str(event["phase"]))
            case "user.text":
                self._user_text(event)
            case "session.recovered" if event["what"] == "engine":
                self._typed_waits = False
                self.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())
            case "latency":
                self._metrics(str(event["utterance_id"]), int(event["edge_ms"]))
            case "agent.utterance_ended":
                self._typed_waits = False
            case "trouble":
                fatal = bool(event["fatal"])
                self._over = self._over or fatal
                self._report(str(event["message"]), str(event["code"]), fatal=fatal)
            case _:
                pass
        self.emit("timeline", event)

    def _user_speech(self, phase: str) -> None:
        if phase == "started":
            self.emit("input_speech_started", llm.InputSpeechStartedEvent())
        else:
            # True would have LiveKit show an empty transcript, and blank the partial one that is there already.
            self.emit("input_speech_stopped", llm.InputSpeechStoppedEvent(user_transcription_enabled=False))

    def _user_text(self, event: dict[str, Any]) -> None:
        text, start_ms, final = str(event["text"]), int(event["start_ms"]), bool(event["final"])
        if event["typed"] and text in self._silently_typed:
            self._silently_typed.remove(text)  # LiveKit knows of it, or it was an instruction
            return
        if self._turn is None or self._turn[0] != start_ms:
            began_s = time.time() - max(0, int(event["at_ms"]) - start_ms) / 1000
            self._turn = (start_ms, f"venus_{uuid.uuid4().hex}", began_s)
        # Kept: a turn that goes on after its end was told is told again, as the same message.
        _, item_id, began_s = self._turn
        if not text.strip():
            return
        done = llm.InputTranscriptionCompleted(
            item_id=item_id, transcript=text, is_final=final, turn_started_at=began_s
        )
        self.emit("input_audio_transcription_completed", done)

    def _metrics(self, utterance_id: str, edge_ms: int) -> None:
        metrics = RealtimeModelMetrics(
            label=self._model.label,
            request_id=utterance_id,
            timestamp=time.time(),
            ttft=edge_ms / 1000,
            input_token_details=RealtimeModelMetrics.InputTokenDetails(),
            output_token_details=RealtimeModelMetrics.OutputTokenDetails(),
        )
        self.emit("metrics_collected", metrics)

    def _report(self, message: str, code: str, *, fatal: bool) -> None:
        error = llm.RealtimeModelError(
            timestamp=time.time(),
            label=self._model.label,
            error=llm.RealtimeError(message, code=code),
            recoverable=not fatal,
        )
        self.emit("error", error)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _need_typing(self, text: str) -> None:
        if not self._model.engine.capabilities.type:
            raise llm.RealtimeError(f"the engine {self._model.engine.name} does not take text")
        self._need_words(text)

    def _need_words(self, text: str) -> None:
        """Refuse here what the session would refuse later, when nobody would know whose text it was."""
        most = min(self._model.engine.capabilities.text_chars, self._model.session_settings().max_text_chars)
        if not 0 < len(text.strip()) <= most:
            raise llm.RealtimeError(f"a text has 1 to {most} characters, not {len(text.strip())}")

    def _tell_of_tools(self, tools: Sequence[llm.Tool]) -> None:
        if tools and not self._told_of_tools:
            self._told_of_tools = True
            _log.warning(
                "Venus does not call tools yet: the tools of this agent are never used",
                extra={"tools": len(tools)},
            )
