"""The vision tower against its recording, layer by layer."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.config import CheckpointError
from realtime_venus.engines.omni.images import PatchedImage
from realtime_venus.engines.omni.see import batched
from realtime_venus.engines.omni.vision import position_ids, used_layers
from torch import Tensor, nn

from ...kit import golden, omni_eyes

TOLERANCE = 1e-4
golden.needs_eyes()

RECORD = golden.stage("vision_tower")
CASES = omni_eyes.cases("vision_tower")
SEEN = [case for case in CASES if omni_eyes.has_picture(case)]


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


def encoded(case: str) -> Tensor:
    """Padded features ``[B, L, hidden]`` of all slices of a case."""
    tower = omni_eyes.tower()
    return cast("Tensor", tower(*batched(tower, omni_eyes.slices(case).patches)))


def keep(seen: dict[str, Tensor], name: str, _module: nn.Module, _given: object, out: Tensor) -> None:
    """A hook that keeps what a module gave for the first of a batch."""
    seen[name] = out[0]


def close(got: Tensor, expected: np.ndarray, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=tolerance)


def test_buckets_of_every_length() -> None:
    record, side = golden.stage("vision_pos_buckets"), omni_eyes.vision_config().side
    for count in np.flatnonzero(record["valid"]).tolist():
        expected = record["table"][count, :count].astype(np.int64)
        assert np.array_equal(position_ids((1, count), side).numpy(), expected), count
        assert np.array_equal(position_ids((count, 1), side).numpy(), expected * side), count
        exact = np.array_equal(expected, np.arange(count) * side // count)
        assert exact == bool(record["equals_floor_formula"][count]), count


@pytest.mark.parametrize("case", CASES)
def test_position_ids(case: str) -> None:
    expected = RECORD[f"{case}_pos_ids"]
    for ids, size in zip(expected, golden.stage("vision_preprocess")[f"{case}_tgt_sizes"], strict=True):
        own = position_ids((int(size[0]), int(size[1])), omni_eyes.vision_config().side).numpy()
        assert np.array_equal(ids[: own.size], own)
        assert not ids[own.size :].any()


@pytest.mark.parametrize("case", SEEN)
def test_features(case: str) -> None:
    features = encoded(case)
    rows = torch.tensor(RECORD[f"{case}_rows"]).long()
    expected = RECORD[f"{case}_vit_rows"] if f"{case}_vit_rows" in RECORD else RECORD[f"{case}_vit_full"][None][:, rows]
    close(features[: len(expected), rows], expected)
    patches = omni_eyes.slices(case).patches
    means = [features[index, : each.count].double().mean().item() for index, each in enumerate(patches)]
    np.testing.assert_allclose(means, RECORD[f"{case}_vit_mean_f64"], rtol=0, atol=1e-5)


def test_features_of_every_patch() -> None:
    found = [key.removesuffix("_vit_full") for key in RECORD if key.endswith("_vit_full")]
    assert found
    for case in found:
        close(encoded(case)[0], RECORD[f"{case}_vit_full"])


def test_embeddings() -> None:
    found = [key.removesuffix("_embeddings") for key in RECORD if key.endswith("_embeddings")]
    assert found
    for case in found:
        tower = omni_eyes.tower()
        pixels, ids, _ = batched(tower, omni_eyes.slices(case).patches)
        close(
            tower.embeddings(pixels, ids)[0][torch.tensor(RECORD[f"{case}_rows"]).long()],
            RECORD[f"{case}_embeddings"],
        )


def test_every_step_of_every_layer() -> None:
    tower, steps = omni_eyes.tower(), dict[str, nn.Module]()
    steps["embeddings"], steps["post_ln"] = tower.embeddings, tower.post_layernorm
    for index, layer in enumerate(tower.encoder.layers):
        names = {"ln1": "layer_norm1", "attn_out": "self_attn", "mlp_out": "mlp"}
        steps |= {f"l{index}_{name}": layer.get_submodule(path) for name, path in names.items()}
        steps[f"l{index}_out"] = layer
    seen = dict[str, Tensor]()
    hooks = [module.register_forward_hook(partial(keep, seen, name)) for name, module in steps.items()]
    case = golden.layered_picture()
    encoded(case)
    for hook in hooks:
        hook.remove()
    recorded = {key: each for key, each in golden.stage("debug_layers").items() if key.startswith("vit_")}
    assert recorded
    rows = torch.tensor(RECORD[f"{case}_rows"]).long()
    for key, expected in recorded.items():
        close(seen[key.removeprefix("vit_")][rows], expected)


def test_a_slice_is_the_same_alone_and_in_a_padded_batch() -> None:
    tower = omni_eyes.tower()
    draw = np.random.default_rng(0)

    def drawn(size: tuple[int, int]) -> PatchedImage:
        patch = omni_eyes.vision_config().patch_size
        pixels = draw.standard_normal((3, patch, patch * size[0] * size[1]), dtype=np.float32)
        return PatchedImage(pixels, size)

    patches = [drawn((3, 5)), drawn((7, 4)), drawn((1, 1))]
    together = tower(*batched(tower, patches))
    for row, each in enumerate(patches):
        alone = tower(*batched(tower, [each]))
        torch.testing.assert_close(together[row, : each.count], alone[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("stored", "configured", "drop", "used"),
    [
        (27, 27, True, 26),
        (27, 27, False, 27),
        (26, 27, True, 26),
        (26, 27, False, 26),
        (27, 26, True, 27),
        (1, 1, False, 1),
    ],
)
def test_how_many_blocks_are_used(stored: int, configured: int, drop: bool, used: int) -> None:
    assert used_layers(stored, configured, drop) == used


def test_blocks_that_no_configuration_has_are_refused() -> None:
    with pytest.raises(CheckpointError, match="vision block 999999998"):
        used_layers(999_999_999, 27, drop_last=True)


@pytest.mark.parametrize(("stored", "configured"), [(25, 27), (0, 27), (0, 1)])
def test_missing_blocks_are_refused(stored: int, configured: int) -> None:
    with pytest.raises(CheckpointError, match=f"holds {stored} vision blocks"):
        used_layers(stored, configured, drop_last=True)
