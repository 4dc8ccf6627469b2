"""Slaney's mel scale."""

from __future__ import annotations

import numpy as np
import pytest
from realtime_venus.engines.omni.melbank import hann, slaney_filters


@pytest.mark.parametrize(
    ("mels", "rate", "window", "top"),
    [(80, 16_000, 400, 8000.0), (128, 16_000, 400, 8000.0), (80, 24_000, 1920, 8000.0)],
)
def test_every_triangle_has_unit_area(mels: int, rate: int, window: int, top: float) -> None:
    # On a fine grid, for on the actual one the narrowest triangles hold a single bin.
    fine = slaney_filters(mels, rate, window * 64, top)
    np.testing.assert_allclose(fine.sum(axis=0) * rate / (window * 64), 1, atol=2e-3)
    assert slaney_filters(mels, rate, window, top).shape == (window // 2 + 1, mels)


def test_the_scale_is_linear_to_1_khz_and_a_factor_of_6_4_every_27_mel_above() -> None:
    # 8 kHz lie at 15 + 27 ln 8 / ln 6.4 mel; with two filters their centres are a third and two thirds of that.
    fine = slaney_filters(2, 16_000, 64_000, 8000.0)
    top = 15 + 27 * np.log(8) / np.log(6.4)
    expected = [1000 * 6.4 ** ((top * part - 15) / 27) for part in (1 / 3, 2 / 3)]
    np.testing.assert_allclose(fine.argmax(axis=0) * 0.25, expected, atol=0.25)


def test_nothing_above_the_top_counts() -> None:
    filters = slaney_filters(80, 24_000, 1920, 8000.0)
    assert not filters[8000 * 1920 // 24_000 :].any()


def test_the_window_is_periodic() -> None:
    window = hann(8)
    np.testing.assert_allclose(window[1:], window[:0:-1])
    assert window[0] == 0
    assert window[4] == 1
