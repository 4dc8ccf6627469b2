"""What plugin/rooms/webrtc/adapter.py relies on, observed on aiortc 1.16.0 and aioice 0.13.0."""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import cast

import aioice.ice
import pytest
from aiortc import RTCRtpReceiver, RTCRtpSender
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtp import RtcpByePacket, RtpPacket
from realtime_venus.plugin.rooms.webrtc import adapter


class _Transport:
    state = "new"


def receiver(kind: str = "audio") -> RTCRtpReceiver:
    return RTCRtpReceiver(kind, cast(RTCDtlsTransport, _Transport()))


def private(thing: object, name: str) -> object:
    return getattr(thing, name)


def packet(sequence: int, timestamp: int, marker: int = 0) -> RtpPacket:
    made = RtpPacket(payload_type=96, marker=marker, sequence_number=sequence % 65_536, timestamp=timestamp % 2**32)
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


# -- pictures ---------------------------------------------------------------------------------------------------------


class Door:
    """Admits what ``closed`` does not forbid, and keeps how many waited."""

    def __init__(self) -> None:
        self.closed = False
        self.waiting: list[int] = []

    def admit(self, data: bytes, waiting: int) -> bool:
        self.waiting.append(waiting)
        return not self.closed

    def asks(self) -> bool:
        return self.closed


def gated() -> tuple[RTCRtpReceiver, Door]:
    made, door = receiver("video"), Door()
    adapter.gate_pictures(made, door)
    return made, door


def buffer_of(made: RTCRtpReceiver) -> JitterBuffer:
    return cast(JitterBuffer, private(made, "_RTCRtpReceiver__jitter_buffer"))


def queue_of(made: RTCRtpReceiver) -> queue.Queue[object]:
    return cast("queue.Queue[object]", private(made, "_RTCRtpReceiver__decoder_queue"))


def waiting_in(waiting: queue.Queue[object]) -> list[tuple[bytes, int] | None]:
    """What a decoder would be given next: data and timestamp, and ``None`` for the end."""
    found: list[tuple[bytes, int] | None] = []
    while not waiting.empty():
        item = cast("tuple[str, JitterFrame] | None", waiting.get_nowait())
        found.append(None if item is None else (item[1].data, item[1].timestamp))
    return found


def test_the_stock_buffer_keeps_the_last_picture_until_the_next_begins() -> None:
    """Why it is replaced: remove the replacement when this test fails."""
    stock = JitterBuffer(capacity=512, is_video=True)
    assert stock.add(packet(1, 9000, marker=1)) == (False, None)
    _, late = stock.add(packet(2, 900_000, marker=1))
    assert late is not None
    assert late.timestamp == 9000


async def test_a_picture_is_handed_over_with_its_last_packet() -> None:
    made, _ = gated()
    pictures = buffer_of(made)
    assert pictures.add(packet(65_534, 9000)) == (False, None)
    assert pictures.add(packet(65_535, 9000)) == (False, None)
    _, first = pictures.add(packet(65_536, 9000, marker=1))
    assert first is not None
    assert (first.data, first.timestamp) == (b"655346553565536", 9000)
    _, second = pictures.add(packet(65_537, 900_000, marker=1))
    assert second is not None
    assert (second.data, second.timestamp) == (b"65537", 900_000)
    assert pictures.add(packet(65_538, 909_000)) == (False, None)
    _, unmarked = pictures.add(packet(65_539, 918_000))
    assert unmarked is not None
    assert unmarked.timestamp == 909_000


async def test_pictures_that_waited_for_a_lost_packet_come_together_and_in_order() -> None:
    made, door = gated()
    pictures, decoder = buffer_of(made), queue_of(made)
    _, first = pictures.add(packet(0, 0, marker=1))
    assert first is not None
    for number in (2, 3):
        assert pictures.add(packet(number, number * 9000, marker=1)) == (False, None)
    _, batch = pictures.add(packet(1, 9000, marker=1))
    decoder.put(("VP8", batch))
    assert waiting_in(decoder) == [(b"1", 9000), (b"2", 18_000), (b"3", 27_000)]
    assert door.waiting == [0, 1, 2]


async def test_a_packet_that_is_asked_for_no_more_is_not_waited_for_either() -> None:
    made, _ = gated()
    pictures = buffer_of(made)
    pictures.add(packet(0, 0, marker=1))
    wanted: list[int] = []
    shown: list[int] = []
    for number in range(2, 300):  # the first is lost
        asks, picture = pictures.add(packet(number, number * 9000, marker=1))
        if asks:
            wanted.append(number)
        if picture is not None:
            shown.append(number)
    assert len(wanted) == 1
    assert 120 < wanted[0] < 140
    assert shown[0] <= wanted[0] + 1
    assert shown[-1] == 299


async def test_a_large_picture_without_a_loss_is_waited_for() -> None:
    made, _ = gated()
    pictures = buffer_of(made)
    for number in range(499):
        assert pictures.add(packet(number, 9000)) == (False, None)
    _, picture = pictures.add(packet(499, 9000, marker=1))
    assert picture is not None
    assert len(picture.data) == sum(len(str(number)) for number in range(500))


async def test_only_what_the_gate_admits_reaches_the_decoder_and_the_sender_is_asked() -> None:
    made, door = gated()
    decoder = queue_of(made)
    lost = cast(threading.Event, private(made, "_RTCRtpReceiver__decoder_error"))
    decoder.put(("VP8", JitterFrame(b"one", 1)))
    door.closed = True
    decoder.put(("VP8", JitterFrame(b"two", 2)))
    assert lost.is_set()
    assert waiting_in(decoder) == [(b"one", 1)]
    source = inspect.getsource(RTCRtpReceiver)
    assert source.index("self.__decoder_error.clear()") < source.index("await self._send_rtcp_pli(packet.ssrc)")


async def test_at_the_end_nothing_is_decoded_any_more() -> None:
    made, _ = gated()
    decoder = queue_of(made)
    for number in range(5):
        decoder.put(("VP8", JitterFrame(b"late", number)))
    decoder.put(None)
    assert waiting_in(decoder) == [None]
    assert "__decoder_thread.join()" in inspect.getsource(RTCRtpReceiver), "on the event loop"


async def test_after_a_jump_nothing_is_asked_for_again() -> None:
    made, _ = gated()
    nacks = private(made, "_RTCRtpReceiver__nack_generator")
    add = cast(Callable[[RtpPacket], bool], private(nacks, "add"))
    missing = cast(set[int], private(nacks, "missing"))
    assert not add(packet(10, 0))
    assert add(packet(13, 0))
    assert missing == {11, 12}
    assert not add(packet(20_000, 0))
    assert not missing
    assert add(packet(20_003, 0))
    assert missing == {20_001, 20_002}


async def test_a_goodbye_of_a_camera_ends_nothing() -> None:
    made, _ = gated()
    decoder = queue_of(made)
    setattr(made, "_RTCRtpReceiver__decoder_thread", threading.Thread())  # noqa: B010 - as if it ran
    said = RtcpByePacket(sources=[1])
    await cast(Callable[[object], Awaitable[None]], private(made, "_handle_rtcp_packet"))(said)
    assert decoder.empty()
    assert "recipient._handle_rtcp_packet(packet)" in inspect.getsource(RTCDtlsTransport)
    assert "RtcpByePacket" in inspect.getsource(RTCRtpReceiver), "it ends the decoder for good"


def test_a_receiver_without_what_pictures_need_is_refused() -> None:
    with pytest.raises(adapter.UnsupportedAiortc, match="jitter_buffer"):
        adapter.gate_pictures(cast(RTCRtpReceiver, object()), Door())
