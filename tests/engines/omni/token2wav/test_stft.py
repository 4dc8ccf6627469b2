"""The transform by convolutions is the textbook's."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
import torch
from realtime_venus.engines.omni.token2wav.stft import HOP, SIZE, Stft
from torch import Tensor

from ....kit import t2w


@pytest.mark.parametrize("length", [32, 480, 4000])
def test_forward_is_torchs_transform(length: int) -> None:
    wave = t2w.normal(length, 1, length)
    expected = torch.stft(wave, SIZE, HOP, window=torch.hann_window(SIZE), return_complex=True)
    torch.testing.assert_close(Stft()(wave[None]), torch.cat([expected.real, expected.imag], 1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("frames", [9, 121])
def test_inverse_is_torchs_of_any_spectrum_even_one_that_no_signal_has(frames: int) -> None:
    bins = SIZE // 2 + 1
    real, imaginary = t2w.normal(1, 1, bins, frames), t2w.normal(2, 1, bins, frames)
    # the mean and the highest bin have no imaginary part, and what is given as one is ignored
    istft = cast("Callable[..., Tensor]", torch.istft)  # pyright: ignore[reportUnknownMemberType]
    expected = istft(torch.complex(real, imaginary), SIZE, HOP, window=torch.hann_window(SIZE))
    torch.testing.assert_close(Stft().inverse(torch.cat([real, imaginary], 1)), expected, rtol=0, atol=1e-5)


def test_there_and_back_is_the_same_signal() -> None:
    wave, stft = t2w.normal(3, 1, 1, 960), Stft()
    torch.testing.assert_close(stft.inverse(stft(wave)), wave[0], rtol=0, atol=1e-5)


def test_nothing_of_it_is_stored_in_a_checkpoint() -> None:
    assert not Stft().state_dict()
