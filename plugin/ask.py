"""What a question can be about, read from files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Final

import numpy as np

from ..engines.base import INPUT_HZ, MissingExtra, RgbImage, VenusError
from ..engines.omni.ask import Limits, Moment
from ..engines.omni.images import MAX_PIXELS, ImageError, check_image
from .video import VideoFile

try:
    from PIL import Image, ImageOps, UnidentifiedImageError
except ImportError as error:
    raise MissingExtra(__name__, "omni") from error

SECOND_MS: Final = 1000
_FORMATS: Final = ("AVIF", "BMP", "DIB", "GIF", "ICO", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TGA", "TIFF", "WEBP")
"""What is opened: none of them runs another program, as Encapsulated PostScript would."""


class BadImage(VenusError):
    """A file is no usable picture; the message says why."""


class TooLong(VenusError):
    """A video is longer than a question may be about."""


def read_image(path: Path) -> RgbImage:
    """Read a picture of any usual kind, upright, ``uint8[height, width, 3]``.

    What is transparent is seen on white.  Raises :class:`BadImage`.
    """
    if not path.is_file():
        raise BadImage(f"{path} is no file.")
    Image.init()
    formats = [name for name in _FORMATS if name in Image.OPEN]
    large = f"{path} is too large: make it {MAX_PIXELS:,} pixels at most."
    try:
        image = _decoded(path, formats, large)
        check_image(image)
    except BadImage:
        raise
    except UnidentifiedImageError as error:
        raise BadImage(f"{path} cannot be read as a picture: it is of no known kind.") from error
    except Image.DecompressionBombError as error:
        raise BadImage(large) from error
    except ImageError as error:
        raise BadImage(f"{path}: {error}.") from error
    except Exception as error:  # a broken picture fails anywhere in its decoder, in whatever way
        raise BadImage(f"{path} cannot be read as a picture: {error}. It may be cut off.") from error
    return image


def _decoded(path: Path, formats: list[str], large: str) -> RgbImage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is the one that counts
        with Image.open(path, formats=formats) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise BadImage(large)
            upright = ImageOps.exif_transpose(opened)
            if upright.has_transparency_data:
                upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright.convert("RGBA"))
            return np.asarray(upright.convert("RGB"))


def moments(video: VideoFile, limits: Limits) -> list[Moment]:
    """A video second by second, its pictures no larger than they are seen, if they are; one without sound has none.

    Raises :class:`TooLong` before any picture is decoded.
    """
    seconds = -(-len(video.audio) // INPUT_HZ)
    if seconds > limits.moments:
        raise TooLong(f"{video.path} lasts {seconds} s; ask about at most {limits.moments} s of it.")
    sound = video.audio if video.has_sound else video.audio[:0]
    pictures: dict[int, RgbImage] = {}
    for frame in video.frames(SECOND_MS) if limits.sees else ():
        try:
            pictures[int(frame.captured_ms) // SECOND_MS] = limits.fit(frame.image)
        except ImageError:
            continue  # a strip that cannot be seen is one picture less
    return [
        Moment(sound[second * INPUT_HZ : (second + 1) * INPUT_HZ], pictures.get(second)) for second in range(seconds)
    ]
