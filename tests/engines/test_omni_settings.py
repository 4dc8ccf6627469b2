from __future__ import annotations

from pathlib import Path

import pytest
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni.behaviour import Behaviour, Decoding
from realtime_venus.engines.omni.duplex_settings import DuplexSettings
from realtime_venus.engines.omni_settings import OmniSettings, overridden
from realtime_venus.plugin.settings import BadSetting, load_settings


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


@pytest.mark.parametrize(
    ("positions", "context", "told"),
    [
        (2048, {"policy": "basic"}, r"HIGH \(8000\) and a second more \(132\) .*CONTEXT__HIGH may be 1916 at most$"),
        (2048, {"policy": "basic", "high": 1917, "low": 900}, "CONTEXT__HIGH may be 1916 at most"),
        (12_288, {"policy": "basic", "low": 9000}, r"^VENUS_OMNI__CONTEXT__LOW \(9000\) must lie below .*\(8000\)"),
        (12_288, {"policy": "context", "units": 200}, r"200\) seconds of 132 .* need VENUS_OMNI__POSITIONS=27288"),
    ],
)
def test_what_is_kept_must_fit_into_the_cache(positions: int, context: dict[str, object], told: str) -> None:
    with pytest.raises(EngineError, match=told):
        overridden(OmniSettings(), positions=positions, context=context)


@pytest.mark.parametrize(
    ("positions", "context"),
    [
        (2048, {"policy": "basic", "high": 1916, "low": 900}),
        (256, {"policy": "time", "high": 8000, "low": 9000}),
        (256, {"policy": "off", "units": 4000}),
        (12_288, {"policy": "basic"}),
        (12_288, {"policy": "context"}),
    ],
)
def test_limits_of_another_policy_do_not_count(positions: int, context: dict[str, object]) -> None:
    assert overridden(OmniSettings(), positions=positions, context=context).positions == positions


def test_a_second_takes_more_positions_with_more_parts_of_a_picture() -> None:
    assert [OmniSettings(max_slices=count).unit_positions for count in (1, 2, 9)] == [132, 264, 726]


def test_limits_that_do_not_fit_are_one_line_for_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENUS_OMNI__CONTEXT__POLICY", "basic")
    monkeypatch.setenv("VENUS_OMNI__POSITIONS", "4096")
    with pytest.raises(BadSetting, match="VENUS_OMNI__CONTEXT__HIGH may be 3964 at most"):
        load_settings()
