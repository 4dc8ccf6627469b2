"""Rows of a unit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from realtime_venus.engines.omni.feeding import mix, pictures
from torch import Tensor

from tests.kit import golden
from tests.kit.omni_replay import model
from tests.kit.omni_script import close, named


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def test_ids_and_embeddings_keep_their_order() -> None:
    rows = torch.arange(2 * model().config.hidden_size, dtype=torch.float32).view(2, -1)
    mixed = mix(model(), [[], [3, 4], rows, [5]])
    embedded = model().thinker.embed([3, 4, 5])
    assert torch.equal(mixed, torch.cat((embedded[:2], rows, embedded[2:]))[None])


def test_slices_follow_their_picture() -> None:
    golden.needs_eyes()
    names = sorted(path.name for path in (golden.folder() / "inputs").glob("*.png"))
    frames = [golden.image(name) for name in names[:2]]
    parts, vision = pictures(model(), frames, [2, 1])
    alone, seen = pictures(model(), frames[1:], 1)
    assert vision is not None
    assert seen is not None
    tokens = [part[0] for part in parts if not isinstance(part, Tensor)]
    slices = len(vision) - 2
    assert tokens == [
        named("image"),
        named("image_end"),
        *[named("slice"), named("slice_end")] * slices,
        named("image"),
        named("image_end"),
    ]
    assert len(alone) == 3
    # the batch pads the smaller ones, which changes nothing but rounding
    assert close(vision[-1], seen[0])
    assert vision.shape[1] == model().config.query_num
