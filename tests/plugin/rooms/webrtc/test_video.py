from __future__ import annotations

from fractions import Fraction

import numpy as np
from aiortc.codecs.vpx import Vp8Encoder, vp8_depayload
from av import VideoFrame
from realtime_venus.plugin.rooms.webrtc.video import (
    KEEP_MS,
    LARGEST_PICTURE,
    MOST_WAITING,
    PIXELS_PER_S,
    LatestPicture,
    PictureGate,
)


def picture(red: int) -> VideoFrame:
    image = np.zeros((48, 64, 3), dtype=np.uint8)
    image[:, :, 0] = red
    return VideoFrame.from_ndarray(image, format="rgb24")


# -- the newest one ---------------------------------------------------------------------------------------------------


def test_the_newest_frame_wins() -> None:
    latest = LatestPicture(every_ms=0)
    latest.put(picture(10), 100.0)
    latest.put(picture(200), 133.0)
    frame = latest.get(140.0)
    assert frame is not None
    assert (frame.image.shape, frame.image[0, 0].tolist(), frame.captured_ms) == ((48, 64, 3), [200, 0, 0], 133.0)
    assert latest.received == 2


def test_it_is_converted_once_and_not_too_often() -> None:
    latest = LatestPicture(every_ms=500)
    for at in range(100, 1100, 20):
        latest.put(picture(at // 10), float(at))
        frame = latest.get(float(at))
        assert frame is latest.get(float(at))
        assert frame is not None
        assert frame.captured_ms == (100.0 if at < 600 else 600.0)
    assert latest.conversions == 2


def test_nothing_before_the_first_and_after_clearing() -> None:
    latest = LatestPicture(every_ms=0)
    assert latest.get(0.0) is None
    latest.put(picture(10), 100.0)
    latest.clear()
    assert latest.get(100.0) is None


def test_what_came_long_ago_is_forgotten_whether_or_not_it_was_looked_at() -> None:
    for looks in (True, False):
        latest = LatestPicture(every_ms=500)
        latest.put(picture(10), 100.0)
        if looks:
            assert latest.get(100.0 + KEEP_MS) is not None
        assert latest.get(101.0 + KEEP_MS) is None
        latest.put(picture(20), 9000.0)
        frame = latest.get(9000.0)
        assert frame is not None
        assert frame.captured_ms == 9000.0


def test_a_picture_that_cannot_be_converted_is_one_less() -> None:
    latest = LatestPicture(every_ms=0)
    latest.put(picture(10), 100.0)
    before = latest.get(100.0)
    latest.put(VideoFrame(), 150.0)
    assert latest.get(150.0) is before
    assert latest.failed == 1


# -- what is decoded --------------------------------------------------------------------------------------------------


def whole(width: int, height: int) -> bytes:
    """The beginning of a VP8 key frame (RFC 6386, 9.1)."""
    return b"\x10\x02\x00\x9d\x01\x2a" + width.to_bytes(2, "little") + height.to_bytes(2, "little") + b"data"


CHANGE = b"\x11\x02\x00data"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_what_a_browser_encodes_is_decoded() -> None:
    gate, encoder = PictureGate(Clock()), Vp8Encoder()
    for number in range(5):
        frame = picture(40 * number).reformat(format="yuv420p")
        frame.pts, frame.time_base = number * 9000, Fraction(1, 90_000)
        payloads, _ = encoder.encode(frame)
        assert gate.admit(b"".join(vp8_depayload(payload) for payload in payloads), 0)


def test_a_picture_larger_than_4k_is_not_decoded_nor_what_builds_upon_it() -> None:
    gate = PictureGate(Clock())
    assert gate.admit(whole(3840, 2160), 0)
    assert not gate.admit(whole(3840, 2160 + 2), 0)
    assert not gate.admit(CHANGE, 0)
    assert not gate.admit(whole(16_383, 16_383), 0)
    assert gate.admit(whole(640, 480), 0)
    assert gate.admit(CHANGE, 0)
    assert (gate.counters.too_large, gate.counters.unusable) == (2, 1)
    assert LARGEST_PICTURE == 3840 * 2160


def test_nonsense_is_not_decoded() -> None:
    gate = PictureGate(Clock())
    for nonsense in (CHANGE, b"", b"\x10", whole(0, 480), b"\x10\x02\x00\x9d\x01\x2b" + b"\x10" * 20):
        assert not gate.admit(nonsense, 0)
    assert gate.admit(whole(640, 480), 0)
    for nonsense in (b"", b"\x10"):
        assert not gate.admit(nonsense, 0)
    assert gate.admit(CHANGE, 0)


def test_no_more_pixels_are_decoded_than_a_second_may_cost() -> None:
    clock = Clock()
    gate = PictureGate(clock)
    decoded = 0
    for number in range(600):  # 1080p, 60 a second for 10 s, every 30th whole
        clock.now_s = number / 60
        decoded += gate.admit(whole(1920, 1080) if number % 30 == 0 else CHANGE, 0)
    assert 0.5 * 10 * PIXELS_PER_S < decoded * 1920 * 1080 <= 11 * PIXELS_PER_S
    assert gate.counters.too_many > 0
    clock.now_s += 1
    assert gate.admit(whole(640, 480), 0)


def test_what_the_page_sends_is_always_decoded() -> None:
    clock = Clock()
    gate = PictureGate(clock)
    for number in range(600):
        clock.now_s = number / 10
        assert gate.admit(CHANGE if number else whole(640, 480), 1)


def test_few_wait_for_the_decoder_and_after_a_gap_a_whole_one_is_asked_for_once_a_second() -> None:
    clock = Clock()
    gate = PictureGate(clock)
    assert gate.admit(whole(640, 480), MOST_WAITING - 1)
    assert not gate.asks()
    assert not gate.admit(CHANGE, MOST_WAITING)
    asked: list[float] = []
    for number in range(25):
        clock.now_s = number / 10
        assert not gate.admit(CHANGE, 0), "it builds upon the one that is missing"
        if gate.asks():
            asked.append(clock.now_s)
    assert asked == [0.0, 1.0, 2.0]
    assert gate.admit(whole(640, 480), 0)
    assert not gate.asks()
