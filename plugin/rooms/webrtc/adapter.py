"""The only file that touches names aiortc and aioice keep private.

Three things cannot be had otherwise: candidates on the loopback interface, the RTP timestamp that a frame went out
with, and a receiving buffer that recovers from a loss.  The releases are checked when this module is imported; what is
relied on is observed by
``tests/contract/test_aiortc.py`` (aiortc 1.16.0, aioice 0.13.0).
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from importlib import metadata
from typing import Protocol, cast

import aioice.ice
from aiortc import RTCRtpReceiver, RTCRtpSender
from aiortc.jitterbuffer import JitterFrame

from ....engines.base import VenusError
from .reorder import Reorder, ReorderCounters

_VERSIONS = {"aiortc": "1.16.", "aioice": "0.13."}
_SENDER_TIMESTAMP = "_RTCRtpSender__rtp_timestamp"
_RECEIVER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
_RECEIVER_QUEUE = "_RTCRtpReceiver__decoder_queue"
_HOST_ADDRESSES = "get_host_addresses"
_UINT32 = 1 << 32
_LOOPBACK = "127.0.0.1"


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
        super().put(item, block, timeout)
        if item is None:
            return
        codec, frame = cast(tuple[object, JitterFrame], item)
        if isinstance(frame, _Batch):
            for follower in frame.followers:
                # The receiver has replaced the batch's timestamp by one that starts at 0 and never wraps.
                moved = frame.timestamp + rtp_distance(follower.timestamp, frame.sent_timestamp)
                super().put((codec, JitterFrame(follower.data, moved)), block, timeout)


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
