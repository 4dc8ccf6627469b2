"""The only file that touches names aiortc and aioice keep private.

Four things cannot be had otherwise: candidates on the loopback interface, the RTP timestamp that a frame went out
with, a receiving buffer that recovers from a loss, and a look at pictures before they are decoded.  The releases are
checked when this module is imported; what is relied on is observed by
``tests/contract/test_aiortc.py`` (aiortc 1.16.0, aioice 0.13.0).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import metadata
from typing import Protocol, cast

import aioice.ice
from aiortc import RTCRtpReceiver, RTCRtpSender
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtcrtpreceiver import NackGenerator
from aiortc.rtp import RtcpByePacket, RtpPacket
from aiortc.utils import uint16_add

from ....engines.base import VenusError
from .reorder import Reorder, ReorderCounters

_VERSIONS = {"aiortc": "1.16.", "aioice": "0.13."}
_SENDER_TIMESTAMP = "_RTCRtpSender__rtp_timestamp"
_RECEIVER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_RECEIVER_QUEUE = "_RTCRtpReceiver__decoder_queue"
_RECEIVER_ERROR = "_RTCRtpReceiver__decoder_error"
_RECEIVER_NACKS = "_RTCRtpReceiver__nack_generator"
_RECEIVER_RTCP = "_handle_rtcp_packet"
_HOST_ADDRESSES = "get_host_addresses"
_UINT16 = 1 << 16
_UINT32 = 1 << 32
_LOOPBACK = "127.0.0.1"
_PICTURE_PACKETS = 512
"""Packets of the largest picture, and of what waits for a lost one; aiortc's own figure."""
_ASKED_AGAIN = 128
"""So many of the last packets aiortc asks for again; what is lost before them stays lost."""


class UnsupportedAiortc(VenusError):
    """The installed aiortc or aioice differs from the one this adapter was written for."""


def check_versions(version: Callable[[str], str] = metadata.version) -> None:
    """Raise :class:`UnsupportedAiortc` unless the installed releases are the observed ones."""
    for package, prefix in _VERSIONS.items():
        found = version(package)
        if not found.startswith(prefix):
            raise UnsupportedAiortc(
                f"{package} {found} is installed, the browser room was written for {prefix}x: "
                f"pip install '{package}=={prefix}*'"
            )


check_versions()


# -- candidates -----------------------------------------------------------------------------------------------------


class _HostAddresses(Protocol):
    def __call__(self, use_ipv4: bool, use_ipv6: bool) -> list[str]: ...


class _WithLoopback:
    def __init__(self, original: _HostAddresses) -> None:
        self._original = original

    def __call__(self, use_ipv4: bool, use_ipv6: bool) -> list[str]:
        addresses = self._original(use_ipv4, use_ipv6)
        return [*addresses, _LOOPBACK] if use_ipv4 and _LOOPBACK not in addresses else addresses


def offer_loopback() -> None:
    """Let ICE use 127.0.0.1 too; a machine without a network has no other address.  May be called repeatedly."""
    current = cast(_HostAddresses, getattr(aioice.ice, _HOST_ADDRESSES))
    if not isinstance(current, _WithLoopback):
        setattr(aioice.ice, _HOST_ADDRESSES, _WithLoopback(current))


# -- sending --------------------------------------------------------------------------------------------------------


def last_rtp_timestamp(sender: RTCRtpSender) -> int:
    """The 32-bit RTP timestamp of the packet that ``sender`` sent last (0 before the first)."""
    return cast(int, getattr(sender, _SENDER_TIMESTAMP))


def rtp_distance(later: int, earlier: int) -> int:
    """Signed difference of two RTP timestamps that wrap at 2^32."""
    distance = (later - earlier) % _UINT32
    return distance - _UINT32 if distance >= _UINT32 // 2 else distance


# -- receiving ------------------------------------------------------------------------------------------------------


class _RtpPacket(Protocol):
    sequence_number: int
    timestamp: int


class _Batch(JitterFrame):
    """A frame with those that became ready together with it; aiortc's buffer can hand over only one at a time."""

    def __init__(self, data: bytes, timestamp: int, followers: list[JitterFrame]) -> None:
        super().__init__(data, timestamp)
        self.sent_timestamp = timestamp
        self.followers = followers


class _ReorderingBuffer:
    """Stands in for aiortc's audio jitter buffer (which keeps 80 ms back, and 300 ms after the first loss)."""

    def __init__(self, patience: int) -> None:
        self._reorder: Reorder[JitterFrame] = Reorder(patience)
        self.counters = self._reorder.counters

    def add(self, packet: _RtpPacket) -> tuple[bool, JitterFrame | None]:
        data = cast(bytes, getattr(packet, "_data"))  # noqa: B009 - aiortc puts the depayloaded bytes there
        ready = self._reorder.push(packet.sequence_number, JitterFrame(data, packet.timestamp))
        if not ready:
            return False, None
        first, *rest = ready
        return False, _Batch(first.data, first.timestamp, rest)


class _UnpackingQueue(queue.Queue[object]):
    """The decoder's queue; takes a batch apart into the frames that the decoder expects."""

    def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
        if item is None:
            self._finish()
            return
        codec, frame = cast(tuple[object, JitterFrame], item)
        self._add(codec, frame)
        if isinstance(frame, _Batch):
            for follower in frame.followers:
                # The receiver has replaced the batch's timestamp by one that starts at 0 and never wraps.
                moved = frame.timestamp + rtp_distance(follower.timestamp, frame.sent_timestamp)
                self._add(codec, JitterFrame(follower.data, moved))

    def _add(self, codec: object, frame: JitterFrame) -> None:
        super().put((codec, frame))

    def _finish(self) -> None:
        super().put(None)


