"""The code that the READMEs show."""

from __future__ import annotations

import re
from pathlib import Path

from .repository import ROOT

READMES = (Path("README.md"), Path("README.zh.md"))
_CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code_of(readme: Path) -> tuple[str, str, str]:
    """The blocks of Python in a README: with a file, in a LiveKit room, in an ``AgentSession``."""
    blocks: list[str] = _CODE.findall((ROOT / readme).read_text(encoding="utf-8"))
    file, room, agent = blocks
    return file, room, agent
