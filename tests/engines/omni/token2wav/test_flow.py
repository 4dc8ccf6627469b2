"""What surrounds the encoder and the transformer."""

from __future__ import annotations

import pytest
import torch
from realtime_venus.engines.omni.token2wav.flow_encoder import EncoderCache

from ....kit import t2w


def test_the_loudness_of_a_speaker_vector_does_not_matter() -> None:
    flow = t2w.recorded_decoder().flow
    vector = t2w.normal(1, 1, flow.config.spk_embed_dim)
    torch.testing.assert_close(flow.speaker(vector), flow.speaker(vector * 30))


@pytest.mark.parametrize(("last", "frames"), [(False, 18), (True, 24)])
def test_two_frames_for_every_code_but_the_look_ahead(last: bool, frames: int) -> None:
    flow = t2w.recorded_decoder().flow
    cache = EncoderCache(flow.config.encoder, 40, flow.device)
    mu = flow.mu(torch.arange(12)[None], cache, last=last)
    assert mu.shape == (1, flow.config.output_size, frames)
    assert cache.second.length == 2 * cache.first.length == frames
