"""One at a time."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from realtime_venus.engines.store.errors import StoreBusy
from realtime_venus.engines.store.lock import pull_lock


def test_somebody_else_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    told: list[str] = []
    seconds = count(0, 30)
    with pull_lock(tmp_path, 10, lambda: told.append("first")):  # noqa: SIM117  (one inside the other is the point)
        with (
            pytest.raises(StoreBusy, match="did not finish within 60 s"),
            pull_lock(tmp_path, 60, lambda: told.append("second"), lambda: float(next(seconds))),
        ):
            raise AssertionError
    assert told == ["second"]


def test_the_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), pull_lock(tmp_path, 10, lambda: None):
        raise KeyError
    with pull_lock(tmp_path, 0, lambda: None):
        pass
