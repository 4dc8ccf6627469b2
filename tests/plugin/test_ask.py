"""What a question can be about: pictures of any kind and size, and videos second by second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from realtime_venus.engines.omni.config import SliceConfig
from realtime_venus.engines.omni.images import slice_image
from realtime_venus.plugin import ask as module
from realtime_venus.plugin.ask import BadImage, TooLong, moments, read_image
from realtime_venus.plugin.video import read_video

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


def test_what_is_no_picture_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    Image.new("RGB", (100, 100)).save(tmp_path / "c.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(BadImage, match="smaller than 1,000 pixels"):
        read_image(tmp_path / "c.png")


def test_a_video_is_taken_second_by_second(tmp_path: Path) -> None:
    told = moments(read_video(record(tmp_path / "a.mp4", pictures=10, sound=tone(2.5))))
    assert [len(moment.sound) for moment in told[:2]] == [16_000, 16_000]
    assert [moment.image is not None for moment in told] == [True, True, False]
    silent = moments(read_video(record(tmp_path / "b.mp4", pictures=10)))
    assert [(len(moment.sound), moment.image is not None) for moment in silent] == [(0, True)] * 2


def test_a_video_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 1)
    with pytest.raises(TooLong, match="at most 1 s"):
        moments(read_video(record(tmp_path / "a.mp4", pictures=10)))
