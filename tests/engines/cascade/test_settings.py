"""The settings of the cascade refuse what they do not know."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from realtime_venus.engines.cascade.facts import LONGEST_FACT, MOST_FACTS
from realtime_venus.engines.cascade.prompt import LONGEST_INSTRUCTION
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


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (["short", "x" * (LONGEST_FACT + 1)], f"at most {LONGEST_FACT} characters; fact 2 has {LONGEST_FACT + 1}"),
        ([str(number) for number in range(MOST_FACTS + 1)], f"at most {MOST_FACTS} facts, not {MOST_FACTS + 1}"),
    ],
)
def test_facts_beyond_the_limits_are_refused_when_the_settings_are_read(facts: list[str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CascadeSettings.model_validate({"facts": facts})


@pytest.mark.parametrize("name", ["persona", "system_prompt"])
def test_an_instruction_too_long_is_refused_when_the_settings_are_read(name: str) -> None:
    longest = "x" * LONGEST_INSTRUCTION
    assert CascadeSettings.model_validate({name: longest}).model_dump()[name] == longest
    with pytest.raises(ValidationError, match=f"{name}\n.*at most {LONGEST_INSTRUCTION} characters"):
        CascadeSettings.model_validate({name: longest + "x"})


def test_facts_are_kept_on_one_line_each_and_once() -> None:
    assert CascadeSettings(facts=(" The bar\nis open. ", "", "The bar is open.")).facts == ("The bar is open.",)


def test_they_cannot_be_changed_afterwards() -> None:
    settings = CascadeSettings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.threads = 4  # pyright: ignore[reportAttributeAccessIssue] - that it is refused is what is tested


def test_sections_are_read_from_plain_values() -> None:
    settings = CascadeSettings.model_validate({"endpoint": {"cap_ms": 2000}, "facts": ["The bar is open."]})
    assert settings.endpoint.cap_ms == 2000
    assert settings.facts == ("The bar is open.",)
