from __future__ import annotations

import numpy as np
import pytest
from livekit import rtc
from realtime_venus.plugin.livekit.picture import NewestPicture


def picture(red: int) -> rtc.VideoFrame:
    rgba = np.tile(np.array([red, 0, 0, 255], np.uint8), (4, 6, 1))
    return rtc.VideoFrame(6, 4, rtc.VideoBufferType.RGBA, rgba.tobytes())


def test_the_newest_frame_is_taken_once_at_the_end_of_a_unit() -> None:
    newest = NewestPicture(100)
    taken: list[tuple[int, int, float]] = []
    for chunk in range(15):
        newest.put(picture(chunk), chunk * 20)
        frame = newest.take(chunk * 20, (chunk + 1) * 20)
        taken += [] if frame is None else [(chunk, int(frame.image[0, 0, 0]), frame.captured_ms)]
    assert taken == [(4, 4, 80), (9, 9, 180), (14, 14, 280)]
    assert (newest.received, newest.converted) == (15, 3)


@pytest.mark.parametrize(
    "kind",
    [rtc.VideoBufferType.RGBA, rtc.VideoBufferType.BGRA, rtc.VideoBufferType.I420],
)
def test_a_frame_of_any_kind_is_an_rgb_image(kind: rtc.VideoBufferType.ValueType) -> None:
    newest = NewestPicture(100)
    newest.put(picture(200) if kind == rtc.VideoBufferType.RGBA else picture(200).convert(kind), 0)
    frame = newest.take(80, 100)
    assert frame is not None
    assert frame.image.shape == (4, 6, 3)
    assert frame.image.flags.c_contiguous
    assert np.abs(frame.image[3, 5].astype(int) - [200, 0, 0]).max() < 12


def test_the_same_frame_is_not_taken_twice() -> None:
    newest = NewestPicture(100)
    newest.put(picture(1), 0)
    assert newest.take(80, 100) is not None
    assert newest.take(180, 200) is None


def test_a_picture_larger_than_4k_is_thinned() -> None:
    newest = NewestPicture(100)
    grey = rtc.VideoFrame(7680, 4320, rtc.VideoBufferType.I420, bytes([128]) * (7680 * 4320 * 3 // 2))
    newest.put(grey, 0)
    frame = newest.take(80, 100)
    assert frame is not None
    assert frame.image.shape == (2160, 3840, 3)
