"""What the page gets from other projects is what their packages hold, byte by byte, with its licence."""

from __future__ import annotations

import base64
import hashlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from realtime_venus.demo_room.server import PAGE

VENDOR = PAGE / "vendor"
MANIFEST = "vendored.toml"
PACKAGES: list[dict[str, Any]] = tomllib.loads((VENDOR / MANIFEST).read_text(encoding="utf-8"))["package"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda one: one["name"])
def test_a_file_is_the_packages(package: dict[str, Any]) -> None:
    original = (VENDOR / package["file"]).read_bytes() + package["without"].encode()
    assert hashlib.sha256(original).hexdigest() == package["sha256"]
    algorithm, _, digest = package["integrity"].partition("-")
    assert (algorithm, len(base64.b64decode(digest))) == ("sha512", 64)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda one: one["name"])
def test_a_version_is_the_one_named(package: dict[str, Any]) -> None:
    source = (VENDOR / package["file"]).read_text(encoding="utf-8")
    assert f'version$1 = "{package["version"]}"' in source


@pytest.mark.parametrize("package", PACKAGES, ids=lambda one: one["name"])
def test_its_licence_lies_beside_it(package: dict[str, Any]) -> None:
    text = "".join((VENDOR / name).read_text(encoding="utf-8") for name in package["licences"])
    assert "Apache License" in text
    for bundled in ("events", "jose", "loglevel", "machina", "sdp", "sdp-transform", "webrtc-adapter", "protobuf"):
        assert f"{bundled} " in text


def test_nothing_is_there_that_is_not_listed() -> None:
    listed = {Path(MANIFEST)} | {Path(name) for one in PACKAGES for name in (one["file"], *one["licences"])}
    assert {path.relative_to(VENDOR) for path in VENDOR.rglob("*") if path.is_file()} == listed


def test_nobody_is_sent_after_a_map_that_is_not_here() -> None:
    for path in PAGE.rglob("*.*js"):
        assert "sourceMappingURL" not in path.read_text(encoding="utf-8"), path
