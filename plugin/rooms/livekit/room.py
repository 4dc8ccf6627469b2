"""The agent as a participant of a LiveKit room."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ....engines.base import Frame, VenusError
from ..base import AudioChunk, Command, PlayoutSource
from ..input import InputCounters
from . import requests, sdk
from .captions import Captions
from .chat import ChatReader
from .desk import Desk, DeskCounters
from .ears import Ears
from .mixer import MixCounters
from .options import LiveKitOptions
from .people import People, Person, is_agent
from .pictures import LatestPicture, PictureCounters
from .sdk import rtc
from .status import Status
from .stay import Stay
from .tracks import TrackCounters, Tracks
from .voice import QUEUE_MS, Voice, VoiceCounters
from .wire import Wire, WireCounters

log = logging.getLogger(__name__)

CHAT = "lk.chat"
_TICK_S = 0.1
_ACQUAINT_S = 5.0
_UNACQUAINTED = 32
"""Requests that may wait for their participant to be known; others are answered as from somebody unknown."""


@dataclass(frozen=True, slots=True)
class RoomCounters:
    """The live counters of a room's parts."""

    input: InputCounters
    mix: MixCounters
    voice: VoiceCounters
    wire: WireCounters
    desk: DeskCounters
    tracks: TrackCounters
    picture: PictureCounters


