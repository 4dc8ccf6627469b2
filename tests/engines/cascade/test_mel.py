"""Features: what is left out of the computation must not change them."""

from __future__ import annotations

import numpy as np
from realtime_venus.engines.cascade.mel import HOP, MELS, log_mel


def chirp(samples: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """A tone that climbs from 200 Hz."""
    at = np.arange(samples) / 16_000
    return (0.3 * np.sin(2 * np.pi * (200 + 900 * at) * at)).astype(np.float32)


def test_silence_after_speech_costs_nothing_and_changes_nothing() -> None:
    signal = np.zeros(8 * 16_000, np.float32)
    signal[:20_000] = chirp(20_000)

    np.testing.assert_array_equal(log_mel(signal, 0, 20_000), log_mel(signal))


def test_a_constant_before_speech_is_known_in_closed_form() -> None:
    signal = np.full(8 * 16_000, 0.02, np.float32)
    signal[100_003:] = chirp(len(signal) - 100_003)

    np.testing.assert_allclose(log_mel(signal, 100_003), log_mel(signal), atol=2e-5)


def test_a_tone_lies_in_its_own_band() -> None:
    at = np.arange(16_000) / 16_000
    low = log_mel(np.sin(2 * np.pi * 300 * at).astype(np.float32))
    high = log_mel(np.sin(2 * np.pi * 3000 * at).astype(np.float32))

    assert low.shape == (MELS, 16_000 // HOP)
    assert np.argmax(low[:, 50]) < 12
    assert 45 < np.argmax(high[:, 50]) < 60


def test_eight_decades_at_most() -> None:
    features = log_mel(np.concatenate([chirp(8000), np.zeros(8000, np.float32)]))

    assert features.max() - features.min() == np.float32(2)


def test_silence_alone() -> None:
    np.testing.assert_allclose(log_mel(np.zeros(1600, np.float32)), (-10 + 4) / 4, atol=1e-5)
