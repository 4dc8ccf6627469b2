"""Nothing in the repository ties it to one machine or to one address of a registry."""

from __future__ import annotations

import re
from pathlib import Path

from ..kit.repository import ROOT, files, texts

# Written apart, so that this file does not find itself.
REGISTRY_HOSTS = (
    "pypi" + ".org",
    "files.python" + "hosted.org",
    "registry.npm" + "js.org",
    "registry.yarn" + "pkg.com",
    "static.crates" + ".io",
    "proxy.golang" + ".org",
    "repo1.maven" + ".org",
    "deb.debian" + ".org",
)
MACHINE_PATHS = re.compile(
    "(?<![\\w.$}~-])/(?:" + "|".join(("work/" + r"\w", "ro" + r"ot/\w", "ho" + r"me/\w", "Us" + r"ers/\w")) + ")"
)


def test_no_registry_is_named_by_its_address() -> None:
    found = [f"{path}: {host}" for path, text in texts() for host in REGISTRY_HOSTS if host in text]
    assert not found


def test_no_path_of_one_machine() -> None:
    found = [f"{path}: {match.group()}" for path, text in texts() for match in MACHINE_PATHS.finditer(text)]
    assert not found


def test_no_unfinished_work() -> None:
    marks = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
    found = [
        f"{path}: {match.group()}"
        for path, text in texts()
        if path.suffix in {".py", ".js", ".sh", ".toml", ".md", ".html", ".css"}
        for match in marks.finditer(text)
    ]
    assert not found


NOTICES = ("LICENSE", "NOTICE", "LICENSE.txt", "NOTICE.md")
OUR_OWN = {Path("engines/cascade/data/router_head.npz")}
"""Weights that were trained here, on sentences written here."""


def test_every_model_file_has_its_licence_beside_or_above_it() -> None:
    shipped = {path for path in files() if path.suffix in {".onnx", ".bin", ".npz", ".gguf"}} - OUR_OWN
    without = [
        str(path)
        for path in sorted(shipped)
        if not any((ROOT / folder / name).is_file() for folder in path.parents[:-1] for name in NOTICES)
    ]
    assert not without
