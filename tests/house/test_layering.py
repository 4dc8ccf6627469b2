"""What may import what, where private names of other projects may be touched, and how long a file may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ..kit.repository import FOLDERS, IMPORT_ROOT, ROOT, Import, Module, files, imports, modules, project

MAY_IMPORT = {
    "engines": {"engines"},
    "tools": {"tools"},
    "plugin": {"plugin", "engines", "tools"},
    "trt_builds": {"trt_builds", "engines"},
    "demo_room": {"demo_room", "plugin", "tools", "engines"},
}

ADAPTERS: dict[str, str] = {
    "plugin/livekit/components/bases.py": "livekit-agents",
    "plugin/rooms/webrtc/adapter.py": "aiortc",
    "plugin/livekit/compat.py": "livekit-agents",
    "plugin/worker/adapter.py": "livekit-agents",
}
"""The files that may touch a private name of another project, each with the project it adapts."""

MANGLED = re.compile(r"_[A-Za-z][A-Za-z0-9]*__[a-z]\w*")
"""What Python makes of a name with two leading underscores inside a class; nobody writes it by chance."""

LONGEST_FILE = 500


def ours(found: Import) -> str | None:
    """The package folder that an import reaches, or ``None`` for one of another project."""
    parts = found.target.split(".")
    if parts[0] != IMPORT_ROOT:
        return None
    if len(parts) > 1:
        return parts[1]
    return found.name


def test_every_folder_has_a_row_in_the_table() -> None:
    assert set(MAY_IMPORT) == set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_only_what_lies_below_it(folder: str) -> None:
    wrong = [
        f"{module.path}:{found.line} imports {found.target}"
        for module in modules()
        if module.folder == folder
        for found in imports(module)
        if (reached := ours(found)) is not None and reached not in MAY_IMPORT[folder]
    ]
    assert not wrong


def test_packages_import_each_other_relatively_and_never_the_tests() -> None:
    absolute = {IMPORT_ROOT, "tests", "benchmarks", *FOLDERS}
    elsewhere = ("plugin", "livekit_namespace")  # installed under another root, from which nothing relative leads here
    wrong = [
        f"{module.path}:{found.line} imports {found.target}"
        for module in modules()
        if module.package != elsewhere
        for found in imports(module)
        if not found.relative and found.target.split(".")[0] in absolute
    ]
    assert not wrong


@cache
def own_private_names() -> set[str]:
    """Every name with one leading underscore that our own packages define."""
    names: set[str] = set()
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ):
                names.add(node.attr)
    return {name for name in names if is_private(name)}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def foreign_private_names(module: Module) -> Iterator[str]:
    """Uses of a private name that no package of ours defines, as ``file:line name``."""
    own = own_private_names()
    for found in imports(module):
        if ours(found) is None and any(is_private(part) for part in (*found.target.split("."), found.name or "")):
            yield f"{module.path}:{found.line} {found.target} {found.name or ''}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield f"{module.path}:{node.lineno} {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MANGLED.fullmatch(node.value):
            yield f"{module.path}:{node.lineno} {node.value}"
        elif (
            isinstance(node, ast.Call)
            and (name := named_attribute(node)) is not None
            and is_private(name)
            and name not in own
        ):
            yield f"{module.path}:{node.lineno} {name}"


def named_attribute(node: ast.Call) -> str | None:
    """The attribute that a call such as ``getattr(x, "name")`` names by a string."""
    match node:
        case ast.Call(
            func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr") | ast.Attribute(attr="attrgetter"),
            args=[*_, ast.Constant(value=str(name))],
        ) if len(node.args) < 3:
            return name
        case ast.Call(func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=str(name)), _]):
            return name
        case _:
            return None


@cache
def uses_of_foreign_private_names() -> dict[str, list[str]]:
    """The uses by the path of the module."""
    found = {module.path.as_posix(): list(foreign_private_names(module)) for module in modules()}
    return {path: uses for path, uses in found.items() if uses}


def test_private_names_of_other_projects_stay_in_their_adapter() -> None:
    wrong = {path: uses for path, uses in uses_of_foreign_private_names().items() if path not in ADAPTERS}
    assert not wrong


@pytest.mark.parametrize(
    "code",
    [
        "x._foreign_name",
        "from other import _foreign_name",
        "getattr(x, '_foreign_name')",
        "getattr(x, '_foreign_name', None)",
        "setattr(x, '_foreign_name', 1)",
        "hasattr(x, '_foreign_name')",
        "NAME = '_Foreign__name'",
    ],
)
def test_a_private_name_is_seen_however_it_is_written(code: str) -> None:
    assert len(list(foreign_private_names(Module(Path("plugin/made_up.py"), ast.parse(code))))) == 1


def test_an_adapter_is_there_for_a_private_name() -> None:
    assert set(ADAPTERS) <= set(uses_of_foreign_private_names()), "take off the list what needs no private name"


def test_every_package_folder_is_listed_for_the_wheel() -> None:
    there = {module.package_name for module in modules()}
    assert sorted(project()["tool"]["setuptools"]["packages"]) == sorted(there)


def test_every_package_folder_has_an_init() -> None:
    inits = {module.package for module in modules() if module.path.name == "__init__.py"}
    assert {module.package for module in modules()} == inits


def test_entry_points_lead_somewhere() -> None:
    known = {module.name for module in modules()}
    groups: dict[str, dict[str, str]] = project()["project"]["entry-points"]
    targets = [
        *project()["project"]["scripts"].values(),
        *(value for group in groups.values() for value in group.values()),
    ]
    missing = [target for target in targets if target.split(":")[0] not in known]
    assert not missing


def test_a_file_says_one_thing() -> None:
    long = [
        f"{path} has {lines} lines"
        for path in files()
        if path.suffix in {".py", ".js", ".css"} and path.parts[:2] != ("tests", "kits")
        if (lines := (ROOT / path).read_text(encoding="utf-8").count("\n")) > LONGEST_FILE
    ]
    assert not long
