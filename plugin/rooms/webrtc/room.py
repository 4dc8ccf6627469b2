"""A room for one browser: it outlives the connections to its page, so that a break does not end the conversation."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

import numpy as np
from av import VideoFrame

from ....engines.base import Frame, VenusError
from ..base import (
    PLAYOUT_SAMPLES,
    AudioChunk,
    Command,
    PlayoutFrame,
    PlayoutSource,
)
from ..commands import CommandQueue
from ..input import InputCounters, UserAudio
from ..outbox import Outbox
from .input import Writer, open_writer
from .options import WebRtcOptions
from .peer import Peer, PeerState
from .video import LatestPicture

log = logging.getLogger(__name__)

_FILL_AFTER_S = 0.5
"""Without audio for so long the room lets time go on by itself."""
_FILL_EVERY_S = 0.1


class AlreadyConnected(VenusError):
    """Another page is connected to this room."""


class RoomClosed(VenusError):
    """The room has been left."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page needs to go on: our description, and the key with which it may replace its own connection."""

    sdp: str
    resume: str


class _Silence:
    """What is played until the session says what to play."""

    def __init__(self) -> None:
        self._pcm = np.zeros(PLAYOUT_SAMPLES, dtype=np.int16)

    def pull(self) -> PlayoutFrame:
        return PlayoutFrame(number=-1, pcm=self._pcm, silent=True)


class _Outlet:
    """The source that tracks pull from; what is behind it can change while they do."""

    def __init__(self) -> None:
        self.source: PlayoutSource = _Silence()

    def pull(self) -> PlayoutFrame:
        return self.source.pull()


