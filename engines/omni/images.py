"""Pictures as the vision tower takes them: cut into slices, scaled, and laid out as rows of patches.

The arithmetic is that of the MiniCPM-V slicing scheme (LLaVA-UHD): a picture larger than the resolution of one slice
is cut along the grid whose proportions come nearest to its own, and seen a second time as a whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..base import EngineError, RgbImage
from .config import SliceConfig

MAX_PIXELS = 100_000_000
"""Larger pictures are refused: scaling one takes gigabytes."""
MAX_ASPECT = 100
"""Longer strips are refused: scaled to the area of a slice they would be thinner than a few patches."""


class ImageError(EngineError):
    """A picture that cannot be encoded; the message says why."""


@dataclass(frozen=True, slots=True)
class PatchedImage:
    """A slice: ``pixels`` is ``float32[3, patch, patch * h * w]``, the patches side by side, row after row, and
    ``size`` is ``(h, w)`` in patches."""

    pixels: npt.NDArray[np.float32]
    size: tuple[int, int]

    @property
    def count(self) -> int:
        """Number of patches."""
        return self.size[0] * self.size[1]


@dataclass(frozen=True, slots=True)
class ImageSlices:
    """A whole picture first, then its slices row by row; ``grid`` is (columns, rows), ``None`` if it was not cut."""

    patches: tuple[PatchedImage, ...]
    grid: tuple[int, int] | None


def slice_image(image: RgbImage, slices: SliceConfig, max_slices: int) -> ImageSlices:
    """Cut ``image``, ``uint8[height, width, 3]``, into at most ``max_slices`` slices (1: only the whole picture).

    Raises :class:`ImageError` as :func:`check_image` does.
    """
    picture = _picture(image)
    size = picture.size
    grid = choose_grid(size, slices, max_slices)
    resolution, patch = slices.scale_resolution, slices.patch_size
    whole = fit(size, resolution, patch, enlarge=grid is None)
    parts = [_resized(picture, whole)]
    if grid is not None:
        refined = _resized(picture, refined_size(size, grid, resolution, patch))
        width, height = refined.width // grid[0], refined.height // grid[1]
        parts += [
            refined.crop((column * width, row * height, (column + 1) * width, (row + 1) * height))
            for row in range(grid[1])
            for column in range(grid[0])
        ]
    return ImageSlices(tuple(_patched(part, slices) for part in parts), grid)


def fit_image(image: RgbImage, slices: SliceConfig) -> RgbImage:
    """``image`` at the size it is seen in as a whole; raises :class:`ImageError` as :func:`check_image` does."""
    picture = _picture(image)
    size = fit(picture.size, slices.scale_resolution, slices.patch_size, enlarge=True)
    return np.asarray(_resized(picture, size))


def choose_grid(size: tuple[int, int], slices: SliceConfig, max_slices: int) -> tuple[int, int] | None:
    """Columns and rows for a picture of ``size`` (width, height); ``None`` where it stays whole."""
    width, height = size
    wanted = min(math.ceil(width * height / slices.scale_resolution**2), max_slices)
    if wanted <= 1:
        return None
    counts = [count for count in (wanted - 1, wanted, wanted + 1) if 1 < count <= max_slices]
    grids = [(columns, count // columns) for count in counts for columns in range(1, count + 1) if not count % columns]
    aspect = math.log(width / height)
    return min(grids, key=lambda grid: abs(aspect - math.log(grid[0] / grid[1])))


def fit(size: tuple[float, float], resolution: int, patch: int, *, enlarge: bool) -> tuple[int, int]:
    """Width and height in whole patches, of the proportions of ``size`` and about ``resolution`` squared in area.

    A smaller picture is only enlarged with ``enlarge``.
    """
    width, height = size
    if enlarge or width * height > resolution**2:
        aspect = width / height
        height = int(resolution / math.sqrt(aspect))
        width = int(height * aspect)
    return _whole(width, patch), _whole(height, patch)


def refined_size(size: tuple[int, int], grid: tuple[int, int], resolution: int, patch: int) -> tuple[int, int]:
    """Size of the picture that is cut into ``grid``: every cell is scaled to the area of a slice."""
    cell = (_whole(size[0], grid[0]) / grid[0], _whole(size[1], grid[1]) / grid[1])
    width, height = fit(cell, resolution, patch, enlarge=True)
    return width * grid[0], height * grid[1]


def _whole(length: float, step: int) -> int:
    """The nearest multiple of ``step``, at least one."""
    return max(round(length / step) * step, step)


def check_image(image: npt.NDArray[Any]) -> None:
    """Raise :class:`ImageError` for anything that is not an RGB picture of a sensible size."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ImageError(
            f"a picture must be uint8[height, width, 3] in RGB, not {image.dtype}{list(image.shape)}: convert it first "
            "(Pillow: picture.convert('RGB'))"
        )
    height, width = image.shape[:2]
    if not height or not width:
        raise ImageError("the picture has no pixels")
    if height * width > MAX_PIXELS:
        raise ImageError(
            f"the picture has {height * width // 1_000_000} megapixels, and at most {MAX_PIXELS // 1_000_000} are "
            "taken: scale it down first"
        )
    if max(height, width) > MAX_ASPECT * min(height, width):
        raise ImageError(
            f"the picture is {width} x {height}, and at most 1 : {MAX_ASPECT} is taken: crop it or cut it in pieces"
        )


def _picture(image: npt.NDArray[Any]) -> Image.Image:
    check_image(image)
    return Image.fromarray(np.ascontiguousarray(image))


def _resized(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    return picture.resize(size, Image.Resampling.BICUBIC)


def _patched(picture: Image.Image, slices: SliceConfig) -> PatchedImage:
    patch = slices.patch_size
    rows, columns = picture.height // patch, picture.width // patch
    mean, std = (np.asarray(each, dtype=np.float32) for each in (slices.norm_mean, slices.norm_std))
    values = (np.asarray(picture).astype(np.float32) / np.float32(255) - mean) / std
    grid = values.reshape(rows, patch, columns, patch, 3)
    pixels = grid.transpose(4, 1, 0, 2, 3).reshape(3, patch, rows * columns * patch)
    return PatchedImage(np.ascontiguousarray(pixels), (rows, columns))
