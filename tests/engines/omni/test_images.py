"""Pictures are cut, scaled and laid out as recorded, to the last bit."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from realtime_venus.engines.omni.config import SliceConfig
from realtime_venus.engines.omni.images import (
    MAX_ASPECT,
    ImageError,
    choose_grid,
    fit,
    refined_size,
    slice_image,
)

from ...kit import golden, omni_eyes

golden.needs_eyes()

CASES = omni_eyes.cases("vision_preprocess")
SHAPES = golden.stage("vision_shapes")


@pytest.mark.parametrize("case", CASES)
def test_every_size_is_cut_as_recorded(case: str) -> None:
    width, height, most = omni_eyes.parsed(case)
    recorded = golden.stage("vision_preprocess")
    sliced = slice_image(np.zeros((height, width, 3), np.uint8), omni_eyes.config().slices, most)
    assert (sliced.grid or (0, 0)) == tuple(recorded[f"{case}_grid"])
    columns, rows = sliced.grid or (0, 0)
    assert columns * rows == recorded[f"{case}_placeholder_slices"][0]
    assert [each.size for each in sliced.patches] == [tuple(size) for size in recorded[f"{case}_tgt_sizes"]]
    assert [each.pixels.shape for each in sliced.patches] == [tuple(shape) for shape in recorded[f"{case}_shape"]]


@pytest.mark.parametrize("case", [case for case in CASES if omni_eyes.has_picture(case)])
def test_pixels_are_the_recorded_ones(case: str) -> None:
    recorded, patches = golden.stage("vision_preprocess"), omni_eyes.slices(case).patches
    two = 2 * omni_eyes.config().slices.patch_size
    assert [hashlib.sha256(each.pixels.tobytes()).hexdigest() for each in patches] == list(recorded[f"{case}_sha256"])
    for index, each in enumerate(patches):
        assert each.pixels.dtype == np.float32
        assert each.pixels.mean(dtype=np.float64) == pytest.approx(recorded[f"{case}_mean_f64"][index], abs=1e-7)
        absolute = np.abs(each.pixels).mean(dtype=np.float64)
        assert absolute == pytest.approx(recorded[f"{case}_absmean_f64"][index], abs=1e-7)
    ends = [key for key in recorded if key.startswith(f"{case}_s") and key.endswith(("_first2", "_last2"))]
    assert ends
    for key in ends:
        pixels = patches[int(key.removeprefix(f"{case}_s").partition("_")[0])].pixels
        assert np.array_equal(pixels[..., :two] if key.endswith("first2") else pixels[..., -two:], recorded[key]), key


@pytest.mark.parametrize("row", range(len(SHAPES["table"])))
def test_sizes_of_cameras(row: int) -> None:
    fields = dict(zip(SHAPES["columns"].tolist(), SHAPES["table"][row].tolist(), strict=True))
    slices = omni_eyes.config().slices
    size, resolution, patch = (fields["w"], fields["h"]), slices.scale_resolution, slices.patch_size
    grid = choose_grid(size, slices, fields["max_slice_nums"])
    assert (grid or (0, 0)) == (fields["grid_cols"], fields["grid_rows"])
    assert fit(size, resolution, patch, enlarge=grid is None) == (fields["source_w"], fields["source_h"])
    refined = refined_size(size, grid, resolution, patch) if grid else (0, 0)
    assert refined == (fields["refine_w"], fields["refine_h"])


def test_slices_are_the_cells_of_the_grid_row_by_row() -> None:
    colours = np.zeros((900, 1200, 3), np.uint8)
    colours[:450, 600:, 0] = colours[450:, :600, 1] = colours[450:, 600:, 2] = 255
    sliced = slice_image(colours, SliceConfig(), 4)
    assert sliced.grid == (2, 2)
    assert len(sliced.patches) == 5
    middles = [each.pixels[:, 0, each.pixels.shape[2] // 2] for each in sliced.patches[1:]]
    assert [tuple(np.sign(middle)) for middle in middles] == [(-1, -1, -1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]


def test_never_more_slices_than_allowed() -> None:
    for width, height, most in itertools.product((300, 1000, 4000), (300, 1000, 4000), range(1, 10)):
        grid = choose_grid((width, height), SliceConfig(), most)
        assert grid is None or 1 < grid[0] * grid[1] <= most


def test_a_twenty_megapixel_picture_becomes_nine_slices() -> None:
    picture = np.full((3888, 5184, 3), 255, np.uint8)
    sliced = slice_image(picture, SliceConfig(), 9)
    assert len(sliced.patches) == 10
    assert all(900 < each.count < 1120 and np.all(each.pixels == 1) for each in sliced.patches)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, MAX_ASPECT, 3), (MAX_ASPECT, 1, 3), (7, 500, 3)], ids=str)
def test_the_smallest_and_longest_pictures(shape: tuple[int, int, int]) -> None:
    (patch,) = slice_image(np.zeros(shape, np.uint8), SliceConfig(), 1).patches
    assert 800 < patch.count < 1120


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((48, 64), np.uint8), "uint8"),
        (np.zeros((48, 64, 1), np.uint8), "uint8"),
        (np.zeros((48, 64, 4), np.uint8), "uint8"),
        (np.zeros((48, 64, 3), np.float32), "float32"),
        (np.zeros((1, 48, 64, 3), np.uint8), "uint8"),
        (np.zeros((0, 64, 3), np.uint8), "no pixels"),
        (np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (20_000, 20_000, 3)), "400 megapixels"),
        (np.zeros((4, 5000, 3), np.uint8), "5000 x 4"),
    ],
    ids=["grey", "one channel", "alpha", "float", "batch", "empty", "too many pixels", "strip"],
)
def test_what_is_no_picture_is_refused(picture: np.ndarray, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        slice_image(picture, SliceConfig(), 1)


def test_a_picture_is_not_changed_and_may_be_a_view() -> None:
    picture = golden.image(golden.pictures()[0])
    before = picture.copy()
    whole = slice_image(picture, SliceConfig(), 1).patches[0]
    view = np.ascontiguousarray(picture[:, ::-1])[:, ::-1]
    assert np.array_equal(slice_image(view, SliceConfig(), 1).patches[0].pixels, whole.pixels)
    assert np.array_equal(picture, before)
