"""All settings in one object: environment variables ``VENUS_<SECTION>__<NAME>``, then ``venus.toml``, then defaults.

Every folder registers its sections (frozen pydantic models) as entry points of the group ``realtime_venus.settings``;
the entry point's name is the section's.  The file is ``venus.toml`` in the working directory, or where ``VENUS_CONFIG``
points.  A name that no section has is refused, with the nearest one that exists.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from ..engines.base import VenusError

GROUP = "realtime_venus.settings"
PREFIX = "VENUS_"
CONFIG = "VENUS_CONFIG"
FILE = "venus.toml"
_DELIMITER = "__"

M = TypeVar("M", bound=BaseModel)


class BadSetting(VenusError):
    """A setting is unknown, has an impossible value, or cannot be read."""


class Settings(BaseSettings):
    """The sections, each under its name: ``settings.room``; typed: ``settings.section(RoomSettings)``."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=_DELIMITER, extra="forbid", frozen=True, case_sensitive=False
    )
    file_content: ClassVar[dict[str, Any]] = {}

    def section(self, model: type[M]) -> M:
        """The section of that type.  Raises :class:`BadSetting` when no section is of that type."""
        for name in type(self).model_fields:
            value: object = getattr(self, name)
            if type(value) is model:
                return cast(M, value)
        raise BadSetting(f"no settings section is a {model.__name__}; sections: {', '.join(type(self).model_fields)}")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, InitSettingsSource(settings_cls, cls.file_content)


def load_sections() -> dict[str, type[BaseModel]]:
    """The registered sections by name.  Raises :class:`BadSetting` when one cannot be loaded."""
    sections: dict[str, type[BaseModel]] = {}
    for entry in metadata.entry_points(group=GROUP):
        try:
            section: object = entry.load()
        except (ImportError, AttributeError) as error:
            raise BadSetting(f"the settings section {entry.name} ({entry.value}) cannot be loaded: {error}") from error
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            raise BadSetting(f"the settings section {entry.name} ({entry.value}) is no pydantic model")
        sections[entry.name] = section
    return sections


def load_settings(sections: Mapping[str, type[BaseModel]] | None = None) -> Settings:
    """Read the settings of this process.  ``sections`` replaces the registered ones.

    Raises :class:`BadSetting`, whose message never holds a value.
    """
    sections = load_sections() if sections is None else sections
    known = {name: path for path in _paths(sections) for name in [".".join(path)]}
    _refuse_unknown_variables(sections, known)
    file, content = _read_file()
    _refuse_unknown_keys(sections, known, file, content)
    fields: dict[str, Any] = {name: (model, Field(default_factory=model)) for name, model in sections.items()}
    kind = create_model("Settings", __base__=Settings, **fields)
    kind.file_content = content
    try:
        return kind()
    except SettingsError as error:
        raise BadSetting(_not_json(sections) or str(error)) from error
    except ValidationError as error:
        raise BadSetting("; ".join(_complaints(error, sections, file, content))) from error


# -- names ----------------------------------------------------------------------------------------------------------


def _nested(annotation: object) -> type[BaseModel] | None:
    """The model that an annotation ``Model`` or ``Model | None`` nests.  Containers of models are given whole."""
    members = [one for one in get_args(annotation) if one is not type(None)] or [annotation]
    only = members[0]
    if len(members) == 1 and get_origin(annotation) in (None, Union, UnionType) and isinstance(only, type):
        return only if issubclass(only, BaseModel) else None
    return None


def _paths(models: Mapping[str, type[BaseModel]]) -> Iterator[tuple[str, ...]]:
    """Every name that can be set, as its parts; those of nested models come after their own."""
    for name, model in models.items():
        yield (name,)
        nested: dict[str, type[BaseModel]] = {}
        for field, info in model.model_fields.items():
            below = _nested(info.annotation)
            if below is None:
                yield (name, field)
            else:
                nested[field] = below
        for path in _paths(nested):
            yield (name, *path)


def _leaf(path: list[str], sections: Mapping[str, type[BaseModel]]) -> object | None:
    """The annotation of the setting at ``path``, or ``None`` when there is none."""
    if len(path) == 1:
        return sections.get(path[0])
    info = _field(path, sections)
    return None if info is None else info.annotation


def _field(path: list[str], sections: Mapping[str, type[BaseModel]]) -> FieldInfo | None:
    """The field at ``path``, or ``None`` when there is none, or a section."""
    annotation: object | None = sections.get(path[0])
    info: FieldInfo | None = None
    for name in path[1:]:
        model = _nested(annotation)
        info = None if model is None else model.model_fields.get(name)
        if info is None:
            return None
        annotation = info.annotation
    return info


