"""How calls of the vocoder are joined, shown with a vocoder whose output is known."""

from __future__ import annotations

import math

import torch
from realtime_venus.engines.omni.token2wav.config import MEL_HOP, HiftConfig
from realtime_venus.engines.omni.token2wav.hift import Hift
from realtime_venus.engines.omni.token2wav.noise import SeededNoise
from realtime_venus.engines.omni.token2wav.vocoder import OVERLAP, OVERLAP_FRAMES, Vocoder, VocoderState
from torch import Tensor

MEL = 2


class Plain(Hift):
    """Its source is the noise, its wave the level of the mel's first channel; remembers what it was given."""

    def __init__(self) -> None:
        super().__init__(HiftConfig(mel=MEL, channels=8, f0_channels=1))
        self.seen: list[tuple[Tensor, Tensor]] = []

    def source(self, mel: Tensor, noise: Tensor) -> Tensor:
        return noise[..., 0][None]

    def render(self, mel: Tensor, source: Tensor) -> Tensor:
        self.seen.append((mel, source))
        return mel[:, 0].repeat_interleave(MEL_HOP, dim=1)


def level(value: float, frames: int) -> Tensor:
    return torch.full((1, MEL, frames), value)


def test_overlaps_are_cross_faded_and_keep_their_source() -> None:
    plain, noise = Plain(), SeededNoise(1)
    vocoder, state = Vocoder(plain), VocoderState(MEL, torch.device("cpu"))
    first = vocoder.stream(state, level(0.5, 20), noise, last=False)
    assert torch.equal(first, torch.cat([torch.zeros(OVERLAP), torch.full((12 * MEL_HOP,), 0.5)]))

    second = vocoder.stream(state, level(-0.5, 30), noise, last=False)
    # both renderings of the overlap are at 0.5, and the two halves of a Hamming window add up to 1.08
    torch.testing.assert_close(second[:OVERLAP], torch.full((OVERLAP,), 0.54), rtol=0, atol=1e-3)
    assert torch.equal(second[OVERLAP:], torch.full((22 * MEL_HOP,), -0.5))
    (_, source), (mel, joined) = plain.seen
    assert torch.equal(mel, torch.cat([level(0.5, OVERLAP_FRAMES), level(-0.5, 30)], dim=2))
    assert torch.equal(joined[..., :OVERLAP], source[..., -OVERLAP:])
    assert torch.equal(joined[..., OVERLAP:], noise.vocoder(38 * MEL_HOP, 1)[None, ..., OVERLAP:, 0])

    rest = vocoder.stream(state, level(1.0, 4), noise, last=True)
    assert len(rest) == OVERLAP + 4 * MEL_HOP
    assert torch.equal(rest[OVERLAP:], torch.full((4 * MEL_HOP,), 1.0))


def test_the_fade_goes_from_the_old_rendering_to_the_new() -> None:
    vocoder, state = Vocoder(Plain()), VocoderState(MEL, torch.device("cpu"))
    vocoder.stream(state, level(0.0, 10), SeededNoise(), last=False)
    state.speech.fill_(1.0)
    fade = vocoder.stream(state, level(0.0, 10), SeededNoise(), last=False)[:OVERLAP]
    x = torch.arange(OVERLAP, 2 * OVERLAP, dtype=torch.float64) / (2 * OVERLAP - 1)
    torch.testing.assert_close(fade, (0.54 - 0.46 * torch.cos(2 * math.pi * x)).float(), rtol=0, atol=1e-5)


def test_a_new_turn_overlaps_with_nothing_and_counts_on() -> None:
    vocoder, state = Vocoder(Plain()), VocoderState(MEL, torch.device("cpu"))
    vocoder.stream(state, level(0.5, 20), SeededNoise(), last=False)
    state.begin_turn()
    assert not vocoder.stream(state, level(0.5, 20), SeededNoise(), last=False)[:OVERLAP].any()
    assert state.calls == 2
    state.reset()
    assert (state.calls, state.fresh) == (0, True)
