"""The noise of the speech decoder by behaviour."""

from __future__ import annotations

import torch
from torch import Tensor

from .behaviour import RULES, Behaviour
from .token2wav.noise import FLOW_FRAMES, HARMONICS, Noise, SeededNoise


class FreshNoise:
    """Noise without a seed, as the published codes draw it: the flow's once, the vocoder's in every call."""

    def __init__(self, *, mel: int = 80) -> None:
        self._generator = torch.Generator()
        self._generator.seed()
        self._flow = torch.randn(1, mel, FLOW_FRAMES, generator=self._generator)

    def flow(self) -> Tensor:
        """See :class:`Noise`."""
        return self._flow

    def vocoder(self, samples: int, call: int) -> Tensor:
        """See :class:`Noise`; no call is like another."""
        return torch.randn(1, samples, HARMONICS, generator=self._generator)


def noise_of(behaviour: Behaviour, seed: int, *, mel: int = 80) -> Noise:
    """What :class:`~.model.OmniModel` is to be loaded with for sessions of ``behaviour``."""
    return SeededNoise(seed, mel=mel) if RULES[behaviour].seeded_noise else FreshNoise(mel=mel)
