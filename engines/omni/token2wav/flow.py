"""The flow model: speech codes and a voice in, mel spectrogram out (as released with CosyVoice 2 and Step-Audio 2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .config import DitConfig, FlowConfig
from .dit import DiT
from .flow_encoder import EncoderCache, FlowEncoder


class FlowDecoder(nn.Module):
    """Keeps the released name ``decoder.estimator``; the sampler around it is :class:`~.euler.Euler`."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.estimator = DiT(config)


class Flow(nn.Module):
    """All weights of ``flow.pt``."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.config = config
        self.input_embedding = nn.Embedding(config.vocab_size, config.input_size)
        self.spk_embed_affine_layer = nn.Linear(config.spk_embed_dim, config.output_size)
        self.encoder = FlowEncoder(config.encoder)
        self.encoder_proj = nn.Linear(config.encoder.output_size, config.output_size)
        self.decoder = FlowDecoder(config.decoder.estimator)

    def speaker(self, vector: Tensor) -> Tensor:
        """A speaker vector ``[1, 192]`` of any length, as the decoder takes it: ``[1, 80]``."""
        out: Tensor = self.spk_embed_affine_layer(F.normalize(vector, dim=1))
        return out

    def mu(self, codes: Tensor, cache: EncoderCache, *, last: bool) -> Tensor:
        """What the mel of codes ``int64[1, N]`` is drawn around: ``[1, 80, 2 (N - 3)]``.

        The ``last`` call of a stream, behind which nothing comes, gives ``2 N`` frames.
        """
        features: Tensor = self.encoder_proj(self.encoder(self.input_embedding(codes), cache, last=last))
        return features.transpose(1, 2)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.encoder_proj.weight.device
