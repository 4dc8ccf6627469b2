"""Where the cache lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from realtime_venus.engines.store import ModelsSettings


def test_the_cache_follows_the_xdg_specification(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ModelsSettings().cache_dir == tmp_path / "realtime-venus"
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert ModelsSettings().cache_dir == Path.home() / ".cache" / "realtime-venus"


@pytest.mark.parametrize(
    "change", [{"sources": []}, {"sources": ["mars"]}, {"parallel": 0}, {"hub_url": "file:///etc"}]
)
def test_impossible_values_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ModelsSettings.model_validate(change)
