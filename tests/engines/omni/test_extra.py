"""The packages of the extra are asked for once, and what must work without them does."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules[{missing!r}] = None  # as if it were not installed
import realtime_venus.engines.catalog, realtime_venus.engines.commands, realtime_venus.plugin.commands
from realtime_venus.engines.base import MissingExtra
from realtime_venus.engines.doctor import gather
from realtime_venus.engines.store import ModelsSettings, Store
gather(Store(ModelsSettings()))
assert "torch" not in sys.modules or sys.modules["torch"] is None
for name in ("engines.omni", "engines.omni.units", "plugin.ask"):
    try:
        __import__("realtime_venus." + name)
    except MissingExtra as error:
        print(error)
"""


@pytest.mark.parametrize("missing", ["torch", "safetensors", "tokenizers", "PIL", "yaml"])
def test_without_a_package_every_module_names_the_extra_and_all_else_works(missing: str) -> None:
    command = [sys.executable, "-c", WITHOUT.format(missing=missing)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = "needs the 'omni' extra: pip install 'realtime-venus[omni]'"
    assert [line.endswith(told) for line in done.stdout.splitlines()] == [True] * 3
