"""The recorded duplex sessions, replayed: every flag, id, code and length, and every float within its tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tests.kit import omni_replay


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("name", list(omni_replay.recorded_sessions()))
def test_recorded_session(name: str, record_property: Callable[[str, object], None]) -> None:
    for kind, distance in omni_replay.compare(name).items():
        record_property(f"distance of {kind}", distance)


@pytest.mark.parametrize("name", list(omni_replay.recorded_sessions(blind=True)))
def test_recorded_session_without_a_vision_tower(name: str) -> None:
    omni_replay.compare(name, sees=False)
