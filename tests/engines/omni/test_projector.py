"""The projector pools before its second layer, which changes nothing."""

from __future__ import annotations

import pytest
import torch
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni.config import OmniConfig
from realtime_venus.engines.omni.projector import AudioProjector
from torch import nn

from tests.kit.omni_ears import small_config, small_modules


def test_pooling_first_is_pooling_last() -> None:
    _, module = small_modules()
    states = torch.randn(2, 53, 16, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        late = module.linear2(nn.functional.relu(module.linear1(states)))[:, :50].unflatten(1, (10, 5)).mean(dim=2)
        pooled = module(states)
    torch.testing.assert_close(pooled, late, atol=1e-6, rtol=1e-5)
    assert pooled.shape[1] == module.rows(53) == 10


def test_a_model_without_ears_has_no_projector() -> None:
    deaf = OmniConfig.model_validate(small_config().model_dump(by_alias=True) | {"audio_config": None})
    with pytest.raises(EngineError, match="audio_config"):
        AudioProjector(deaf)
