"""The settings of the cascade refuse what they do not know."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from realtime_venus.engines.cascade.settings import CascadeSettings, EndpointSettings, OverlapSettings


@pytest.mark.parametrize("model", [CascadeSettings, EndpointSettings, OverlapSettings])
def test_unknown_keys_are_refused(model: type[BaseModel]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        model.model_validate({"patience": 1})


@pytest.mark.parametrize("section", ["endpoint", "overlap"])
def test_unknown_keys_are_refused_in_the_sections_too(section: str) -> None:
    with pytest.raises(ValidationError, match=f"{section}.patience"):
        CascadeSettings.model_validate({section: {"patience": 1}})


@pytest.mark.parametrize(
    "values",
    [
        {"unit_ms": 130},
        {"max_sessions": 0},
        {"threads": -1},
        {"max_tokens": 1},
        {"context_tokens": 100},
        {"temperature": 3},
        {"world_threshold": 1.1},
        {"model": "7b"},
        {"endpoint": {"cap_ms": 100}},
        {"overlap": {"yield_ms": 0}},
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(values))):
        CascadeSettings.model_validate(values)


def test_they_cannot_be_changed_afterwards() -> None:
    settings = CascadeSettings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.threads = 4  # pyright: ignore[reportAttributeAccessIssue] - that it is refused is what is tested


def test_sections_are_read_from_plain_values() -> None:
    settings = CascadeSettings.model_validate({"endpoint": {"cap_ms": 2000}, "facts": ["The bar is open."]})
    assert settings.endpoint.cap_ms == 2000
    assert settings.facts == ("The bar is open.",)
