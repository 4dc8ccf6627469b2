"""The vocoder's harmonic source: what a voice would hum at the predicted pitch (neural source filter).

Nine sines (the fundamental and eight harmonics) where a frame is voiced, noise where it is not, merged into one
signal.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .config import MEL_HOP, OUTPUT_HZ
from .noise import HARMONICS

_SINE = 0.1
_VOICED_NOISE = 0.003
_UNVOICED_NOISE = _SINE / 3
_VOICED_ABOVE_HZ = 10.0


class HarmonicSource(nn.Module):
    """Pitch per frame to source samples."""

    def __init__(self) -> None:
        super().__init__()
        self.l_linear = nn.Linear(HARMONICS, 1)

    def harmonics(self, f0: Tensor, noise: Tensor) -> Tensor:
        """Pitch ``[1, T]`` in Hz and normal ``noise [1, 480 T, 9]`` to the nine signals ``[1, 480 T, 9]``.

        The phase is summed at frame rate and drawn out linearly to samples; a random initial phase, which other
        renderings of this source have, would not be heard and is left out.
        """
        multiples = torch.arange(1, HARMONICS + 1, device=f0.device, dtype=f0.dtype)
        turns = (f0[:, :, None] * multiples / OUTPUT_HZ) % 1
        phase = turns.cumsum(dim=1) * 2 * math.pi
        smooth = F.interpolate(phase.transpose(1, 2) * MEL_HOP, scale_factor=float(MEL_HOP), mode="linear")
        sines = torch.sin(smooth.transpose(1, 2)) * _SINE
        voiced = (f0 > _VOICED_ABOVE_HZ).to(f0.dtype).repeat_interleave(MEL_HOP, dim=1)[:, :, None]
        loudness = voiced * _VOICED_NOISE + (1 - voiced) * _UNVOICED_NOISE
        return sines * voiced + loudness * noise

    def forward(self, f0: Tensor, noise: Tensor) -> Tensor:
        """``[1, T]`` and ``[1, 480 T, 9]`` to ``[1, 1, 480 T]``."""
        merged: Tensor = self.l_linear(self.harmonics(f0, noise))
        return torch.tanh(merged).transpose(1, 2)
