"""Slices to embeddings, as recorded."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.see import encode_images

from ...kit import golden, omni_eyes

TOLERANCE = 1e-4
golden.needs_eyes()

RECORD = golden.stage("vision_tower")
SEEN = [case for case in omni_eyes.cases("vision_tower") if omni_eyes.has_picture(case)]
MIXED = [key for key in RECORD if key.startswith("mixed_") and "resampler" in key]


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


def recorded_rows(got: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """The rows of the first slices that were recorded, evenly spread."""
    return got[: len(rows), :: got.shape[1] // rows.shape[1]]


@pytest.mark.parametrize("case", SEEN)
def test_embeddings_of_a_picture(case: str) -> None:
    embeddings = encode_images(omni_eyes.tower(), omni_eyes.resampler(), omni_eyes.slices(case).patches)
    assert embeddings.shape[1:] == (omni_eyes.config().query_num, omni_eyes.config().hidden_size)
    whole = RECORD.get(f"{case}_resampler")
    expected = RECORD[f"{case}_resampler_rows"] if whole is None else whole
    np.testing.assert_allclose(recorded_rows(embeddings, expected).numpy(), expected, rtol=0, atol=TOLERANCE)
    means = embeddings.double().mean(dim=(1, 2)).numpy()
    np.testing.assert_allclose(means, RECORD[f"{case}_resampler_mean_f64"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("key", MIXED)
def test_several_pictures_of_one_unit(key: str) -> None:
    cases = [f"{size}_ms{most}" for size, most in re.findall(r"(\d+x\d+)ms(\d+)", key)]
    patches = [patch for case in cases for patch in omni_eyes.slices(case).patches]
    assert [each.size for each in patches] == [tuple(size) for size in RECORD["mixed_tgt_sizes"]]
    embeddings = encode_images(omni_eyes.tower(), omni_eyes.resampler(), patches)
    expected = RECORD[key]
    np.testing.assert_allclose(recorded_rows(embeddings, expected).numpy(), expected, rtol=0, atol=TOLERANCE)


def test_the_mixed_unit_was_recorded() -> None:
    assert MIXED


def test_no_pictures_are_no_embeddings() -> None:
    got = encode_images(omni_eyes.tower(), omni_eyes.resampler(), [])
    assert got.shape == (0, omni_eyes.config().query_num, omni_eyes.config().hidden_size)


def test_more_pictures_than_a_batch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    patches = omni_eyes.slices(SEEN[0]).patches * 3
    whole = encode_images(omni_eyes.tower(), omni_eyes.resampler(), patches)
    monkeypatch.setattr(omni_eyes.resampler(), "most", 2)
    parts = encode_images(omni_eyes.tower(), omni_eyes.resampler(), patches)
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=0)
