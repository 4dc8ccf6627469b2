"""The README's ``AgentSession`` as a user runs it: ``python agent.py start``, somebody joins, is greeted, and asks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ..kit.kits import render, sample
from ..kit.livekit_guest import agent_of
from ..kit.livekit_participant import Participant, participant, until
from ..kit.livekit_server import KEY, SECRET, LiveKitServer
from ..kit.readme import READMES, code_of

pytestmark = [pytest.mark.models, pytest.mark.usefixtures("native_sockets_closed")]

REGISTERED_S = 60.0
ANSWER_S = 120.0
"""The first call waits for the models as well."""
QUESTION = "en_turn_taking_01"


@dataclass
class Script:
    """A Python file that runs in a process of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def has_said(self, words: str) -> bool:
        if self.process.poll() is not None:
            pytest.fail(f"it ended with {self.process.returncode}:\n{self.said()[-4000:]}")
        return words in self.said()


@asynccontextmanager
async def started(server: LiveKitServer, folder: Path, *arguments: str) -> AsyncGenerator[Script]:
    """The README's code as ``agent.py``, run in ``folder``; killed afterwards."""
    (folder / "agent.py").write_text(code_of(READMES[0])[2], encoding="utf-8")
    own = {"LIVEKIT_URL": server.url, "LIVEKIT_API_KEY": KEY, "LIVEKIT_API_SECRET": SECRET}
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("LIVEKIT_", "VENUS_")) or k.startswith("VENUS_MODELS")
    }
    log = folder / "agent.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220 - begins in no time, and is ended by hand
            [sys.executable, "agent.py", *arguments], cwd=folder, env=kept | own, stdout=output, stderr=output
        )
    try:
        yield Script(process, log)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, 60)


def said_by(caller: Participant, identity: str) -> str:
    """The last captions of everything that ``identity`` said."""
    latest = {one.attributes.get("lk.segment_id", ""): one.text for one in caller.shown if one.identity == identity}
    return " ".join(latest.values())


async def asks_and_is_answered(caller: Participant) -> None:
    microphone = await caller.microphone()
    agent = await agent_of(caller)
    await caller.until(lambda: caller.loud_s, "the greeting is heard", ANSWER_S)
    await caller.until(lambda: "bakery" in said_by(caller, agent.identity), "the greeting is written", ANSWER_S)
    await caller.until(lambda: quiet(caller), "the greeting is over", ANSWER_S)
    before = len(caller.loud_s)
    clean = render(QUESTION).clean
    await microphone.say(clean * np.float32(0.5 / np.abs(clean).max()))
    keywords = sample(QUESTION)["expected_keywords"]

    def answered() -> bool:
        words = said_by(caller, agent.identity).lower()
        return len(caller.loud_s) > before and any(word.lower() in words for word in keywords)

    await caller.until(answered, "the answer", ANSWER_S)


def quiet(caller: Participant) -> bool:
    return asyncio.get_running_loop().time() - caller.loud_s[-1] > 1.5


async def test_a_caller_is_greeted_and_answered(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    async with started(livekit_server, tmp_path, "start") as agent:
        await until(lambda: agent.has_said("registered worker"), "the agent is registered", REGISTERED_S)
        async with participant(livekit_server, "caller", "phone") as caller:
            await asks_and_is_answered(caller)
        assert "at full capacity" not in agent.said()
        assert "ERROR" not in agent.said()


async def test_a_room_that_is_there_already_is_joined_by_name(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    async with (
        participant(livekit_server, "caller", "phone") as caller,
        started(livekit_server, tmp_path, "connect", "--room", "phone") as agent,
    ):
        await caller.microphone()
        await caller.until(lambda: caller.loud_s or agent.has_said("no such words"), "the greeting", ANSWER_S)
