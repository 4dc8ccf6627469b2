"""The spectrogram that the flow model continues."""

from __future__ import annotations

import numpy as np
import pytest
from realtime_venus.engines.omni.prompt_mel import fit_frames, prompt_mel, to_output_rate

from tests.kit import golden
from tests.kit.omni_ears import noise


def test_the_spectrogram_of_the_voice_is_as_recorded() -> None:
    recorded = golden.stage("t2w_prompt")
    mel = prompt_mel(golden.wave(golden.voice()), 16_000)
    assert len(mel) == recorded["prompt_mel_len_before_pad"][0]
    fitted = fit_frames(mel, 2 * int(recorded["prompt_token_len"][0]))
    np.testing.assert_allclose(fitted, recorded["prompt_mel"], atol=1e-4)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 24_000, 44_099, 44_100, 48_000, 96_000, 192_000])
def test_a_tone_is_the_same_tone_at_any_rate(rate: int) -> None:
    def tone(at: int) -> np.ndarray:
        return np.sin(2 * np.pi * 1000 * np.arange(at) / at).astype(np.float32)

    resampled = to_output_rate(tone(rate), rate)
    assert len(resampled) == 24_000
    np.testing.assert_allclose(resampled[100:-100], tone(24_000)[100:-100], atol=1e-2)
    assert prompt_mel(tone(rate), rate).shape == (50, 80)


def test_a_long_recording_is_resampled_in_parts_without_a_seam() -> None:
    wave = noise(6, 3)
    whole = to_output_rate(wave, 16_000)
    # Output sample 65,536 is where the second part begins; 43,600 input samples are 65,400 output samples.
    late = to_output_rate(wave[43_600:], 16_000)
    np.testing.assert_allclose(whole[65_420:66_000], late[20:600], atol=1e-12)


def test_frames_are_repeated_or_cut_at_the_end() -> None:
    mel = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert fit_frames(mel, 5)[:, 0].tolist() == [0, 2, 4, 4, 4]
    assert fit_frames(mel, 2)[:, 0].tolist() == [0, 2]
