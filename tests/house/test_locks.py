"""The locks name versions and hashes and nothing else, and agree with pyproject.toml."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..kit.repository import ROOT, project

LOCKS = {"local": ("local",), "livekit": ("local", "livekit"), "dev": ("local", "livekit", "dev")}
"""Each lock with the extras it holds."""
PYTHONS = ("3.11", "3.12", "3.13")
HEAD = re.compile(r"^(?P<requirement>[a-z0-9][a-z0-9.-]*==[^ ;]+(?: ; .+?)?) \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


@cache
def locked(name: str) -> tuple[Requirement, ...]:
    lines = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8").splitlines()
    return tuple(Requirement(match["requirement"]) for line in lines if (match := HEAD.match(line)))


def environment(python: str) -> dict[str, str]:
    return {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def applies(requirement: Requirement, python: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment(python))


def asked_for(extras: tuple[str, ...]) -> list[Requirement]:
    table = project()["project"]
    lines: list[str] = [
        *table["dependencies"],
        *(line for extra in extras for line in table["optional-dependencies"][extra]),
    ]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_names_versions_and_hashes(name: str) -> None:
    lines = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if not HEAD.match(line) and not HASH.match(line)]
    for line, following in pairwise(lines):
        if HEAD.match(line):
            assert HASH.match(following), f"{line} has no hash"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_fulfils_what_the_project_asks_for(name: str, python: str) -> None:
    pinned = {
        canonicalize_name(entry.name): next(iter(entry.specifier)).version
        for entry in locked(name)
        if applies(entry, python)
    }
    unmet = [
        str(wanted)
        for wanted in asked_for(LOCKS[name])
        if applies(wanted, python)
        if not wanted.specifier.contains(pinned.get(canonicalize_name(wanted.name), "0"), prereleases=True)
    ]
    assert not unmet, "run: make lock"


def test_development_has_the_very_versions_that_users_get() -> None:
    versions = {name: {(entry.name, str(entry.specifier)) for entry in locked(name)} for name in LOCKS}
    assert versions["local"] <= versions["dev"]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_what_installs_and_builds(name: str) -> None:
    assert {"setuptools", "uv"} <= {entry.name for entry in locked(name)}
