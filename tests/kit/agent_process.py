"""A worker in a process of its own, with the scripted engine: ``python -m tests.kit.agent_process``.

The engine greets each room (so that it can be heard who is there) and types what it heard into a file for the test.
Settings come from ``VENUS_TEST_AGENT``, a JSON object: the worker's settings, and below ``engine`` those of the engine.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from realtime_venus.engines.base import Engine, MediaUnit, SessionOptions
from realtime_venus.plugin.rooms.livekit.options import LiveKitOptions
from realtime_venus.plugin.worker import commands, logs
from realtime_venus.plugin.worker.settings import WorkerSettings
from realtime_venus.plugin.worker.worker import Worker

from .fake_engine import FakeEngine, FakeSession
from .livekit_server import KEY, SECRET, LiveKitServer, free_ports
from .repository import ROOT

_VARIABLE = "VENUS_TEST_AGENT"
_READY_S = 60.0
_END_S = 60.0


# -- inside the process ---------------------------------------------------------------------------------------------


class GreetingEngine(FakeEngine):
    """Says something in every room as soon as it hears it, and writes down with what each session was opened."""

    def __init__(self, diary: Path, max_sessions: int) -> None:
        super().__init__(self._greet)
        self.max_sessions = max_sessions
        self._diary = diary

    def open(self, options: SessionOptions) -> FakeSession:
        session = super().open(options)
        self._note(
            {
                "opened": session.number,
                "engine": id(self),
                "language": options.language,
                "voice": options.voice,
                "persona": options.persona,
                "facts": list(options.facts),
            }
        )
        return session

    async def load(self) -> None:
        self._note({"loaded": id(self)})

    async def close(self) -> None:
        self._note({"closed": id(self)})
        await super().close()

    def _greet(self, session: FakeSession, _unit: MediaUnit) -> None:
        if len(session.units) == 1:  # also of a session that takes over from one that stalled
            session.speak("greeting", 60.0)

    def _note(self, line: dict[str, Any]) -> None:
        with self._diary.open("a", encoding="utf-8") as diary:
            diary.write(json.dumps(line) + "\n")


def main() -> None:
    """Run a worker until a signal ends it."""
    told = cast(dict[str, Any], json.loads(os.environ[_VARIABLE]))
    engine = cast(dict[str, Any], told.pop("engine"))
    room = LiveKitOptions.model_validate(told.pop("room"))
    drain = bool(told.pop("drain"))
    settings = WorkerSettings.model_validate(told)
    logs.set_up(settings.log_level, settings.log_format)

    def make_engine() -> Engine:
        return GreetingEngine(Path(engine["diary"]), int(engine["max_sessions"]))

    commands.run(lambda: Worker(settings, make_engine, room=room), drain=drain)


# -- outside --------------------------------------------------------------------------------------------------------


@dataclass
class AgentProcess:
    """A running worker."""

    port: int
    process: subprocess.Popen[bytes] = field(repr=False)
    log: Path = field(repr=False)
    diary: Path = field(repr=False)

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text of its endpoint's answer."""
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://127.0.0.1:{self.port}{path}", timeout=aiohttp.ClientTimeout(10)) as answer,
        ):
            return answer.status, await answer.text()

    async def slots(self) -> dict[str, Any]:
        """How full it is."""
        return cast(dict[str, Any], json.loads((await self.get("/slots"))[1]))

    async def metric(self, name: str) -> float:
        """The value of a series, named with its labels as in the text format; 0 when there is none."""
        for line in (await self.get("/metrics"))[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
        return 0.0

    def notes(self) -> list[dict[str, Any]]:
        """What its engine wrote down."""
        return [json.loads(line) for line in self.diary.read_text(encoding="utf-8").splitlines()]

    def sessions(self) -> list[dict[str, Any]]:
        """How its engine's sessions were opened."""
        return [note for note in self.notes() if "opened" in note]

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def ended(self, timeout_s: float = _END_S) -> int:
        """Its exit code, once it has ended; negative after a signal."""
        return await asyncio.to_thread(self.process.wait, timeout_s)

    async def ready(self) -> None:
        """Wait until it would take a job."""
        await self.until_status("/readyz", 200)

    async def until_status(self, path: str, status: int, timeout_s: float = _READY_S) -> None:
        """Wait until its endpoint answers so."""
        answered: int | str = "nothing"
        try:
            async with asyncio.timeout(timeout_s):
                while answered != status:
                    if self.process.poll() is not None:
                        pytest.fail(f"the worker ended with {self.process.returncode}:\n{self.said()}")
                    try:
                        answered = (await self.get(path))[0]
                    except aiohttp.ClientConnectionError as error:
                        answered = type(error).__name__
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"the worker answers {answered} to {path}, not {status}:\n{self.said()}")

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-6000:]


@asynccontextmanager
async def agent_process(
    server: LiveKitServer,
    folder: Path,
    name: str = "agent",
    *,
    max_sessions: int = 2,
    drain: bool = True,
    wait: bool = True,
    room: dict[str, Any] | None = None,
    **settings: object,
) -> AsyncGenerator[AgentProcess]:
    """A worker of ``server``; killed afterwards if it is still there."""
    (port,) = free_ports(1)
    log, diary = folder / f"{name}.log", folder / f"{name}.diary"
    diary.touch()
    told = {
        "url": server.url,
        "api_key": KEY,
        "api_secret": SECRET,
        "port": port,
        "drain": drain,
        "room": room or {},
        "engine": {"diary": str(diary), "max_sessions": max_sessions},
        **settings,
    }
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LIVEKIT_", "VENUS_"))}
    environment[_VARIABLE] = json.dumps(told)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: ASYNC220 - begins in no time, and is ended by hand
            [sys.executable, "-m", "tests.kit.agent_process"], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    agent = AgentProcess(port, process, log, diary)
    try:
        if wait:
            await agent.ready()
        yield agent
    finally:
        if process.poll() is None:
            process.kill()
        await agent.ended()


if __name__ == "__main__":
    main()
