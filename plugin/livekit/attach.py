"""What LiveKit's duplex interface lacks: a yield that is heard at once, and the truth about what was heard."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from livekit.agents import AgentSession, llm
from livekit.agents.voice import ConversationItemAddedEvent, SpeechCreatedEvent, SpeechHandle
from livekit.agents.voice.io import AudioOutput, AudioOutputCapabilities

from . import compat
from .agent_options import duplex_session
from .compat import rtc
from .gate import tag_of
from .heard import Heard
from .session import DuplexSession

_NO_SAY = (
    "session.say() cannot reach a duplex model: keep what venus.attach(session) returned and call its say(text), "
    "or give AgentSession a TTS"
)


class Tap(AudioOutput):
    """A link of the output's chain that passes everything on and reports which of our frames have been played.

    LiveKit's history gets the words that were heard of an utterance that was cut off (``heard_text``).
    """

    def __init__(
        self,
        next_in_chain: AudioOutput,
        report: Callable[[int], None],
        heard_text: Callable[[str], str | None] = lambda _utterance: None,
    ) -> None:
        super().__init__(
            label="Venus",
            capabilities=AudioOutputCapabilities(pause=True),
            next_in_chain=next_in_chain,
        )
        self._report = report
        self._heard_text = heard_text
        self._utterance: str | None = None
        self._heard = Heard()

    @property
    def _next(self) -> AudioOutput:
        """The next link; not what was given when that was a bare sink, which LiveKit wraps."""
        assert self.next_in_chain is not None
        return self.next_in_chain

    @property
    def sample_rate(self) -> int | None:
        return self._next.sample_rate

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        await self._next.capture_frame(frame)
        tag = tag_of(frame)
        self._utterance = tag.utterance_id if tag is not None else None
        self._heard.captured(tag.number if tag is not None else None, frame.duration)
        self._tell(self._heard.now(time.time()))

    def flush(self) -> None:
        super().flush()
        self._next.flush()

    def clear_buffer(self) -> None:
        self._next.clear_buffer()

    def on_playback_started(self, *, created_at: float) -> None:
        super().on_playback_started(created_at=created_at)
        self._heard.started(created_at)

    def on_playback_progressed(self, *, started_at: float, offset: float, duration: float) -> None:
        super().on_playback_progressed(started_at=started_at, offset=offset, duration=duration)
        self._tell(self._heard.progressed(offset, duration, time.time()))

    def on_playback_finished(
        self, *, playback_position: float, interrupted: bool, synchronized_transcript: str | None = None
    ) -> None:
        self._tell(self._heard.finished(playback_position))
        if self._utterance is not None:
            heard = self._heard_text(self._utterance)
            synchronized_transcript = synchronized_transcript if heard is None else heard
        super().on_playback_finished(
            playback_position=playback_position,
            interrupted=interrupted,
            synchronized_transcript=synchronized_transcript,
        )

    def _tell(self, number: int) -> None:
        if number >= 0:
            self._report(number)


class Attachment:
    """What :func:`attach` returns.  Ends with the ``AgentSession`` or by :meth:`aclose`."""

    def __init__(self, session: AgentSession[Any]) -> None:
        self._session = session
        self._duplex: DuplexSession | None = None
        self._tap: Tap | None = None
        self._speeches: dict[SpeechHandle, str | None] = {}  # the model's, with their utterance where it is known
        self._given_up: set[SpeechHandle] = set()
        self._sampler = compat.video_sampler(session)
        self._say, self._stop = session.say, session.interrupt
        self._closed = False
        compat.set_video_sampler(session, None)
        session.say, session.interrupt = self._cannot_say, self._interrupt
        compat.listen(session, "speech_created", self._on_speech)
        compat.listen(session, "agent_state_changed", self._on_state)
        compat.listen(session, "conversation_item_added", self._on_item)
        compat.listen(session, "close", self._on_close)
        self._bind()

    @property
    def duplex(self) -> DuplexSession:
        """The running conversation.  Raises ``RealtimeError`` while there is none."""
        self._bind()
        if self._duplex is None:
            raise llm.RealtimeError("the AgentSession does not run, or not on venus.DuplexModel")
        return self._duplex

    def say(self, text: str) -> None:
        """Speak ``text`` word for word as soon as the agent is free to.  Raises ``RealtimeError``."""
        self.duplex.say(text)

    async def aclose(self) -> None:
        """Detach: the session is as it was before.  May be called repeatedly."""
        if self._closed:
            return
        self._closed = True
        compat.ignore(self._session, "speech_created", self._on_speech)
        compat.ignore(self._session, "agent_state_changed", self._on_state)
        compat.ignore(self._session, "conversation_item_added", self._on_item)
        compat.ignore(self._session, "close", self._on_close)
        self._session.say, self._session.interrupt = self._say, self._stop
        _attachments.pop(self._session, None)
        compat.set_video_sampler(self._session, self._sampler)
        self._unbind()
        if self._tap is not None and self._session.output.audio is self._tap:
            self._session.output.audio = self._tap.next_in_chain
        self._tap = None

    async def __aenter__(self) -> Attachment:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- binding ----------------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Follow the present agent's conversation and the present output."""
        if self._closed:
            return
        duplex = duplex_session(self._session)
        if duplex is not self._duplex:
            self._unbind()
            self._duplex = duplex
            if duplex is not None:
                compat.listen(duplex, "cut", self._on_cut)
        output = self._session.output.audio
        if duplex is not None and output is not None and not _in_chain(output, self._tap):
            self._tap = Tap(output, self._played, self._heard_text)
            self._session.output.audio = self._tap
        if duplex is not None:
            duplex.attached = self._tap is not None

    def _unbind(self) -> None:
        if self._duplex is not None:
            compat.ignore(self._duplex, "cut", self._on_cut)
            self._duplex.attached = False
            self._duplex = None

    def _played(self, number: int) -> None:
        if self._duplex is not None:
            self._duplex.played(number)

    def _heard_text(self, utterance_id: str) -> str | None:
        return self._duplex.heard_text(utterance_id) if self._duplex is not None else None

    # -- what LiveKit tells -----------------------------------------------------------------------------------------

    def _on_state(self, _event: object) -> None:
        self._bind()

    def _on_item(self, event: ConversationItemAddedEvent) -> None:
        """A turn that went on after its end was told: LiveKit adds a message to the history though it has that one."""
        new = event.item
        if isinstance(new, llm.ChatMessage):
            items = self._session.history.items
            items[:] = [item for item in items if item is new or item.id != new.id]

    def _on_close(self, _event: object) -> None:
        self._unbind()

    def _on_speech(self, event: SpeechCreatedEvent) -> None:
        self._bind()
        if event.source == "say" or self._duplex is None:
            return
        # A speech of the model's own is made while the first frame of its utterance is taken in.
        self._speeches[event.speech_handle] = None if event.user_initiated else self._duplex.utterance
        event.speech_handle.add_done_callback(self._on_done)

    def _on_done(self, speech: SpeechHandle) -> None:
        utterance = self._speeches.pop(speech, None)
        ours = speech in self._given_up
        self._given_up.discard(speech)
        duplex = self._duplex
        if ours or not speech.interrupted or duplex is None:
            return
        if utterance is None and self._speeches:
            return  # a reply that was asked for and has not come, while something else is being said
        if utterance in (None, duplex.utterance):
            # The application interrupted: without this the model would go on, unheard.
            duplex.interrupt()

    def _on_cut(self, utterance_id: str) -> None:
        """The model yielded: drop what LiveKit holds of the utterance."""
        cut = [speech for speech, utterance in self._speeches.items() if utterance == utterance_id]
        current = self._session.current_speech
        if not cut and current is not None and current in self._speeches:
            cut = [current]  # a reply that was asked for
        for speech in cut:
            self._given_up.add(speech)
            speech.interrupt(force=True)

    def _interrupt(self, *, force: bool = False) -> asyncio.Future[None]:
        """``session.interrupt()``; what the model is about to say, which LiveKit does not know, is given up too."""
        stopped = self._stop(force=force)
        self._bind()
        if self._duplex is not None and not self._speeches:
            self._duplex.interrupt()
        return stopped

    def _cannot_say(self, *args: Any, **keywords: Any) -> SpeechHandle:
        tts = cast(object, self._session.tts)  # pyright: ignore[reportUnknownMemberType]  # generic
        if "audio" in keywords or tts is not None:
            return self._say(*args, **keywords)
        raise llm.RealtimeError(_NO_SAY)


def attach(session: AgentSession[Any]) -> Attachment:
    """Give ``session``, started or not, what LiveKit's interface lacks.

    - When the model yields, what LiveKit still holds of its speech is dropped at once.
    - The model learns what was really played, and that the application interrupted it.
    - Every frame of the camera reaches it; it takes the newest one of each unit.
    - A user's turn that goes on after its end was told is one message of ``session.history``, not two.
    - ``session.interrupt()`` reaches a model that is still thinking too.
    - ``say(text)`` of what is returned speaks a text word for word; ``session.say`` says where to find it.

    A session that is attached already keeps its attachment, which is returned.
    """
    attachment = _attachments.get(session)
    if attachment is None:
        attachment = _attachments[session] = Attachment(session)
    return attachment


_attachments: weakref.WeakKeyDictionary[AgentSession[Any], Attachment] = weakref.WeakKeyDictionary()


def _in_chain(output: AudioOutput | None, tap: Tap | None) -> bool:
    while output is not None and tap is not None:
        if output is tap:
            return True
        output = output.next_in_chain
    return False
