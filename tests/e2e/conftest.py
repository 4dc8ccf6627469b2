from __future__ import annotations

from pathlib import Path

import pytest

from ..demo_room.conftest import start

__all__ = ["start"]

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What happens in real time, between processes, is not run beside what computes."""
    for item in items:
        if HERE in item.path.parents:
            alone = item.get_closest_marker("models") or item.get_closest_marker("alone")
            item.add_marker("alone" if alone else "live")
