"""HiFT: a mel spectrogram becomes a wave (HiFTNet; as released with CosyVoice 2).

The pitch is predicted from the mel, a harmonic source hums it, and an upsampling trunk shapes the source's short-time
spectrum.  Its last layer gives magnitude and phase of the wave's 16-point spectrum.  480 samples per mel frame,
24 kHz.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .config import HiftConfig
from .source import HarmonicSource
from .stft import BINS, Stft

_RATES = (8, 5, 3)
_RATE_KERNELS = (16, 11, 7)
_KERNELS = (3, 7, 11)
_SOURCE_KERNELS = (7, 7, 11)
_DILATIONS = (1, 3, 5)
_SLOPE = 0.1
_LAST_SLOPE = 0.01
_LOUDEST_BIN = 100.0
_LOUDEST = 0.99
_F0_LAYERS = 5


class Snake(nn.Module):
    """``x + sin(a x)^2 / a``, one ``a`` for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha = self.alpha[:, None]
        return x + torch.sin(x * alpha).square() / (alpha + 1e-9)


class ResidualBlock(nn.Module):
    """Three pairs of convolutions, the first of each dilated, each pair added to its input."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2) for d in _DILATIONS
        )
        self.convs2 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in _DILATIONS
        )
        self.activations1 = nn.ModuleList(Snake(channels) for _ in _DILATIONS)
        self.activations2 = nn.ModuleList(Snake(channels) for _ in _DILATIONS)

    def forward(self, x: Tensor) -> Tensor:
        """``[1, channels, n]``, both ways."""
        pairs = zip(self.activations1, self.convs1, self.activations2, self.convs2, strict=True)
        for snake1, conv1, snake2, conv2 in pairs:
            x = x + conv2(snake2(conv1(snake1(x))))
        return x


class F0Predictor(nn.Module):
    """Pitch of each mel frame, in Hz."""

    def __init__(self, config: HiftConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for layer in range(_F0_LAYERS):
            layers += [
                nn.Conv1d(config.f0_channels if layer else config.mel, config.f0_channels, 3, padding=1),
                nn.ELU(),
            ]
        self.condnet = nn.Sequential(*layers)
        self.classifier = nn.Linear(config.f0_channels, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """``[1, 80, T]`` to ``[1, T]``."""
        features: Tensor = self.condnet(mel)
        pitch: Tensor = self.classifier(features.transpose(1, 2))
        return pitch[..., 0].abs()


class Hift(nn.Module):
    """The whole vocoder; :meth:`forward` takes the noise of the source from outside."""

    def __init__(self, config: HiftConfig) -> None:
        super().__init__()
        widths = [config.channels >> i for i in range(len(_RATES) + 1)]
        self.m_source = HarmonicSource()
        self.f0_predictor = F0Predictor(config)
        self.stft = Stft()
        self.conv_pre = nn.Conv1d(config.mel, widths[0], 7, padding=3)
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(wide, narrow, kernel, rate, padding=(kernel - rate) // 2)
            for wide, narrow, rate, kernel in zip(widths, widths[1:], _RATES, _RATE_KERNELS, strict=False)
        )
        # the source's spectrum has the rate of the last stage: earlier ones take every 3rd and every 15th frame
        downs = [_RATES[2] * _RATES[1], _RATES[2], 1]
        self.source_downs = nn.ModuleList(
            nn.Conv1d(2 * BINS, width, 1)
            if down == 1
            else nn.Conv1d(2 * BINS, width, 2 * down, down, padding=down // 2)
            for width, down in zip(widths[1:], downs, strict=True)
        )
        self.source_resblocks = nn.ModuleList(
            ResidualBlock(width, kernel) for width, kernel in zip(widths[1:], _SOURCE_KERNELS, strict=True)
        )
        self.resblocks = nn.ModuleList(ResidualBlock(width, kernel) for width in widths[1:] for kernel in _KERNELS)
        self.conv_post = nn.Conv1d(widths[-1], 2 * BINS, 7, padding=3)

    def source(self, mel: Tensor, noise: Tensor) -> Tensor:
        """Mel ``[1, 80, T]`` and normal noise ``[1, 480 T, 9]`` to the source signal ``[1, 1, 480 T]``."""
        signal: Tensor = self.m_source(self.f0_predictor(mel), noise)
        return signal

    def render(self, mel: Tensor, source: Tensor) -> Tensor:
        """Mel ``[1, 80, T]`` and source ``[1, 1, 480 T]`` to the wave ``[1, 480 T]`` in [-0.99, 0.99]."""
        source_spectrum: Tensor = self.stft(source)
        x: Tensor = self.conv_pre(mel)
        last = len(self.ups) - 1
        for stage, (up, down, branch) in enumerate(
            zip(self.ups, self.source_downs, self.source_resblocks, strict=True)
        ):
            x = up(F.leaky_relu(x, _SLOPE))
            if stage == last:
                x = F.pad(x, (1, 0), mode="reflect")
            x = x + branch(down(source_spectrum))
            blocks = [self.resblocks[stage * len(_KERNELS) + i] for i in range(len(_KERNELS))]
            total: Tensor = blocks[0](x)
            for block in blocks[1:]:
                total = total + block(x)
            x = total / len(_KERNELS)
        x = self.conv_post(F.leaky_relu(x, _LAST_SLOPE))
        magnitude = torch.exp(x[:, :BINS]).clamp(max=_LOUDEST_BIN)
        phase = torch.sin(x[:, BINS:])
        spectrum = torch.cat([magnitude * torch.cos(phase), magnitude * torch.sin(phase)], dim=1)
        return self.stft.inverse(spectrum).clamp(-_LOUDEST, _LOUDEST)

    def forward(self, mel: Tensor, noise: Tensor) -> Tensor:
        """A whole utterance: ``[1, 80, T]`` and ``[1, 480 T, 9]`` to ``[1, 480 T]``."""
        return self.render(mel, self.source(mel, noise))
