from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from realtime_venus.engines.omni.upload import download, upload

from tests.kit.host_copies import host_copies


def test_numbers_go_there_and_back() -> None:
    there = upload((number * number for number in range(4)), torch.device("cpu"))
    assert there.dtype == torch.int64
    assert download(there) == [0, 1, 4, 9]
    assert download(upload([], torch.device("cpu"))) == []


@pytest.mark.parametrize("inference", [True, False])
def test_every_wait_is_counted_once(inference: bool) -> None:
    with torch.inference_mode() if inference else nullcontext():
        numbers = torch.arange(3)
        waits: list[Callable[[], object]] = [
            lambda: int(numbers[1]),
            lambda: float(numbers[1]),
            lambda: bool(numbers[1]),
            lambda: numbers[1].item(),
            lambda: download(numbers),
            lambda: numbers.cpu(),
            lambda: numbers.numpy(),
            lambda: numbers.nonzero(),
            lambda: numbers[numbers > 1],
        ]
        with host_copies() as seen:
            _ = numbers[upload([1], numbers.device)] + numbers.sum().clamp(max=2)
            assert seen == []
            for count, wait in enumerate(waits, 1):
                wait()
                assert len(seen) == count, seen
