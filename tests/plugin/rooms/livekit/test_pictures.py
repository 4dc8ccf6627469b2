from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from livekit import rtc
from realtime_venus.plugin.rooms.livekit.pictures import LatestPicture


def picture(rotation: object = rtc.VideoRotation.VIDEO_ROTATION_0, red_row: int = 0) -> rtc.VideoFrameEvent:
    """64 by 32, with two red rows."""
    image = np.zeros((32, 64, 4), dtype=np.uint8)
    image[red_row : red_row + 2] = (255, 0, 0, 255)
    frame = rtc.VideoFrame(64, 32, rtc.VideoBufferType.RGBA, image.tobytes()).convert(rtc.VideoBufferType.I420)
    return rtc.VideoFrameEvent(frame, 0, cast(Any, rotation))


@pytest.mark.parametrize(
    ("rotation", "shape", "red"),
    [
        (rtc.VideoRotation.VIDEO_ROTATION_0, (32, 64, 3), (0, 30)),
        (rtc.VideoRotation.VIDEO_ROTATION_90, (64, 32, 3), (30, 31)),
        (rtc.VideoRotation.VIDEO_ROTATION_180, (32, 64, 3), (31, 30)),
        (rtc.VideoRotation.VIDEO_ROTATION_270, (64, 32, 3), (30, 0)),
    ],
)
def test_pictures_are_turned_clockwise_as_their_sender_says(
    rotation: object, shape: tuple[int, int, int], red: tuple[int, int]
) -> None:
    latest = LatestPicture(0)
    latest.put(picture(rotation), 40.0)
    frame = latest.get()
    assert frame is not None
    assert (frame.image.shape, frame.captured_ms) == (shape, 40.0)
    assert frame.image[red][0] > 200
    assert np.count_nonzero(frame.image[:, :, 0] > 200) == 128


def test_it_is_converted_when_asked_for_and_not_too_often() -> None:
    latest = LatestPicture(500)
    assert latest.get() is None
    for number in range(60):
        latest.put(picture(), number * 20.0)
        if number % 2:
            latest.get()
    assert (latest.counters.received, latest.counters.conversions) == (60, 3)
    frame = latest.get()
    assert frame is not None
    assert frame.captured_ms == 1060.0


def test_what_is_over_is_forgotten() -> None:
    latest = LatestPicture(500)
    latest.put(picture(), 0.0)
    assert latest.get() is not None
    latest.clear()
    assert latest.get() is None
    latest.put(picture(), 10.0)
    assert latest.get() is not None


def test_a_picture_that_cannot_be_converted_leaves_the_one_before() -> None:
    latest = LatestPicture(0)
    latest.put(picture(), 0.0)
    before = latest.get()
    odd = rtc.VideoFrame(64, 32, rtc.VideoBufferType.RGBA, bytes(64 * 32 * 4))  # LiveKit has no way from it to RGB
    latest.put(rtc.VideoFrameEvent(odd, 0, cast(Any, rtc.VideoRotation.VIDEO_ROTATION_0)), 600.0)
    assert latest.get() is before
    assert latest.counters.failed == 1
    latest.put(picture(), 700.0)
    after = latest.get()
    assert after is not None
    assert after.captured_ms == 700.0


def _planar(width: int, height: int) -> rtc.VideoFrame:
    """I420; the upper half red, the lower one white."""
    half_width, half_height = -(-width // 2), -(-height // 2)
    luma = np.full((height, width), 81, np.uint8)
    blue, red = np.full((half_height, half_width), 90, np.uint8), np.full((half_height, half_width), 240, np.uint8)
    luma[height // 2 :], blue[half_height // 2 :], red[half_height // 2 :] = 235, 128, 128
    data = luma.tobytes() + blue.tobytes() + red.tobytes()
    return rtc.VideoFrame(width, height, rtc.VideoBufferType.I420, data)


@pytest.mark.parametrize(
    ("size", "shape"),
    [((3840, 2160), (2160, 3840, 3)), ((7680, 4320), (2160, 3840, 3)), ((5121, 2881), (1441, 2561, 3))],
)
def test_a_picture_larger_than_4k_is_thinned_before_it_is_converted(
    size: tuple[int, int], shape: tuple[int, int, int]
) -> None:
    latest = LatestPicture(0)
    latest.put(rtc.VideoFrameEvent(_planar(*size), 0, cast(Any, rtc.VideoRotation.VIDEO_ROTATION_0)), 0.0)
    frame = latest.get()
    assert frame is not None
    assert frame.image.shape == shape
    assert latest.counters.thinned == (shape[:2] != (size[1], size[0]))
    for row, colour in ((shape[0] // 4, (255, 0, 0)), (shape[0] * 3 // 4, (255, 255, 255))):
        assert np.abs(frame.image[row, shape[1] // 2].astype(int) - colour).max() < 12


def test_a_large_picture_that_is_not_planar_is_refused_and_counted() -> None:
    latest = LatestPicture(0)
    frame = rtc.VideoFrame(7680, 4320, rtc.VideoBufferType.RGBA, bytes(7680 * 4320 * 4))
    latest.put(rtc.VideoFrameEvent(frame, 0, cast(Any, rtc.VideoRotation.VIDEO_ROTATION_0)), 0.0)
    assert latest.get() is None
    assert latest.counters.failed == 1
