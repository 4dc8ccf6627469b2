"""The vocoder's 16-point short-time Fourier transform and its inverse, as convolutions with a fixed basis.

Periodic Hann window, hop 4, centred with reflection.  As convolutions both export to any runtime.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn

SIZE = 16
HOP = 4
BINS = SIZE // 2 + 1


class Stft(nn.Module):
    """Both directions; holds the bases, which no checkpoint stores."""

    analysis: Tensor
    synthesis: Tensor
    window2: Tensor

    def __init__(self) -> None:
        super().__init__()
        # explicit device: constants are real also in a module that is built without memory
        n = torch.arange(SIZE, dtype=torch.float64, device="cpu")
        angle = 2 * math.pi * torch.arange(BINS, dtype=torch.float64, device="cpu")[:, None] * n / SIZE
        window = 0.5 - 0.5 * torch.cos(2 * math.pi * n / SIZE)
        analysis = torch.cat([torch.cos(angle), -torch.sin(angle)]) * window
        # the two edge bins have no mirror image
        mirror = torch.full((BINS, 1), 2.0, dtype=torch.float64, device="cpu")
        mirror[0] = mirror[-1] = 1.0
        synthesis = torch.cat([mirror * torch.cos(angle), -mirror * torch.sin(angle)]) * window / SIZE
        self.register_buffer("analysis", analysis[:, None].float(), persistent=False)
        self.register_buffer("synthesis", synthesis[:, None].float(), persistent=False)
        self.register_buffer("window2", window.square()[None, None].float(), persistent=False)

    def forward(self, wave: Tensor) -> Tensor:
        """``[1, 1, n]`` to ``[1, 18, n / 4 + 1]``: nine real parts, nine imaginary ones."""
        padded = F.pad(wave, (SIZE // 2, SIZE // 2), mode="reflect")
        return F.conv1d(padded, self.analysis, stride=HOP)

    def inverse(self, spectrum: Tensor) -> Tensor:
        """``[1, 18, frames]`` to ``[1, 4 * (frames - 1)]``."""
        wave = F.conv_transpose1d(spectrum, self.synthesis, stride=HOP)
        weight = F.conv_transpose1d(torch.ones_like(spectrum[:, :1]), self.window2, stride=HOP)
        inner = slice(SIZE // 2, wave.shape[-1] - SIZE // 2)
        return (wave[..., inner] / weight[..., inner])[:, 0]
