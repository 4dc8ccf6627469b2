"""The wheel that users get: what is in it, and that every module of it imports in an empty environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from ..kit.repository import FOLDERS, IMPORT_ROOT, ROOT, files, installed_otherwise, modules, project

pytestmark = pytest.mark.wheel

UV = Path(sys.executable).with_name("uv")
FULL_SUPPORT = ("3.11", "3.12")
WITHOUT_CHINESE_VOICE = "3.13"
COMMAND_LIMIT_S = 300
MAY_NEED = {
    "local": (
        f"{IMPORT_ROOT}.engines.cascade.",
        f"{IMPORT_ROOT}.engines.store.kokoro_graph",
        f"{IMPORT_ROOT}.plugin.livekit.components.",
    ),
    "livekit": (
        f"{IMPORT_ROOT}.plugin.livekit",
        f"{IMPORT_ROOT}.plugin.rooms.livekit.",
        f"{IMPORT_ROOT}.plugin.worker.",
        f"{IMPORT_ROOT}.demo_room.livekit",
        "livekit.plugins.venus",
    ),
    "omni": (f"{IMPORT_ROOT}.engines.omni.", f"{IMPORT_ROOT}.plugin.ask."),
}
"""Only modules whose names, with a dot behind them, begin like this may ask for that extra."""

IMPORT_EACH = """
import importlib, json, sys
failed = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed[name] = [type(error).__name__, str(error)]
print(json.dumps(failed))
"""

Failures = dict[str, tuple[str, str]]
"""Modules that did not import: the error's class and its message."""


def run(*command: str | Path, cwd: Path | None = None, stdin: str = "", exits: int = 0) -> str:
    """The standard output of a command; the test fails with all that it said when it does not exit as it should."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=plain,
        input=stdin,
        text=True,
        capture_output=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    if done.returncode != exits:
        pytest.fail(f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


@cache
def find_python(version: str) -> Path | None:
    """An interpreter of that version: on the PATH, one of pyenv's that is not switched on, or one that uv knows."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = shutil.which(f"python{version}")
    candidates = [*([Path(named)] if named else []), *sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))]
    found = (candidate for candidate in candidates if says(candidate, "--version").startswith(f"Python {version}."))
    return next(found, None) or python_of_uv(version)


def python_of_uv(version: str) -> Path | None:
    """The one that uv finds, or else one that it installed; a shim on the PATH that leads nowhere stops its search."""
    for option in ("--no-managed-python", "--managed-python"):
        if found := says(UV, "python", "find", "--system", "--no-python-downloads", option, version).strip():
            return Path(found)
    return None


def says(*command: str | Path) -> str:
    """The standard output of a command, or nothing when it fails."""
    done = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def need_python(version: str) -> Path:
    """The interpreter; without it the test is skipped on a developer's machine and fails where changes are judged."""
    if found := find_python(version):
        return found
    message = (
        f"The wheel is tried on Python {version}, which is neither on the PATH nor one of pyenv's or uv's. "
        f"Get it with:  .venv/bin/uv python install {version}"
    )
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what git has, so that nothing that lies about gets in."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for path in files():
        if path.parts[0] in (*FOLDERS, "pyproject.toml", "LICENSE", "README.md"):
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, source / path)
    run(UV, "build", "--wheel", "--no-build-isolation", "--out-dir", folder, "--python", sys.executable, source)
    return next(folder.glob("*.whl"))


class EmptyEnvironment:
    """A virtual environment with the wheel and what it depends on, at the locked versions, and nothing else."""

    def __init__(self, folder: Path, python: Path, wheel: Path, extra: str) -> None:
        self.folder = folder
        self.python = folder / "environment" / "bin" / "python"
        run(UV, "venv", "--quiet", "--python", python, self.python.parents[1], cwd=folder)
        self.add(wheel, extra)

    def add(self, wheel: Path, extra: str) -> None:
        """Install the wheel with ``extra``."""
        wanted = f"realtime-venus{extra} @ {wheel.as_uri()}"
        lock = ROOT / "requirements" / "livekit.lock"  # which holds what local.lock holds, at the same versions
        run(UV, "pip", "install", "--quiet", "--python", self.python, "--constraint", lock, wanted, cwd=self.folder)

    def import_each(self, names: Sequence[str]) -> Failures:
        """Import the modules one after the other, away from the checkout."""
        said = run(self.python, "-I", "-W", "ignore", "-c", IMPORT_EACH, cwd=self.folder, stdin=json.dumps(names))
        return cast(Failures, json.loads(said))

    def venus(self, *arguments: str, exits: int = 0) -> str:
        return run(self.python.with_name("venus"), *arguments, cwd=self.folder, exits=exits)


def every_module() -> Sequence[str]:
    return sorted(module.name for module in modules())


def installed(path: Path) -> str:
    """Where a file of the checkout lies in the wheel."""
    for folder, name in installed_otherwise().items():
        if path.parent.as_posix() == folder:
            return f"{name.replace('.', '/')}/{path.name}"
    return f"{IMPORT_ROOT}/{path.as_posix()}"


def all_ask_for(extras: Sequence[str], failed: Failures) -> None:
    """Every module that failed may ask for one of these extras, and does, in words that say what to install."""
    for name, (kind, message) in failed.items():
        assert kind == "MissingExtra", f"{name}: {kind}: {message}"
        asked = [extra for extra in extras if f"pip install 'realtime-venus[{extra}]'" in message]
        assert asked, f"{name}: {message}"
        assert f"{name}.".startswith(MAY_NEED[asked[0]]), f"{name} needs {asked[0]}"


def needing_omni() -> set[str]:
    """The modules of the omni extra.  It is never installed here: its torch alone takes gigabytes."""
    return {name for name in every_module() if f"{name}.".startswith(MAY_NEED["omni"])}


def test_the_wheel_holds_the_packages_and_their_data_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = {name for name in names if ".dist-info/" not in name}
    tracked = {installed(path) for path in files() if path.parts[0] in FOLDERS}
    assert shipped == tracked
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize("version", [*FULL_SUPPORT, WITHOUT_CHINESE_VOICE])
def test_every_module_imports_with_its_extra(version: str, wheel: Path, tmp_path: Path) -> None:
    environment = EmptyEnvironment(tmp_path, need_python(version), wheel, "[local]")
    all_ask_for(["livekit", "omni"], environment.import_each(every_module()))
    assert project()["project"]["version"] in environment.venus("version")
    environment.add(wheel, "[livekit,local]")
    failed = environment.import_each(every_module())
    all_ask_for(["omni"], failed)
    assert set(failed) == needing_omni()


def test_without_an_extra_its_modules_say_what_to_install(wheel: Path, tmp_path: Path) -> None:
    environment = EmptyEnvironment(tmp_path, need_python(FULL_SUPPORT[0]), wheel, "")
    failed = environment.import_each(every_module())
    assert {name for name in failed if name.startswith(MAY_NEED["local"][0])}, "the local extra is not needed any more"
    all_ask_for(["local", "livekit", "omni"], failed)
    assert project()["project"]["version"] in environment.venus("version")
    assert json.loads(environment.venus("doctor", "--json", exits=1))["can_run"] is False
    environment.add(wheel, "[livekit]")
    all_ask_for(["local", "omni"], environment.import_each(every_module()))