class LiveKitRoom:
    """Implements :class:`~realtime_venus.plugin.rooms.base.MediaRoom` over a LiveKit connection.

    :meth:`join` connects; the constructor takes a connected ``rtc.Room`` of somebody else's (a job's), which it only
    uses: leaving takes back what was published and leaves the connection alone.  The room is left by itself when it
    stays empty, when the connection is lost for good, and when the server says so.  Everything happens on the event
    loop that made it.  Raises ``ValueError`` when ``rtc_room`` is not connected.
    """

    def __init__(
        self, rtc_room: rtc.Room, options: LiveKitOptions | None = None, *, owns_connection: bool = False
    ) -> None:
        if not rtc_room.isconnected():
            raise ValueError("connect the rtc.Room first (with JobContext: await ctx.connect())")
        self._rtc = rtc_room
        self._owns = owns_connection
        self._options = options or LiveKitOptions()
        self._people = People(self._options.listen_to, self._options.obey)
        self._ears = Ears(self._options.audio_backlog_ms, self._options.mix_wait_ms, self._now)
        self._picture = LatestPicture(self._options.picture_every_ms)
        self._mouth = sdk.Source(QUEUE_MS)
        self._voice = Voice(self._mouth, self._options.lead_ms, self._stretch_begins)
        self._captions = Captions(secrets.token_hex(4))
        self._status = Status()
        self._wire = Wire(rtc_room, self._options.outbox_events, self._track_of)
        self._desk = Desk(self._people, self._options, self._status, self._voice.played, self._acquaint)
        self._chat = ChatReader(self._desk.typed, self._desk.too_large)
        self._stay = Stay(self._options, self._now())
        self._tracks = Tracks(
            rtc_room, self._people, self._options, self._picture, self._ears_ms, self._ears.sound, self._ears.ended
        )
        self._publication: rtc.LocalTrackPublication | None = None
        self._chats = False
        self._reason = ""
        self._ending = asyncio.Event()
        self._ready = asyncio.Event()
        self._people_changed = asyncio.Event()
        self._unacquainted = 0
        self._handlers = self._attach()
        self._life = asyncio.create_task(self._live(), name="livekit-room")
        self._life.add_done_callback(self._lived)

    @classmethod
    async def join(
        cls,
        url: str,
        token: str,
        options: LiveKitOptions | None = None,
        *,
        encryption: rtc.E2EEOptions | None = None,
    ) -> LiveKitRoom:
        """Join a room as its agent; the token names the room and who we are.

        The token should have the kind ``agent`` (then captions of the users carry their names) and the grant
        ``can_update_own_metadata`` (for ``lk.agent.state``).  ``encryption`` must be the same for all participants.
        Raises :class:`JoinRefused`, or :class:`~.sdk.MediaFailed` when the agent may not publish.
        """
        chosen = options or LiveKitOptions()
        connection = await sdk.connect(url, token, chosen.connect_s, encryption)
        if missing := sdk.missing_grants(connection):
            await sdk.disconnect(connection, chosen.close_deadline_s)
            raise sdk.JoinRefused("grants", f"the token lacks grants that an agent needs: {', '.join(missing)}")
        room = cls(connection, chosen, owns_connection=True)
        try:
            await room.wait_ready()
        except BaseException:
            await room.leave("failed")
            raise
        return room

    # -- MediaRoom --------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """``livekit``."""
        return "livekit"

    @property
    def acknowledges(self) -> bool:
        """Whether pages may report playback: not if all who are listened to are on the telephone."""
        return self._options.acknowledges and self._people.reports_playback

    @property
    def playout_delay_ms(self) -> int:
        """As the options say."""
        return self._options.playout_delay_ms

    def audio(self) -> AsyncIterator[AudioChunk]:
        """Everybody who is listened to, mixed."""
        return self._ears.chunks()

    def latest_frame(self) -> Frame | None:
        """The newest picture of the chosen source.  Asked for the first time, pictures begin to be received."""
        if not self._tracks.seeing:
            self._tracks.seeing = True
            self._tracks.sync()
        return self._picture.get()

    def play(self, source: PlayoutSource) -> None:
        """Pull from ``source`` from now on."""
        self._voice.source = source

    def publish(self, event: dict[str, Any]) -> None:
        """Send on ``venus.events``, and what follows from it as captions and state."""
        if self.closed:
            return
        self._wire.event(event)
        if self._status.event(event):
            self._wire.state(self._status.agent_state)
        if self._options.captions and (caption := self._captions.event(event)) is not None:
            self._wire.caption(caption)

    def commands(self) -> AsyncIterator[Command]:
        """What participants ask for by RPC and chat."""
        return self._desk.commands()

    async def close(self) -> None:
        """Leave the room."""
        await self.leave("closed")

    # -- beyond MediaRoom -------------------------------------------------------------------------------------------

    def speaker(self, start_ms: int, end_ms: int) -> str | None:
        """Identity of whoever was loudest between two moments of the input clock (:class:`KnowsSpeakers`)."""
        found = self._ears.speaker(start_ms, end_ms)
        heard = self._people.heard
        return found if found is not None or len(heard) != 1 else heard[0]

    @property
    def closed(self) -> bool:
        """Whether the room is being left or has been."""
        return self._ending.is_set()

    @property
    def reason(self) -> str:
        """Why the room was left (``closed``, ``empty``, ``duplicate_identity``...); empty while it is open."""
        return self._reason

    @property
    def rtc_room(self) -> rtc.Room:
        """The connection."""
        return self._rtc

    @property
    def listening_to(self) -> tuple[str, ...]:
        """Identities of those who are listened to."""
        return self._people.heard

    @property
    def mixed_microphones(self) -> int:
        """How many microphones sound in the mix at the moment."""
        return self._ears.microphones

    @property
    def connected(self) -> bool:
        """Whether the connection is up; while it is not, speech waits."""
        return self._stay.connected and not self.closed

    @property
    def counters(self) -> RoomCounters:
        """What happened on the way in and out."""
        return RoomCounters(
            self._ears.input_counters,
            self._ears.mix_counters,
            self._voice.counters,
            self._wire.counters,
            self._desk.counters,
            self._tracks.counters,
            self._picture.counters,
        )

    async def wait_ready(self) -> None:
        """Wait until the agent's track is published.  Raises what prevented it."""
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait([ready, self._life], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if not self._ready.is_set():
            self._life.result()
            raise sdk.MediaFailed(f"the room was left before the agent could speak ({self._reason})")

    async def wait_closed(self) -> None:
        """Wait until the room has been left."""
        await asyncio.wait([self._life])

    async def leave(self, reason: str) -> None:
        """Leave the room; whoever calls it, and however often, waits until it is done."""
        self._end(reason)
        await asyncio.wait([self._life])

    # -- life -------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            self._wire.state(self._status.agent_state)
            deadline_s = self._options.connect_s
            self._publication = await sdk.publish_voice(self._rtc, self._mouth, self._options.track_name, deadline_s)
            for method in requests.METHODS:
                sdk.offer(self._rtc, method, self._desk.request)
            self._chats = sdk.offer_stream(self._rtc, CHAT, self._chat.opened)
            self._ready.set()
            await self._work()
        finally:
            self._end("failed")
            await self._depart()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks: set[asyncio.Task[None]] = set()

            def spawn(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
                task = group.create_task(work, name=name)
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                return task

            spawn(self._voice.run(), "livekit-voice")
            spawn(self._wire.send_events(), "livekit-events")
            spawn(self._wire.send_welcomes(), "livekit-welcomes")
            spawn(self._wire.send_captions(), "livekit-captions")
            spawn(self._wire.send_state(), "livekit-state")
            spawn(self._keep(), "livekit-keeper")
            self._chat.begin(spawn)
            self._look_around()
            self._tracks.begin(spawn, exclusive=self._owns)
            try:
                await self._ending.wait()
            finally:
                self._tracks.end()
                self._chat.end()
                for task in list(tasks):
                    task.cancel()

    async def _depart(self) -> None:
        for event, handler in self._handlers.items():
            sdk.off(self._rtc, event, handler)
        if self._chats:
            self._rtc.unregister_text_stream_handler(CHAT)
        if self._rtc.isconnected():
            for method in requests.METHODS:
                sdk.withdraw(self._rtc, method)
            if self._owns:
                in_time = await sdk.disconnect(self._rtc, self._options.close_deadline_s)
            else:
                in_time = await sdk.unpublish(self._rtc, self._publication, self._options.close_deadline_s)
            if not in_time:
                log.warning("leaving a room took too long", extra={"reason": self._reason})
        await self._mouth.close()
        log.info("room left", extra={"room": self.kind, "reason": self._reason})

    def _end(self, reason: str) -> None:
        if not self._ending.is_set():
            self._reason = reason
            self._ending.set()
            self._ears.close()
            self._desk.close()
            self._people_changed.set()

    def _lived(self, life: asyncio.Task[None]) -> None:
        if not life.cancelled() and (error := life.exception()) is not None:
            log.error("a room failed", extra={"room": self.kind, "error": str(error)}, exc_info=_surprise(error))

    async def _keep(self) -> None:
        """Let time go on without audio, and leave when nobody is here or the connection stays away for too long."""
        subscribed = asyncio.create_task(self._subscribed(), name="livekit-subscription")
        try:
            now = self._now()
            while True:
                slept_from = now
                await asyncio.sleep(_TICK_S)
                now = self._now()
                self._ears.fill(stalled=now - slept_from > 2 * _TICK_S)
                self._voice.flow(on=self._stay.may_speak(now, subscribed=subscribed.done()))
                reason = self._stay.leave_because(now)
                if reason is not None:
                    self._end(reason)
        finally:
            subscribed.cancel()

    async def _subscribed(self) -> None:
        if self._publication is not None:
            await self._publication.wait_for_subscription()

    # -- what the connection tells ----------------------------------------------------------------------------------

    def _attach(self) -> dict[str, Callable[..., None]]:
        handlers: dict[str, Callable[..., None]] = {
            "participant_connected": self._on_people,
            "participant_disconnected": self._on_people,
            "participant_attributes_changed": self._on_people,
            "participant_active": self._on_active,
            "track_published": self._on_tracks,
            "track_unpublished": self._on_tracks,
            "track_subscribed": self._on_tracks,
            "track_unsubscribed": self._on_tracks,
            "track_muted": self._on_tracks,
            "track_unmuted": self._on_unmuted,
            "data_received": self._desk.data,
            "reconnecting": self._on_reconnecting,
            "reconnected": self._on_reconnected,
            "disconnected": self._on_disconnected,
        }
        for event, handler in handlers.items():
            sdk.on(self._rtc, event, handler)
        return handlers

    def _on_people(self, *_: object) -> None:
        self._look_around()
        self._tracks.sync()

    def _on_active(self, participant: rtc.RemoteParticipant) -> None:
        self._wire.welcome(participant.identity, self._status.welcome())

    def _on_tracks(self, *_: object) -> None:
        self._tracks.sync()

    def _on_unmuted(self, _participant: rtc.Participant, publication: rtc.TrackPublication) -> None:
        self._tracks.shown_anew(publication.sid)
        self._tracks.sync()

    def _on_reconnecting(self) -> None:
        self._stay.connection(self._now(), up=False)
        self._wire.connection(up=False)
        log.info("connection lost", extra={"room": self.kind})

    def _on_reconnected(self) -> None:
        self._stay.connection(self._now(), up=True)
        self._wire.connection(up=True)
        self._look_around()
        self._tracks.ask_anew()
        log.info("connection is back", extra={"room": self.kind})

    def _on_disconnected(self, reason: int) -> None:
        self._end(sdk.reason_name(reason))

    def _look_around(self) -> None:
        """Bring the list of people up to date, and note when the agent is alone."""
        here = self._rtc.remote_participants
        for identity in [identity for identity in self._people.identities if identity not in here]:
            self._people.remove(identity)
        for participant in here.values():
            self._people.put(_person(participant))
        self._people_changed.set()
        now = self._now()
        if self._stay.company(now, there=bool(self._people.humans)):
            self._ears.begin()  # time begins with the first visitor

    # -- what the parts ask for -------------------------------------------------------------------------------------

    def _ears_ms(self) -> float:
        return self._ears.clock_ms

    def _track_of(self, identity: str) -> str | None:
        if identity:
            return self._tracks.microphone_of(identity)
        return None if self._publication is None else self._publication.sid

    def _stretch_begins(self, stretch: int) -> None:
        self._wire.event({"type": "playout", "stretch": stretch})

    async def _acquaint(self, identity: str) -> None:
        if self._unacquainted >= _UNACQUAINTED:
            return
        self._unacquainted += 1
        try:
            async with asyncio.timeout(_ACQUAINT_S):
                while self._people.get(identity) is None and not self.closed:
                    self._people_changed.clear()
                    await self._people_changed.wait()
        except TimeoutError:
            return
        finally:
            self._unacquainted -= 1

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _surprise(error: BaseException) -> BaseException | None:
    """The error where its place in the code matters: one of ours says everything itself."""
    return None if isinstance(error, VenusError) else error


def _person(participant: rtc.RemoteParticipant) -> Person:
    joined = participant.joined_at
    return Person(
        participant.identity,
        agent=participant.kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT or is_agent(participant.attributes),
        telephone=participant.kind == rtc.ParticipantKind.PARTICIPANT_KIND_SIP,
        joined_ms=0 if joined is None else round(joined.timestamp() * 1000),
    )