def recover_after_loss(receiver: RTCRtpReceiver, patience: int) -> ReorderCounters:
    """Give ``receiver`` a buffer that holds nothing back in order and forgets a lost packet after ``patience`` others.

    Call it before the connection is up (on the ``track`` event).  Returns the live counters of the buffer.
    """
    for name in (_RECEIVER_BUFFER, _RECEIVER_QUEUE):
        if not hasattr(receiver, name):
            raise UnsupportedAiortc(f"aiortc's RTCRtpReceiver has no {name}")
    buffer = _ReorderingBuffer(patience)
    setattr(receiver, _RECEIVER_BUFFER, buffer)
    setattr(receiver, _RECEIVER_QUEUE, _UnpackingQueue())
    return buffer.counters


# -- receiving pictures ---------------------------------------------------------------------------------------------


class Gate(Protocol):
    """Which encoded pictures are decoded; asked on the event loop."""

    def admit(self, data: bytes, waiting: int) -> bool:
        """Whether to decode ``data`` while ``waiting`` others wait for the decoder."""
        ...

    def asks(self) -> bool:
        """After one was not admitted: whether to ask the sender for a whole picture."""
        ...


class _PictureBuffer(JitterBuffer):
    """Hands a picture over with its last packet, which is marked (RFC 7741).

    aiortc's waits for the first packet of the next picture: what a camera saw last before it was switched off would
    come when it is switched on again.  And it waits for a lost packet long after it has stopped asking for it.
    """

    def __init__(self) -> None:
        super().__init__(capacity=_PICTURE_PACKETS, is_video=True)

    def add(self, packet: RtpPacket) -> tuple[bool, JitterFrame | None]:
        wanted, picture = super().add(packet)
        past = uint16_add(packet.sequence_number, -(self._origin or 0)) - _ASKED_AGAIN
        if picture is None and 0 < past < self._capacity and self._lacks(past):
            wanted = True
            if self.smart_remove(past):
                self._origin = uint16_add(packet.sequence_number, 1)
        return wanted, picture

    def _lacks(self, count: int) -> bool:
        """Whether one of the first ``count`` packets is missing."""
        return any(self._packets[((self._origin or 0) + place) % self._capacity] is None for place in range(count))

    def _remove_frame(self, sequence_number: int) -> JitterFrame | None:
        ready: list[JitterFrame] = []
        while (picture := self._complete()) is not None:
            ready.append(picture)
        if not ready:
            return None
        first, *rest = ready
        return _Batch(first.data, first.timestamp, rest)

    def _complete(self) -> JitterFrame | None:
        parts: list[bytes] = []
        timestamp = 0
        for count in range(self._capacity):
            packet = self._packets[((self._origin or 0) + count) % self._capacity]
            if packet is None:
                return None
            if parts and packet.timestamp != timestamp:
                self.remove(count)
                return JitterFrame(b"".join(parts), timestamp)
            timestamp = packet.timestamp
            parts.append(cast(bytes, getattr(packet, "_data")))  # noqa: B009 - as for audio
            if packet.marker:
                self.remove(count + 1)
                return JitterFrame(b"".join(parts), timestamp)
        return None


class _FewNacks(NackGenerator):
    """Asks for nothing after a jump that it could not ask for whole; aiortc's counts through all that was jumped."""

    def add(self, packet: RtpPacket) -> bool:
        jump = 0 if self.max_seq is None else uint16_add(packet.sequence_number, -self.max_seq)
        if not _ASKED_AGAIN < jump < _UINT16 // 2:
            return super().add(packet)
        self.missing.clear()
        self.max_seq = packet.sequence_number
        return False


class _GatedQueue(_UnpackingQueue):
    """Takes in only what the gate admits, and ends at once: who ends the decoder waits for it on the event loop."""

    def __init__(self, gate: Gate, lost: threading.Event) -> None:
        super().__init__()
        self._gate = gate
        self._lost = lost

    def _add(self, codec: object, frame: JitterFrame) -> None:
        if self._gate.admit(frame.data, self.qsize()):
            super()._add(codec, frame)
        elif self._gate.asks():
            self._lost.set()

    def _finish(self) -> None:
        with suppress(queue.Empty):
            while True:
                self.get_nowait()
        super()._finish()


class _Staying:
    """Hears all but a goodbye: a browser may say it of a camera that is switched off, which can come back."""

    def __init__(self, handler: Callable[[object], Awaitable[None]]) -> None:
        self._handler = handler

    async def __call__(self, packet: object) -> None:
        if not isinstance(packet, RtcpByePacket):
            await self._handler(packet)


def gate_pictures(receiver: RTCRtpReceiver, gate: Gate) -> None:
    """Let ``receiver`` decode only what ``gate`` admits, each picture as soon as it is complete.

    Call it before the connection is up (on the ``track`` event), and negotiate no codec but the gate's.
    """
    for name in (_RECEIVER_BUFFER, _RECEIVER_QUEUE, _RECEIVER_ERROR, _RECEIVER_NACKS, _RECEIVER_RTCP):
        if not hasattr(receiver, name):
            raise UnsupportedAiortc(f"aiortc's RTCRtpReceiver has no {name}")
    lost = cast(threading.Event, getattr(receiver, _RECEIVER_ERROR))
    handler = cast(Callable[[object], Awaitable[None]], getattr(receiver, _RECEIVER_RTCP))
    setattr(receiver, _RECEIVER_BUFFER, _PictureBuffer())
    setattr(receiver, _RECEIVER_NACKS, _FewNacks())
    setattr(receiver, _RECEIVER_QUEUE, _GatedQueue(gate, lost))
    setattr(receiver, _RECEIVER_RTCP, _Staying(handler))
