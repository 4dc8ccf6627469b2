"""What the documents say is true: their code runs, their settings, files and commands exist, the twins agree."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import soundfile
from livekit import api
from pydantic import BaseModel
from realtime_venus.plugin.settings import load_sections

from ..kit.kits import KIT_HZ, stem
from ..kit.livekit_participant import participant
from ..kit.livekit_server import LiveKitServer
from ..kit.readme import READMES, code_of
from ..kit.repository import ROOT, files

DOCUMENTS = tuple(path for path in files() if path.suffix == ".md" and path.parts[0] != "tests")
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\bVENUS_([A-Z0-9_]+)\b")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)[^)]*\)|<img[^>]* src=\"(?!https?://)([^\"]+)\"")


def commands_of(text: str) -> list[str]:
    """The lines of the shell blocks, without their comments."""
    return [line.split("#")[0].strip() for block in SHELL.findall(text) for line in block.splitlines()]


@pytest.mark.models
def test_the_code_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "question.wav", stem("en_turn_taking_01"), KIT_HZ)
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of(READMES[0])[0], "README.md", "exec"), {"__name__": "__main__"})
    answer, _ = soundfile.read(tmp_path / "answer.wav")
    assert abs(answer).max() > 0.01, "nothing was said"


@pytest.mark.models
async def test_the_code_for_a_livekit_room_runs(livekit_server: LiveKitServer) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code_of(READMES[0])[1], "README.md", "exec"), names)
    async with participant(livekit_server, "guest", "readme") as user, livekit_server.api() as client:
        joining = asyncio.create_task(names["join"](livekit_server.url, livekit_server.token("venus", "readme")))
        await user.until(lambda: user.room.remote_participants.get("venus"), "the agent is here", 120)
        await client.room.delete_room(api.DeleteRoomRequest(room="readme"))
        async with asyncio.timeout(60):
            await joining


def test_the_code_for_an_agent_session_is_an_agent() -> None:
    """What it says to a caller: ``tests/e2e/test_readme_agent.py``."""
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code_of(READMES[0])[2], "README.md", "exec"), names)
    assert names["answer"].__name__ == "answer"
    assert names["server"] is not None


def test_both_readmes_show_the_same_code_and_commands() -> None:
    english, chinese = ((ROOT / readme).read_text(encoding="utf-8") for readme in READMES)
    assert code_of(READMES[0]) == code_of(READMES[1])
    assert commands_of(english) == commands_of(chinese)
    assert VARIABLE.findall(english) == VARIABLE.findall(chinese)


def has(model: type[BaseModel], path: list[str]) -> bool:
    """Whether a setting of that path exists in a section."""
    field = model.model_fields.get(path[0])
    if field is None:
        return False
    for kind in (field.annotation, *get_args(field.annotation)):
        if len(path) > 1 and isinstance(kind, type) and issubclass(kind, BaseModel):
            return has(kind, path[1:])
    return len(path) == 1


@cache
def known_sections() -> dict[str, type[BaseModel]]:
    return load_sections()


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_settings_in_the_documents_exist(document: Path) -> None:
    sections = known_sections()
    text = (ROOT / document).read_text(encoding="utf-8")
    named = {name for name in VARIABLE.findall(text) if name not in {"CONFIG", "LIVE"}}
    paths = [name.lower().rstrip("_").split("__") for name in named if name.strip("_")]
    unknown = [path for path in paths if path[0] not in sections or (path[1:] and not has(sections[path[0]], path[1:]))]
    assert not unknown


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_in_the_documents_lead_somewhere(document: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = [a or b for a, b in LINK.findall(text)]
    missing = [target for target in targets if not (ROOT / document.parent / target).exists()]
    assert not missing
