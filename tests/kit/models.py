"""The model files of this machine, for tests marked ``models``."""

from __future__ import annotations

import pytest
from realtime_venus.engines.store import Store


@pytest.fixture(scope="session")
def models() -> Store:
    """The store of this machine: ``models.path("whisper-base")``; a missing file fails with what to run."""
    return Store()
