"""One connection to one page: from its offer to its end, which comes once and for a stated reason."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, cast

from aiortc import (
    MediaStreamTrack,
    RTCBundlePolicy,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)
from aiortc.exceptions import InternalError, InvalidAccessError, InvalidStateError, OperationError
from aiortc.mediastreams import MediaStreamError
from aiortc.sdp import SessionDescription
from av import AudioFrame, VideoFrame

from ....engines.base import Int16Pcm, VenusError
from ..base import Command, PlayoutSource
from ..messages import pack
from ..outbox import Outbox
from . import adapter
from .input import Writer
from .messages import AckRtp, BadMessage, Bye, Incoming, Ping, Pong, parse
from .options import WebRtcOptions
from .output import AgentTrack
from .reorder import ReorderCounters
from .video import PictureCounters, PictureGate

log = logging.getLogger(__name__)

_CHANNEL = "events"
_BUFFERED = 256 * 1024
"""Bytes that may wait inside the data channel; events beyond stay in the outbox, where they can still be dropped."""
_PONG_BUFFERED = 64 * 1024
"""Bytes waiting beyond which pings are not answered: a page that asks and does not read must not fill the memory."""
_TICK_S = 0.25
_FAREWELL_STEPS = 20
_FAREWELL_STEP_S = 0.01
"""How long (200 ms in all) the last message may take to leave before the connection is taken down."""
_UNREADABLE = (
    ValueError,
    IndexError,
    KeyError,
    AttributeError,
    TypeError,
    AssertionError,
    InternalError,
    InvalidAccessError,
    InvalidStateError,
)
"""What aiortc raises on descriptions it cannot read or does not expect."""
_NO_CODEC = "the browser offers no codec that this room knows (Opus for sound, VP8 for pictures)"


class OfferRefused(VenusError):
    """The offer cannot be answered; ``code`` names why for the page."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PeerState(StrEnum):
    """Where a connection stands; it only ever moves forward."""

    NEW = "new"
    NEGOTIATED = "negotiated"
    CONNECTED = "connected"
    CLOSED = "closed"


class PeerOwner(Protocol):
    """What a peer reports to its room; all of it on the event loop, none of it may block."""

    def open_writer(self) -> Writer:
        """A place for the audio of this connection."""
        ...

    def picture(self, frame: VideoFrame, now_s: float) -> None:
        """A frame of the user's camera."""
        ...

    def command(self, command: Command) -> None:
        """Something the page asked for."""
        ...

    def played(self, number: int) -> None:
        """The listener has heard the frame ``number``."""
        ...

    def joined(self, peer: Peer) -> None:
        """The data channel is open."""
        ...

    def lost(self, peer: Peer, reason: str, *, leaving: bool) -> None:
        """The connection has ended; ``leaving`` when the page said goodbye.  Called exactly once."""
        ...


class _Received(Protocol):
    async def recv(self) -> object: ...


@dataclass(slots=True)
class PeerCounters:
    """What went wrong on the connection."""

    bad_messages: int = 0
    foreign_acks: int = 0
    """Acknowledgements of frames that were never sent."""
    unanswered_pings: int = 0
    """Pings that came while too much was waiting for the page."""
    audio: list[ReorderCounters] = field(default_factory=list[ReorderCounters])
    pictures: list[PictureCounters] = field(default_factory=list[PictureCounters])


