from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from realtime_venus.engines.omni.rotary import angles, rotate, shift_angles

from tests.kit import golden
from tests.kit.decoders import config, distance

THETA = 1_000_000.0
DIM = 16


def at(vectors: torch.Tensor, position: int) -> torch.Tensor:
    return rotate(vectors, *angles(torch.tensor(position), vectors.shape[-1], THETA))


def test_cosines_are_those_recorded() -> None:
    recorded = golden.stage("debug_layers")["llm_rope_cos"]
    cosines, sines = angles(torch.arange(len(recorded)), config().head_dim, config().rope_theta)
    assert distance(cosines, recorded) < 1e-6
    torch.testing.assert_close(cosines**2 + sines**2, torch.ones_like(cosines))


def test_channels_are_paired_across_the_halves() -> None:
    """A complex number per pair (i, i + dim / 2), turned by position * theta ** (-2 i / dim)."""
    vectors = torch.as_tensor(golden.normal(1, 5, DIM))
    numbers = vectors[:, : DIM // 2].double().numpy() + 1j * vectors[:, DIM // 2 :].double().numpy()
    turned = numbers * np.exp(1j * 7 * THETA ** (-np.arange(0, DIM, 2) / DIM))
    expected = np.concatenate([turned.real, turned.imag], axis=1)
    assert distance(at(vectors, 7), expected) < 1e-5


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 400))
def test_products_depend_on_the_distance_alone(first: int, second: int, moved: int) -> None:
    query, key = torch.as_tensor(golden.normal(2, 2, DIM))
    here = at(query, first) @ at(key, second)
    there = at(query, first + moved) @ at(key, second + moved)
    torch.testing.assert_close(here, there, atol=1e-3, rtol=0)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 400), st.integers(0, 400))
def test_shift_equals_rotation_at_the_new_position(old: int, new: int) -> None:
    vectors = torch.as_tensor(golden.normal(3, 4, DIM))
    shifted = rotate(at(vectors, old), *shift_angles(new - old, DIM, THETA, vectors.device))
    torch.testing.assert_close(shifted, at(vectors, new), atol=2e-4, rtol=0)


def test_coarse_vectors_are_rounded_once() -> None:
    vectors = torch.as_tensor(golden.normal(4, 4, DIM)).to(torch.bfloat16)
    turned = at(vectors, 123)
    assert turned.dtype == torch.bfloat16
    assert torch.equal(turned, at(vectors.float(), 123).to(torch.bfloat16))
