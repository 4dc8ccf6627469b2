"""What plugin/rooms/webrtc/adapter.py relies on, observed on aiortc 1.16.0 and aioice 0.13.0."""

from __future__ import annotations

import inspect
import queue
from collections.abc import Callable
from typing import cast

import aioice.ice
import pytest
from aiortc import RTCRtpReceiver, RTCRtpSender
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtp import RtpPacket
from realtime_venus.plugin.rooms.webrtc import adapter


class _Transport:
    state = "new"


def receiver() -> RTCRtpReceiver:
    return RTCRtpReceiver("audio", cast(RTCDtlsTransport, _Transport()))


def private(thing: object, name: str) -> object:
    return getattr(thing, name)


def packet(sequence: int, timestamp: int) -> RtpPacket:
    made = RtpPacket(payload_type=96, sequence_number=sequence % 65_536, timestamp=timestamp % 2**32)
    setattr(made, "_data", b"%d" % sequence)  # noqa: B010 - as aiortc's receiver does
    return made


def test_other_releases_are_refused_by_name() -> None:
    adapter.check_versions({"aiortc": "1.16.3", "aioice": "0.13.9"}.__getitem__)
    with pytest.raises(adapter.UnsupportedAiortc, match=r"aiortc 1\.17\.0.*pip install"):
        adapter.check_versions({"aiortc": "1.17.0", "aioice": "0.13.0"}.__getitem__)
    with pytest.raises(adapter.UnsupportedAiortc, match="aioice"):
        adapter.check_versions({"aiortc": "1.16.0", "aioice": "1.0.0"}.__getitem__)


def test_loopback_is_offered_once() -> None:
    adapter.offer_loopback()
    first = private(aioice.ice, "get_host_addresses")
    adapter.offer_loopback()
    assert private(aioice.ice, "get_host_addresses") is first
    addresses = cast(Callable[[bool, bool], list[str]], first)
    assert addresses(True, True).count("127.0.0.1") == 1
    assert "127.0.0.1" not in addresses(False, True)


def test_aioice_looks_the_addresses_up_by_that_name() -> None:
    source = inspect.getsource(aioice.ice.Connection.gather_candidates)
    assert "get_host_addresses(" in source
    assert list(inspect.signature(aioice.ice.get_host_addresses).parameters) == ["use_ipv4", "use_ipv6"]


async def test_the_sender_keeps_the_timestamp_of_the_packet_it_sent_last() -> None:
    sender = RTCRtpSender("audio", cast(RTCDtlsTransport, _Transport()))
    assert adapter.last_rtp_timestamp(sender) == 0
    source = inspect.getsource(RTCRtpSender)
    assert "self.__rtp_timestamp = packet.timestamp" in source
    assert source.index("await self.transport._send_rtp(packet_bytes)") < source.index(
        "self.__rtp_timestamp = packet.timestamp"
    )


def test_the_stock_buffer_holds_back_and_never_recovers() -> None:
    """Why it is replaced: remove the replacement when this test fails."""
    stock = JitterBuffer(capacity=16, prefetch=4)
    frames = [stock.add(packet(number, number * 960))[1] for number in range(30) if number != 10]
    delivered = [None if frame is None else frame.timestamp // 960 for frame in frames]
    assert delivered[:5] == [None, None, None, None, 0]
    last = delivered[-1]
    assert last is not None
    assert 29 - last >= 14


async def test_the_replacement_takes_the_place_of_buffer_and_queue() -> None:
    made = receiver()
    assert isinstance(private(made, "_RTCRtpReceiver__jitter_buffer"), JitterBuffer)
    assert isinstance(private(made, "_RTCRtpReceiver__decoder_queue"), queue.Queue)
    counters = adapter.recover_after_loss(made, 3)
    assert not isinstance(private(made, "_RTCRtpReceiver__jitter_buffer"), JitterBuffer)
    assert (counters.passed, counters.lost) == (0, 0)


async def test_after_a_loss_all_that_waited_is_decoded_with_its_own_time() -> None:
    made = receiver()
    counters = adapter.recover_after_loss(made, 3)
    buffer = cast(JitterBuffer, private(made, "_RTCRtpReceiver__jitter_buffer"))
    decoder = cast("queue.Queue[object]", private(made, "_RTCRtpReceiver__decoder_queue"))
    start = 2**32 - 5 * 960
    for number in (0, 1, 3, 4, 5, 6):
        _, frame = buffer.add(packet(65_530 + number, start + number * 960))
        if frame is not None:
            # The receiver maps the first timestamp to zero before it queues the frame.
            frame.timestamp = (frame.timestamp - start) % 2**32
            decoder.put(("opus", frame))
    decoder.put(None)
    decoded: list[tuple[bytes, int]] = []
    while (item := decoder.get_nowait()) is not None:
        _, whole = cast(tuple[str, JitterFrame], item)
        decoded.append((whole.data, whole.timestamp // 960))
    assert decoded == [(b"%d" % (65_530 + number), number) for number in (0, 1, 3, 4, 5, 6)]
    assert counters.lost == 1


def test_a_receiver_of_another_shape_is_refused() -> None:
    with pytest.raises(adapter.UnsupportedAiortc, match="jitter_buffer"):
        adapter.recover_after_loss(cast(RTCRtpReceiver, object()), 3)


def test_every_packet_leaves_through_the_transports_send_rtp() -> None:
    assert inspect.iscoroutinefunction(private(RTCDtlsTransport, "_send_rtp"))


@pytest.mark.parametrize(
    ("later", "earlier", "distance"),
    [(5, 3, 2), (3, 5, -2), (1, 2**32 - 1, 2), (2**32 - 1, 1, -2), (0, 0, 0)],
)
def test_distances_of_timestamps_wrap(later: int, earlier: int, distance: int) -> None:
    assert adapter.rtp_distance(later, earlier) == distance
