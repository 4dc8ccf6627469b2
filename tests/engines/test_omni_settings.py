from __future__ import annotations

from pathlib import Path

import pytest
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni.behaviour import Behaviour, Decoding
from realtime_venus.engines.omni.duplex_settings import DuplexSettings
from realtime_venus.engines.omni_settings import OmniSettings, overridden
from realtime_venus.plugin.settings import load_settings


def test_the_defaults_are_those_of_the_behaviour_venus() -> None:
    settings, own = OmniSettings(), Decoding.of(Behaviour.VENUS)
    given = settings.decoding.model_dump()
    assert given.pop("tokens_per_unit") == own.max_tokens
    assert {name: getattr(own.sampler, name) for name in given} == given
    assert settings.behaviour == DuplexSettings().behaviour
    assert settings.positions == DuplexSettings().positions
    assert settings.backend == DuplexSettings().backend
    assert settings.context.policy == DuplexSettings().context.policy


def test_they_are_a_section_of_all_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENUS_OMNI__MODEL", "/models/omni")
    monkeypatch.setenv("VENUS_OMNI__DECODING__TOP_K", "7")
    monkeypatch.setenv("VENUS_OMNI__CONTEXT__POLICY", "basic")
    settings = load_settings().section(OmniSettings)
    assert settings.model == Path("/models/omni")
    assert (settings.decoding.top_k, settings.context.policy) == (7, "basic")


def test_options_come_before_settings_and_are_checked_like_them() -> None:
    settings = OmniSettings(seed=4, device="cuda")
    changed = overridden(settings, device="cpu", dtype=None, model=Path("x"))
    assert (changed.device, changed.dtype, changed.seed, changed.model) == ("cpu", "auto", 4, Path("x"))
    with pytest.raises(EngineError, match=r"^device: Input should be 'auto', 'cpu' or 'cuda'$"):
        overridden(settings, device="tpu")
