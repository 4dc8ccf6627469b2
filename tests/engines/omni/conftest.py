"""Tests of the network compute with one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

# taken before any module of the kit is imported that sets its own
_THREADS = torch.get_num_threads()


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from threads, and processes that test side by side wait for each other's."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(_THREADS)
