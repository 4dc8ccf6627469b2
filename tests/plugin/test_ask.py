"""What a question can be about: pictures of any kind and size, and videos second by second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image
from realtime_venus.engines.base import Frame
from realtime_venus.engines.omni.ask import Limits
from realtime_venus.engines.omni.config import SliceConfig
from realtime_venus.engines.omni.images import slice_image
from realtime_venus.plugin import ask as module
from realtime_venus.plugin.ask import BadImage, TooLong, moments, read_image
from realtime_venus.plugin.video import VideoFile, read_video

from .test_video import record, tone


@pytest.mark.parametrize(
    ("mode", "kind"), [("RGB", "jpg"), ("L", "png"), ("RGBA", "png"), ("P", "gif"), ("CMYK", "jpg"), ("I;16", "png")]
)
def test_a_picture_of_any_kind_is_rgb(tmp_path: Path, mode: str, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    Image.new(mode, (30, 20)).save(path)
    image = read_image(path)
    assert (image.shape, image.dtype) == ((20, 30, 3), np.uint8)


def test_what_is_transparent_is_white_and_a_turned_picture_is_upright(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert read_image(tmp_path / "clear.png").min() == 255
    turned = Image.new("RGB", (40, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    turned.save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path / "turned.jpg").shape == (40, 20, 3)


def test_a_picture_of_20_megapixels_is_cut_into_at_most_ten_small_ones(tmp_path: Path) -> None:
    Image.linear_gradient("L").resize((5472, 3648)).save(tmp_path / "large.jpg")
    image = read_image(tmp_path / "large.jpg")
    assert image.shape == (3648, 5472, 3)
    slices = slice_image(image, SliceConfig(), 9)
    assert 2 <= len(slices.patches) <= 10
    assert all(patch.size[0] * patch.size[1] <= 1200 for patch in slices.patches)


def test_what_is_no_picture_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BadImage, match="is no file"):
        read_image(tmp_path / "none.png")
    for content in (b"", b"hello"):
        (tmp_path / "a.png").write_bytes(content)
        with pytest.raises(BadImage, match="of no known kind"):
            read_image(tmp_path / "a.png")
    Image.effect_noise((200, 200), 90).save(tmp_path / "b.png")
    whole = (tmp_path / "b.png").read_bytes()
    (tmp_path / "b.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadImage, match="cut off"):
        read_image(tmp_path / "b.png")
    Image.new("RGB", (40, 4100)).save(tmp_path / "c.png")
    with pytest.raises(BadImage, match="at most 1 : 100 is taken"):
        read_image(tmp_path / "c.png")


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "tiff", "webp", "bmp"])
def test_a_picture_that_is_broken_anywhere_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "picture"
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(path, format=kind)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), max(1, len(whole) // 100)):
        for content in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            path.write_bytes(content)
            try:
                assert read_image(path).dtype == np.uint8
            except BadImage:
                refused += 1
    assert refused > 0


def test_one_limit_for_the_size_of_a_picture_and_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow has a limit of its own, at which it only warns; at twice that it refuses."""
    monkeypatch.setattr(module, "MAX_PIXELS", 1000)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 900)
    for width, taken in ((30, True), (40, True), (41, False), (60, False), (80, False)):
        Image.new("RGB", (width, 25)).save(tmp_path / "a.png")
        if taken:
            assert read_image(tmp_path / "a.png").shape == (25, width, 3)
            continue
        with pytest.raises(BadImage, match=r"make it 1,000 pixels at most\.$"):
            read_image(tmp_path / "a.png")


def test_no_kind_is_opened_that_runs_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("Ghostscript was started")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", never)
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 30\n%%EndComments\nshowpage\n")
    with pytest.raises(BadImage, match="of no known kind"):
        read_image(tmp_path / "a.png")


LIMITS = Limits(5, SliceConfig())


def test_a_video_is_taken_second_by_second(tmp_path: Path) -> None:
    told = moments(read_video(record(tmp_path / "a.mp4", pictures=10, sound=tone(2.5))), LIMITS)
    assert [len(moment.sound) for moment in told[:2]] == [16_000, 16_000]
    assert [moment.image is not None for moment in told] == [True, True, False]
    silent = moments(read_video(record(tmp_path / "b.mp4", pictures=10)), LIMITS)
    assert [(len(moment.sound), moment.image is not None) for moment in silent] == [(0, True)] * 2


def test_a_network_without_eyes_has_no_picture_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = read_video(record(tmp_path / "a.mp4", pictures=10, sound=tone(2)))

    def never(*_: object) -> None:
        pytest.fail("a picture was decoded")

    monkeypatch.setattr(VideoFile, "frames", never)
    told = moments(video, replace(LIMITS, sees=False))
    assert [(len(moment.sound) > 0, moment.image) for moment in told[:2]] == [(True, None)] * 2


def test_pictures_of_a_video_are_kept_at_the_size_they_are_seen_in(tmp_path: Path) -> None:
    video = VideoFile(tmp_path / "a.mp4", np.zeros(32_000, np.float32), False, True, 0)
    large = np.random.default_rng(0).integers(0, 255, (720, 1280, 3), np.uint8)
    strip = np.zeros((2, 300, 3), np.uint8)
    frames = [Frame(large, 800.0), Frame(strip, 1800.0)]
    seen = moments(cast("VideoFile", WithFrames(video, frames)), LIMITS)
    assert seen[1].image is None
    image = seen[0].image
    assert image is not None
    assert image.nbytes <= 3 * 460**2 < large.nbytes / 4
    ours, whole = (slice_image(one, SliceConfig(), 1) for one in (image, large))
    assert ours.patches[0].size == whole.patches[0].size
    assert np.array_equal(ours.patches[0].pixels, whole.patches[0].pixels)


class WithFrames:
    """A video whose pictures the test gives."""

    def __init__(self, video: VideoFile, frames: Sequence[Frame]) -> None:
        self.path, self.audio, self.has_sound = video.path, video.audio, video.has_sound
        self._frames = frames

    def frames(self, every_ms: int) -> Iterator[Frame]:
        return iter(self._frames)


def test_a_video_that_is_too_long_is_refused_before_its_pictures_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = read_video(record(tmp_path / "a.mp4", pictures=30))

    def never(*_: object) -> None:
        pytest.fail("a picture was decoded")

    monkeypatch.setattr(VideoFile, "frames", never)
    with pytest.raises(TooLong, match="lasts 6 s; ask about at most 5 s"):
        moments(video, LIMITS)