class Peer:
    """Wraps one ``RTCPeerConnection``.  :meth:`answer` once, then it lives by itself until :meth:`close` or a fault."""

    def __init__(self, owner: PeerOwner, source: PlayoutSource, outbox: Outbox, options: WebRtcOptions) -> None:
        adapter.offer_loopback()
        self._owner = owner
        self._outbox = outbox
        self._options = options
        self._connection = RTCPeerConnection(
            RTCConfiguration(
                iceServers=[
                    RTCIceServer(urls=list(server.urls), username=server.username, credential=server.credential)
                    for server in options.ice_servers
                ],
                bundlePolicy=RTCBundlePolicy.MAX_BUNDLE,
            )
        )
        self._track = AgentTrack(source, options.late_ms)
        self._channel: RTCDataChannel | None = None
        self._state = PeerState.NEW
        self._ended = asyncio.Event()
        self._reason = ""
        self._leaving = False
        self._supervisor: asyncio.Task[None] | None = None
        self._drains: list[Coroutine[Any, Any, None]] = []
        self._expects_audio = False
        self._audio_s: float | None = None
        self._message_s: float | None = None
        self._next_chunk = 0
        self.counters = PeerCounters()

    @property
    def state(self) -> PeerState:
        return self._state

    @property
    def expects_audio(self) -> bool:
        """Whether the page sends audio."""
        return self._expects_audio

    @property
    def track(self) -> AgentTrack:
        """The agent's track, for its counters."""
        return self._track

    # -- negotiation ------------------------------------------------------------------------------------------------

    async def answer(self, sdp: str) -> str:
        """Answer the page's offer (full ICE, no trickle) and start to supervise.  Raises :class:`OfferRefused`."""
        if self._state is not PeerState.NEW:
            raise OfferRefused("used", "this connection has been negotiated already")
        try:
            answer = await self._negotiate(sdp)
        except BaseException:
            self._state = PeerState.CLOSED
            for drain in self._drains:
                drain.close()
            await self._close_connection()
            raise
        self._state = PeerState.NEGOTIATED
        self._supervisor = asyncio.create_task(self._supervise(), name="webrtc-peer")
        return answer

    async def _negotiate(self, sdp: str) -> str:
        connection = self._connection
        sender = connection.addTrack(self._track)
        self._track.bind(lambda: adapter.last_rtp_timestamp(sender))
        voice = connection.getTransceivers()[0]
        opus = [c for c in RTCRtpSender.getCapabilities("audio").codecs if c.mimeType.lower() == "audio/opus"]
        voice.setCodecPreferences(opus)
        connection.on("track", self._on_track)
        connection.on("datachannel", self._on_channel)
        connection.on("connectionstatechange", self._on_state)
        try:
            offered = SessionDescription.parse(sdp).media
            cameras = [media.kind for media in offered].count("video")
            if not all(media.dtls and media.dtls.fingerprints for media in offered):
                raise OfferRefused("sdp", "the offer has a section without a certificate fingerprint")
            if cameras > self._options.video_sections:
                raise OfferRefused("sdp", f"the offer has more than {self._options.video_sections} video sections")
            for _ in range(cameras):
                _expect_pictures(connection)
            await connection.setRemoteDescription(RTCSessionDescription(sdp=sdp, type="offer"))
        except OperationError:
            raise OfferRefused("codec", _NO_CODEC) from None
        except _UNREADABLE as error:
            raise OfferRefused("sdp", f"the offer is no valid session description ({type(error).__name__})") from None
        if [t.kind for t in connection.getTransceivers()].count("audio") != 1 or voice.mid is None:
            raise OfferRefused("sdp", "the offer must have exactly one audio section")
        if connection.sctp is None:
            raise OfferRefused("sdp", "the offer has no data channel")
        try:
            await connection.setLocalDescription(await connection.createAnswer())
        except _UNREADABLE as error:
            raise OfferRefused("sdp", f"the offer cannot be answered ({type(error).__name__})") from None
        return connection.localDescription.sdp

    # -- what the library calls -------------------------------------------------------------------------------------

    def _on_track(self, track: MediaStreamTrack) -> None:
        receiver = next(r for r in self._connection.getReceivers() if r.track is track)
        if track.kind == "audio":
            self._expects_audio = True
            self.counters.audio.append(adapter.recover_after_loss(receiver, self._options.reorder_packets))
            self._drains.append(self._drain_audio(track, self._owner.open_writer()))
        else:
            gate = PictureGate(self._now)
            self.counters.pictures.append(gate.counters)
            adapter.gate_pictures(receiver, gate)
            self._drains.append(self._drain_video(track))

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if channel.label != _CHANNEL or self._channel is not None:
            channel.close()
            return
        self._channel = channel
        channel.on("message", self._on_message)
        channel.on("close", lambda: self._end("channel_closed"))
        self._message_s = self._now()
        if self._state is PeerState.NEGOTIATED:
            self._state = PeerState.CONNECTED
            self._owner.joined(self)

    def _on_state(self) -> None:
        if self._connection.connectionState in ("failed", "closed"):
            self._end(self._connection.connectionState)

    def _on_message(self, message: str | bytes) -> None:
        self._message_s = self._now()
        try:
            incoming = parse(message)
        except BadMessage:
            self.counters.bad_messages += 1
            return
        self._handle(incoming)

    def _handle(self, incoming: Incoming) -> None:
        match incoming:
            case Ping():
                if self._channel is not None and self._channel.bufferedAmount <= _PONG_BUFFERED:
                    self._send({"type": "pong"})
                else:
                    self.counters.unanswered_pings += 1
            case Pong():
                pass
            case Bye():
                self._end("left", leaving=True)
            case AckRtp(rtp=rtp):
                number = self._track.frame_played(rtp)
                if number is None:
                    self.counters.foreign_acks += 1
                else:
                    self._owner.played(number)
            case _:
                self._owner.command(incoming)

    # -- supervision ------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(drain) for drain in self._drains]
                tasks.append(group.create_task(self._watch()))
                tasks.append(group.create_task(self._send_events()))
                await self._ended.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._state = PeerState.CLOSED
            await self._close_connection()
            self._owner.lost(self, self._reason or "cancelled", leaving=self._leaving)

    async def _drain_audio(self, track: MediaStreamTrack, writer: Writer) -> None:
        while True:
            try:
                frame = cast(AudioFrame, await cast(_Received, track).recv())
            except MediaStreamError:
                return
            now = self._audio_s = self._now()
            channels = len(frame.layout.channels)
            samples = cast(Int16Pcm, frame.to_ndarray()).reshape(-1)
            writer.write(samples, samples.size // channels, frame.pts or 0, now)

    async def _drain_video(self, track: MediaStreamTrack) -> None:
        while True:
            try:
                frame = cast(VideoFrame, await cast(_Received, track).recv())
            except MediaStreamError:
                return
            self._owner.picture(frame, self._now())

    async def _watch(self) -> None:
        """Ping the page, and end the connection when it shows no sign of life."""
        options = self._options
        began = last_ping = self._now()
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._now()
            alive = self._message_s is not None and (self._audio_s is not None or not self._expects_audio)
            if not alive and now - began > options.media_deadline_s:
                self._end("no_media")
                return
            signs = [s for s in (self._message_s, self._audio_s) if s is not None]
            if signs and now - max(signs) > options.silence_s:
                self._end("silent")
                return
            if now - last_ping >= options.heartbeat_s:
                last_ping = now
                if self._channel is not None and self._channel.bufferedAmount <= _BUFFERED:
                    self._send({"type": "ping"})

    async def _send_events(self) -> None:
        while True:
            await self._outbox.wait()
            channel = self._channel
            if channel is None or channel.readyState != "open" or channel.bufferedAmount > _BUFFERED:
                await asyncio.sleep(_TICK_S / 5)
                continue
            event = self._outbox.take()
            if event is not None:
                self._send(event)

    def _send(self, event: dict[str, Any]) -> None:
        channel = self._channel
        if channel is None or channel.readyState != "open":
            return
        self._next_chunk += 1
        for message in pack(event, self._next_chunk):
            channel.send(message)

    # -- the end ----------------------------------------------------------------------------------------------------

    def _end(self, reason: str, *, leaving: bool = False) -> None:
        if not self._ended.is_set():
            self._reason, self._leaving = reason, leaving
            self._ended.set()

    async def close(self, reason: str) -> None:
        """End the connection and wait until it has; any number of callers may do so, at any time."""
        if self._supervisor is None:
            self._state = PeerState.CLOSED
            await self._close_connection()
            return
        if not self._ended.is_set():
            self._send({"type": "closing", "reason": reason})
            try:
                await self._flush()
            finally:
                self._end(reason)
        await asyncio.wait([self._supervisor])

    async def _flush(self) -> None:
        for _ in range(_FAREWELL_STEPS):
            if self._channel is None or not self._channel.bufferedAmount:
                return
            await asyncio.sleep(_FAREWELL_STEP_S)

    async def _close_connection(self) -> None:
        try:
            async with asyncio.timeout(self._options.close_deadline_s):
                await self._connection.close()
        except TimeoutError:
            log.warning("closing a connection took too long", extra={"deadline_s": self._options.close_deadline_s})

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _expect_pictures(connection: RTCPeerConnection) -> None:
    """Agree on nothing but VP8 for the next video section: every browser has it, and its size is seen undecoded."""
    known = RTCRtpSender.getCapabilities("video").codecs
    eye = connection.addTransceiver("video", direction="recvonly")
    eye.setCodecPreferences([codec for codec in known if codec.mimeType.lower() in ("video/vp8", "video/rtx")])
