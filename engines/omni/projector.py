"""From the audio encoder's states to embeddings that the thinker takes in place of tokens."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from ..base import EngineError
from .config import OmniConfig


class AudioProjector(nn.Module):
    """Two linear layers and a mean over ``audio_pool_step`` states; parameter names are the checkpoint's."""

    def __init__(self, config: OmniConfig) -> None:
        super().__init__()
        if config.audio is None:
            raise EngineError("The configuration has no audio_config, so there is no audio to project")
        # The published class reads its input width off the feed-forward width, which Whisper keeps at four times.
        self.linear1 = nn.Linear(config.audio.encoder_ffn_dim // 4, config.hidden_size)
        self.linear2 = nn.Linear(config.hidden_size, config.hidden_size)
        self.pool = config.audio_pool_step

    def forward(self, states: Tensor) -> Tensor:
        """``[B, S, d_model]`` to ``[B, S // pool, hidden]``."""
        projected: Tensor = functional.relu(self.linear1(states))
        # The mean commutes with the second layer, which has a fraction of the rows to do this way round.
        pooled = functional.avg_pool1d(projected.transpose(1, 2), self.pool).transpose(1, 2)
        embeddings: Tensor = self.linear2(pooled)
        return embeddings

    def rows(self, states: int) -> int:
        """Embeddings that so many states give."""
        return states // self.pool
