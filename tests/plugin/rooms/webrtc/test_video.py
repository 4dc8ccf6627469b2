from __future__ import annotations

import numpy as np
from av import VideoFrame
from realtime_venus.plugin.rooms.webrtc.video import LatestPicture


def picture(red: int) -> VideoFrame:
    image = np.zeros((48, 64, 3), dtype=np.uint8)
    image[:, :, 0] = red
    return VideoFrame.from_ndarray(image, format="rgb24")


def test_the_newest_frame_wins() -> None:
    latest = LatestPicture()
    latest.put(picture(10), 100.0)
    latest.put(picture(200), 133.0)
    frame = latest.get()
    assert frame is not None
    assert (frame.image.shape, frame.image[0, 0].tolist(), frame.captured_ms) == ((48, 64, 3), [200, 0, 0], 133.0)
    assert latest.received == 2


def test_it_is_converted_once() -> None:
    latest = LatestPicture()
    latest.put(picture(10), 100.0)
    assert latest.get() is latest.get()


def test_nothing_before_the_first_and_after_clearing() -> None:
    latest = LatestPicture()
    assert latest.get() is None
    latest.put(picture(10), 100.0)
    latest.clear()
    assert latest.get() is None