def _variables() -> Iterator[tuple[str, list[str]]]:
    """The environment variables that are ours, as name and path."""
    for variable in sorted(os.environ):
        name = variable.upper()
        if name.startswith(PREFIX) and name != CONFIG:
            yield variable, name.removeprefix(PREFIX).lower().split(_DELIMITER)


def _refuse_unknown_variables(sections: Mapping[str, type[BaseModel]], known: Mapping[str, tuple[str, ...]]) -> None:
    for variable, path in _variables():
        if _leaf(path, sections) is None:
            near = _nearest(path, known)
            hint = "" if near is None else f"; did you mean {PREFIX}{_DELIMITER.join(known[near]).upper()}?"
            raise BadSetting(f"unknown setting {variable} in the environment{hint}")


def _refuse_unknown_keys(
    sections: Mapping[str, type[BaseModel]],
    known: Mapping[str, tuple[str, ...]],
    file: Path,
    content: Mapping[str, Any],
) -> None:
    for path in _keys(content, sections):
        if _leaf(path, sections) is None:
            near = _nearest(path, known)
            hint = "" if near is None else f"; did you mean {near}?"
            raise BadSetting(f"unknown setting {'.'.join(path)} in {file}{hint}")


def _keys(content: Mapping[str, Any], models: Mapping[str, type[BaseModel]]) -> Iterator[list[str]]:
    """The keys of the file, down to where a model ends."""
    for name, value in content.items():
        yield [name]
        model = models.get(name)
        if model is not None and isinstance(value, dict):
            fields = {field: _nested(info.annotation) for field, info in model.model_fields.items()}
            below = {field: one for field, one in fields.items() if one is not None}
            for path in _keys(cast(dict[str, Any], value), below):
                yield [name, *path]


def _nearest(path: list[str], known: Mapping[str, tuple[str, ...]]) -> str | None:
    dotted = ".".join(path)
    # Somebody who forgot the section, or wrote it with one underscore, means the setting of that name.
    return next(
        (name for name in known if name.replace(".", "_") == dotted.replace(".", "_") or name.endswith(f".{dotted}")),
        next(iter(difflib.get_close_matches(dotted, known, 1, cutoff=0.5)), None),
    )


# -- reading --------------------------------------------------------------------------------------------------------


def _read_file() -> tuple[Path, dict[str, Any]]:
    named = os.environ.get(CONFIG)
    file = Path(named or FILE)
    try:
        return file, tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if named:
            raise BadSetting(f"{CONFIG} names {named}, which does not exist") from error
        return file, {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{file} is no TOML: {error}") from error


def _not_json(sections: Mapping[str, type[BaseModel]]) -> str | None:
    """Which variable should have been JSON and is not."""
    for variable, path in _variables():
        annotation = _leaf(path, sections)
        plain = isinstance(annotation, type) and not issubclass(annotation, BaseModel)
        if plain:
            continue
        try:
            json.loads(os.environ[variable])
        except ValueError:
            info = _field(path, sections)
            if info is not None and info.examples:
                return f"{variable} must be JSON, for example '{json.dumps(info.examples[0])}'"
            return f"""{variable} must be JSON, for example '["one", "two"]' for a list"""
    return None


def _complaints(
    error: ValidationError, sections: Mapping[str, type[BaseModel]], file: Path, content: Mapping[str, Any]
) -> Iterator[str]:
    """What is wrong and where it was set, without the value, which may be a secret."""
    given = dict(_variables())
    for one in error.errors(include_input=False, include_context=False, include_url=False):
        path = [str(part) for part in one["loc"]]
        source = next((variable for variable, at in given.items() if path[: len(at)] == at), None)
        where = f"{'.'.join(path)} in {file}" if source is None and path and path[0] in content else ".".join(path)
        message = _unknown_inside(path, sections) if one["type"] == "extra_forbidden" else one["msg"]
        yield f"{source or where}: {message}"


def _unknown_inside(path: list[str], sections: Mapping[str, type[BaseModel]]) -> str:
    """A key that a value should not have, with the nearest one that it may."""
    annotation: object | None = sections.get(path[0])
    for part in path[1:-1]:
        model = _nested(annotation)
        if model is not None:
            annotation = model.model_fields[part].annotation if part in model.model_fields else None
        else:  # an entry of a container
            members = [one for one in get_args(annotation) if one not in (Ellipsis, type(None))]
            annotation = members[-1] if members else None
    model = _nested(annotation)
    near = difflib.get_close_matches(path[-1], () if model is None else model.model_fields, 1, cutoff=0.5)
    return f"unknown setting {'.'.join(path)}" + (f"; did you mean {near[0]}?" if near else "")
