"""What a question can be about, read from files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from ..engines.base import INPUT_HZ, MissingExtra, RgbImage, VenusError
from ..engines.omni.ask import Moment
from .video import VideoFile

try:
    from PIL import Image, ImageOps, UnidentifiedImageError
except ImportError as error:
    raise MissingExtra(__name__, "omni") from error

LONGEST_S: Final = 600
"""Seconds of a video that a question may be about: more do not fit into the network's context."""
SECOND_MS: Final = 1000


class BadImage(VenusError):
    """A file is no usable picture; the message says why."""


class TooLong(VenusError):
    """A video is longer than a question may be about."""


def read_image(path: Path) -> RgbImage:
    """Read a picture of any kind and size that Pillow knows, upright, ``uint8[height, width, 3]``.

    What is transparent is seen on white.  Raises :class:`BadImage`.
    """
    if not path.is_file():
        raise BadImage(f"{path} is no file.")
    try:
        with Image.open(path) as opened:
            upright = ImageOps.exif_transpose(opened)
            if upright.has_transparency_data:
                upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright.convert("RGBA"))
            return np.asarray(upright.convert("RGB"))
    except UnidentifiedImageError as error:
        raise BadImage(f"{path} cannot be read as a picture: it is of no known kind.") from error
    except Image.DecompressionBombError as error:
        raise BadImage(f"{path} is too large: make it smaller than {Image.MAX_IMAGE_PIXELS or 0:,} pixels.") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise BadImage(f"{path} cannot be read as a picture: {error}. It may be cut off.") from error


def moments(video: VideoFile) -> list[Moment]:
    """A video second by second; one without sound has none here.  Raises :class:`TooLong`."""
    seconds = -(-len(video.audio) // INPUT_HZ)
    if seconds > LONGEST_S:
        raise TooLong(f"{video.path} lasts {seconds} s; ask about at most {LONGEST_S} s of it.")
    sound = video.audio if video.has_sound else video.audio[:0]
    pictures = {int(frame.captured_ms) // SECOND_MS: frame.image for frame in video.frames(SECOND_MS)}
    return [
        Moment(sound[second * INPUT_HZ : (second + 1) * INPUT_HZ], pictures.get(second)) for second in range(seconds)
    ]
