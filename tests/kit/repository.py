"""The checkout as the tests of the house see it: its files, its packages and what they import."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ROOT = "realtime_venus"
FOLDERS = ("engines", "tools", "plugin", "trt_builds", "demo_room")
"""The top-level folders that are packages; a folder appears with its first real file."""


@cache
def files() -> Sequence[Path]:
    """Every file that git tracks or would track, relative to the checkout, without links."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    ).stdout.decode()
    paths = (Path(name) for name in sorted(set(listed.split("\0"))) if name)
    return tuple(path for path in paths if (ROOT / path).is_file() and not (ROOT / path).is_symlink())


def texts() -> Iterator[tuple[Path, str]]:
    """Every file that is text in UTF-8, with its content."""
    for path in files():
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@cache
def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def installed_otherwise() -> Mapping[str, str]:
    """The package folders that are installed below another name than the import root, each with that name."""
    folders: dict[str, str] = project()["tool"]["setuptools"]["package-dir"]
    return {folder: name for name, folder in folders.items() if folder != "."}


@dataclass(frozen=True, slots=True)
class Module:
    """A module of one of the package folders."""

    path: Path
    """Relative to the checkout."""
    tree: ast.Module

    @property
    def folder(self) -> str:
        return self.path.parts[0]

    @property
    def package(self) -> tuple[str, ...]:
        """The package it lies in, below the import root."""
        return self.path.parent.parts

    @property
    def package_name(self) -> str:
        """The name that its package is imported under."""
        return installed_otherwise().get("/".join(self.package), ".".join((IMPORT_ROOT, *self.package)))

    @property
    def name(self) -> str:
        return self.package_name if self.path.stem == "__init__" else f"{self.package_name}.{self.path.stem}"


@cache
def modules() -> Sequence[Module]:
    """Every module of the package folders."""
    return tuple(
        Module(path, ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path)))
        for path in files()
        if path.suffix == ".py" and path.parts[0] in FOLDERS
    )


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name.  ``target`` is absolute, also for a relative import: ``realtime_venus.engines.base``."""

    line: int
    target: str
    name: str | None
    """What is taken from ``target``; ``None`` for a plain ``import``."""
    relative: bool


def imports(module: Module) -> Iterator[Import]:
    """Everything a module imports, wherever in it, also only for type checking."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, None, relative=False)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if node.level:
                    above = (IMPORT_ROOT, *module.package)
                    kept = above[: len(above) - node.level + 1]
                    target = ".".join((*kept, *((node.module,) if node.module else ())))
                    yield Import(node.lineno, target, alias.name, relative=True)
                else:
                    yield Import(node.lineno, node.module or "", alias.name, relative=False)
