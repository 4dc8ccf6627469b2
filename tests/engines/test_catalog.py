"""Engines by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from realtime_venus.engines import catalog
from realtime_venus.engines.base import EngineError, Language, SessionOptions
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.omni_settings import OmniSettings
from realtime_venus.engines.store import ModelsSettings


@pytest.mark.parametrize("name", catalog.NAMES)
def test_every_engine_named_can_be_made(name: str) -> None:
    engine = catalog.create(name)
    assert engine.name == name
    assert set(engine.languages) == set(Language)


def test_an_engine_takes_its_settings() -> None:
    engine = catalog.create(settings=CascadeSettings(unit_ms=200, max_sessions=3))
    assert (engine.unit_ms, engine.max_sessions) == (200, 3)


def test_an_unknown_engine_is_refused_with_what_there_is() -> None:
    with pytest.raises(EngineError, match="unknown engine 'oracle': known are cascade, omni"):
        catalog.create("oracle")


def test_only_an_engine_that_needs_a_checkpoint_is_asked_for_one(tmp_path: Path) -> None:
    models = ModelsSettings(cache_dir=tmp_path)
    catalog.check(CascadeSettings(), models)
    with pytest.raises(EngineError, match="venus models pull omni"):
        catalog.check(OmniSettings(), models)
    with pytest.raises(EngineError, match=r"no config\.json"):
        catalog.check(OmniSettings(model=tmp_path), models)
    (tmp_path / "config.json").write_text("{}")
    catalog.check(OmniSettings(model=tmp_path), models)


async def test_nothing_is_loaded_by_making_one(tmp_path: Path) -> None:
    engine = catalog.create(models=ModelsSettings(cache_dir=tmp_path))
    with pytest.raises(EngineError, match=r"await load\(\)"):
        engine.open(SessionOptions())
    with pytest.raises(EngineError, match="venus models pull"):
        await engine.load()
    await engine.close()
