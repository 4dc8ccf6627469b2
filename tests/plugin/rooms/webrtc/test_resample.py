from __future__ import annotations

import numpy as np
import pytest
from realtime_venus.engines.base import FloatPcm, Int16Pcm
from realtime_venus.plugin.rooms.webrtc.resample import Decimator


def tone(hz: float, seconds: float = 1.0, channels: int = 1) -> Int16Pcm:
    time = np.arange(int(48_000 * seconds)) / 48_000
    return np.repeat((16_384 * np.sin(2 * np.pi * hz * time)).astype(np.int16), channels)


def through(sound: Int16Pcm, channels: int, block: int) -> FloatPcm:
    decimator = Decimator(channels)
    step = block * channels
    return np.concatenate([decimator.push(sound[at : at + step]) for at in range(0, sound.size, step)])


def decibel(sound: FloatPcm) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(sound[200:] ** 2)) / (0.5 / np.sqrt(2)) + 1e-12))


@pytest.mark.parametrize("hz", [100, 1000, 4000, 6900])
def test_speech_passes_unchanged(hz: float) -> None:
    assert abs(decibel(through(tone(hz), 1, 960))) < 0.3


@pytest.mark.parametrize("hz", [9100, 12_000, 20_000])
def test_what_16_khz_cannot_carry_is_removed(hz: float) -> None:
    assert decibel(through(tone(hz), 1, 960)) < -50


def test_blocks_leave_no_trace() -> None:
    sound = tone(440)
    np.testing.assert_allclose(through(sound, 1, 960), through(sound, 1, 48_000), atol=1e-6)


def test_stereo_is_mixed_to_mono() -> None:
    np.testing.assert_allclose(through(tone(440, channels=2), 2, 960), through(tone(440), 1, 960), atol=1e-6)


def test_every_block_gives_exactly_a_third() -> None:
    assert Decimator(2).push(np.zeros(1920, dtype=np.int16)).shape == (320,)


def test_full_scale_stays_in_range() -> None:
    square = np.where(np.sin(2 * np.pi * 100 * np.arange(48_000) / 48_000) > 0, 32_767, -32_768).astype(np.int16)
    out = through(square, 1, 960)
    assert out.max() <= 1.0
    assert out.min() >= -1.0


def test_reset_forgets_what_came_before() -> None:
    decimator = Decimator(1)
    decimator.push(tone(440))
    decimator.reset()
    assert not decimator.push(np.zeros(960, dtype=np.int16)).any()


def test_a_block_that_gives_no_whole_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="whole"):
        Decimator(1).push(np.zeros(100, dtype=np.int16))


def test_a_sound_has_channels() -> None:
    with pytest.raises(ValueError, match="channel"):
        Decimator(0)