class WebRtcRoom:
    """Implements :class:`~realtime_venus.plugin.rooms.base.MediaRoom` over aiortc.

    The room closes by itself when no page joins within ``join_s``, when a lost page does not come back within
    ``grace_s``, and when the page says goodbye.  Everything happens on the event loop that made it.
    """

    def __init__(self, options: WebRtcOptions | None = None) -> None:
        self._options = options or WebRtcOptions()
        self._audio = UserAudio(self._options.audio_backlog_ms)
        self._picture = LatestPicture(self._options.picture_every_ms)
        self._outlet = _Outlet()
        self._outbox = Outbox(self._options.outbox_events)
        self._commands = CommandQueue()
        self._peer: Peer | None = None
        self._resume = secrets.token_urlsafe(24)
        self._microphone = False
        self._closed = asyncio.Event()
        self._reason = ""
        self._closing: asyncio.Task[None] | None = None
        self._keeper = asyncio.create_task(self._keep(), name="webrtc-room")
        self._alone_since: float | None = self._now()
        self._joined = False

    # -- MediaRoom --------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return "webrtc"

    @property
    def acknowledges(self) -> bool:
        return True

    @property
    def playout_delay_ms(self) -> int:
        return 100

    def audio(self) -> AsyncIterator[AudioChunk]:
        return self._audio.chunks()

    def latest_frame(self) -> Frame | None:
        if not self._picture.received:
            return None  # whoever looks is no sign of the user, with which the clock begins
        return self._picture.get(self._audio.clock.milliseconds(self._now()))

    def play(self, source: PlayoutSource) -> None:
        self._outlet.source = source

    def publish(self, event: dict[str, Any]) -> None:
        if not self.closed:
            self._outbox.put(event)

    def commands(self) -> AsyncIterator[Command]:
        return self._commands.stream()

    @property
    def commands_dropped(self) -> int:
        """Commands that gave way to later ones."""
        return self._commands.dropped

    async def close(self) -> None:
        await self.leave("closed")

    # -- beyond MediaRoom -------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def reason(self) -> str:
        """Why the room was left, as a code (``left``, ``page_gone``, ``no_page``...); empty while it is open."""
        return self._reason

    @property
    def connected(self) -> bool:
        """Whether a page is here at the moment (or its connection is being made)."""
        return self._peer is not None and self._peer.state is not PeerState.CLOSED

    @property
    def peer(self) -> Peer | None:
        """The present connection, for its counters."""
        return self._peer

    @property
    def input_counters(self) -> InputCounters:
        return self._audio.counters

    @property
    def events_dropped(self) -> int:
        return self._outbox.dropped

    async def wait_closed(self) -> None:
        """Wait until the room has been left."""
        await self._closed.wait()

    async def accept(self, offer_sdp: str, resume: str = "") -> Answer:
        """Connect a page by its offer.

        Raises :class:`AlreadyConnected` while a page is here, unless ``resume`` is the key of an earlier answer: then
        the new connection takes the place of the old one.  Raises ``OfferRefused`` and :class:`RoomClosed`.
        """
        if self.closed:
            raise RoomClosed("this session has ended; start a new one")
        old = self._peer
        if old is not None and old.state is not PeerState.CLOSED and not self._may_resume(resume):
            raise AlreadyConnected("another page is connected to this session")
        peer = Peer(self, self._outlet, self._outbox, self._options)
        self._peer = peer
        self._alone_since = None
        try:
            if old is not None:
                await old.close("replaced")
            sdp = await peer.answer(offer_sdp)
        except BaseException:
            if self._peer is peer:
                self._alone_since = self._now()
            await peer.close("failed")
            raise
        if self.closed:
            await peer.close(self._reason)
            raise RoomClosed("this session has ended; start a new one")
        return Answer(sdp, self._resume)

    async def leave(self, reason: str) -> None:
        """Close the room; whoever calls it, and however often, waits until it is done."""
        if self._closing is None:
            self._reason = reason
            self._closing = asyncio.create_task(self._close(), name="webrtc-room-close")
        await asyncio.wait([self._closing])

    def _may_resume(self, resume: str) -> bool:
        return compare_digest(resume.encode(errors="surrogatepass"), self._resume.encode())

    async def _close(self) -> None:
        self._closed.set()
        self._audio.close()
        self._commands.close()
        self._keeper.cancel()
        if self._peer is not None:
            await self._peer.close(self._reason)
        await asyncio.wait([self._keeper])
        log.info("room left", extra={"reason": self._reason})

    async def _keep(self) -> None:
        """Let time go on without audio, and close the room when nobody is in it for too long."""
        now = self._now()
        while True:
            slept_from, last = now, self._audio.last_arrival_s
            pause = _FILL_EVERY_S
            if last is not None and self._alone_since is None:  # audio came: until it could be missed there is time
                pause = max(pause, last + _FILL_AFTER_S - now)
            await asyncio.sleep(pause)
            now = self._now()
            last = self._audio.last_arrival_s
            # After a stall of the whole loop there may be audio that has come and waits to be read.
            stalled = now - slept_from > pause + _FILL_EVERY_S
            if not stalled and self._audio.clock.started and (last is None or now - last > _FILL_AFTER_S):
                self._audio.fill(now, lost=last is not None)
            limit = self._options.grace_s if self._joined else self._options.join_s
            if self._alone_since is not None and now - self._alone_since > limit:
                reason = "page_gone" if self._joined else "no_page"
                self._closing = self._closing or asyncio.create_task(self._close(), name="webrtc-room-close")
                self._reason = self._reason or reason
                return

    # -- PeerOwner --------------------------------------------------------------------------------------------------

    def open_writer(self) -> Writer:
        return open_writer(self._audio, channels=2)

    def picture(self, frame: VideoFrame, now_s: float) -> None:
        self._picture.put(frame, self._audio.clock.milliseconds(now_s))

    def command(self, command: Command) -> None:
        self._commands.put(command)

    def played(self, number: int) -> None:
        self._commands.played(number)

    def joined(self, peer: Peer) -> None:
        self._joined = True
        if not peer.expects_audio:
            # Otherwise time begins with the first sound.
            self._audio.clock.position(self._now())
        log.info("page connected", extra={"room": self.kind})

    def lost(self, peer: Peer, reason: str, *, leaving: bool) -> None:
        log.info("page lost", extra={"reason": reason, "leaving": leaving})
        if peer is not self._peer:
            return
        self._picture.clear()
        self._alone_since = self._now()
        if leaving and self._closing is None:
            self._reason = reason
            self._closing = asyncio.create_task(self._close(), name="webrtc-room-close")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
