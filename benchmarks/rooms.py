"""What a session in a LiveKit room costs that only listens: CPU with audio, with audio and video, and memory.

    python benchmarks/rooms.py [--seconds 30] [--report]

Our process alone is counted: the agents, the LiveKit client inside it, the engine.  The server and the participants
(a quiet microphone; 640x360 at 15 frames a second where there is video) are processes of their own.  The default
engine takes no pictures, so with video the newest one is taken here once a second, as an engine that sees would.
Prints a table, with what else was at work beside each row; ``--report`` writes it to ``benchmarks/rooms.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import datetime
import gc
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
from machine_load import Load, cores, settled
from realtime_venus.engines.base import Engine, SessionOptions
from realtime_venus.engines.catalog import create
from realtime_venus.plugin.rooms.livekit import LiveKitRoom
from realtime_venus.plugin.session import Session, SessionSettings
from run import machine

from tests.kit.livekit_participant import agent_token
from tests.kit.livekit_server import LiveKitServer, running

SETTLE_S = 15.0
"""A new session is made ready in the background: its rules are read, its voice is loaded."""
PICTURE_EVERY_S = 1.0
READY_S = 40.0


def private_mb() -> float:
    """Resident memory of our own: without mapped model files, which come and go, and without what is free again."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    memory = psutil.Process().memory_info()
    return (memory.rss - int(getattr(memory, "shared", 0))) / 1e6


class Visits:
    """Sessions that listen, each in a room with a participant."""

    def __init__(self, server: LiveKitServer, engine: Engine) -> None:
        self._server = server
        self._engine = engine
        self._count = 0
        self.companions: list[int] = [] if server.process is None else [server.process.pid]
        self.pictures = 0

    @asynccontextmanager
    async def one(self, *, video: bool = False) -> AsyncGenerator[None]:
        """A session with its participant."""
        self._count += 1
        name = f"cost-{self._count}"
        room = await LiveKitRoom.join(self._server.url, agent_token(name))
        session = Session(room, self._engine, SessionOptions(), SessionSettings())
        tasks = [asyncio.create_task(session.run())]
        if video:
            tasks.append(asyncio.create_task(self._look(room)))
        script = str(Path(__file__).with_name("rooms_guest.py"))
        guest = await asyncio.create_subprocess_exec(
            *(sys.executable, script, self._server.url, self._server.token("guest", name)),
            *(["--video"] if video else []),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert guest.stdin is not None
        assert guest.stdout is not None
        try:
            if not await asyncio.wait_for(guest.stdout.readline(), READY_S):
                raise RuntimeError("the participant did not come")
            self.companions.append(guest.pid)
            yield
        finally:
            guest.stdin.close()
            try:
                await asyncio.wait_for(guest.wait(), READY_S)
            except TimeoutError:
                guest.kill()
            session.stop()
            for looking in tasks[1:]:
                looking.cancel()
            await asyncio.wait(tasks)
            tasks[0].result()

    async def _look(self, room: LiveKitRoom) -> None:
        last = -1.0
        while True:
            frame = room.latest_frame()
            if frame is not None and frame.captured_ms != last:
                last = frame.captured_ms
                self.pictures += 1
            await asyncio.sleep(PICTURE_EVERY_S)


@dataclass(frozen=True, slots=True)
class Cost:
    """What was at work over a span, and what we held at its end."""

    own_cores: float
    own_mb: float
    others_cores: float


async def measure(seconds: float) -> tuple[dict[str, Cost], int]:
    """With none, one and two sessions, and with one that sees; and how many pictures that one took."""
    costs: dict[str, Cost] = {}
    engine = create()
    await engine.load()
    try:
        await settled()
        with tempfile.TemporaryDirectory() as made:
            async with running(Path(made)) as server:
                visits = Visits(server, engine)

                async def cost() -> Cost:
                    await asyncio.sleep(SETTLE_S)
                    load = Load(list(visits.companions))
                    async with load.watched():
                        await asyncio.sleep(seconds)
                    found = cores(load.rows)
                    return Cost(found.own, private_mb(), found.others)

                async with visits.one():
                    await asyncio.sleep(SETTLE_S)  # what is loaded for the first session of all
                costs["none"] = await cost()
                async with AsyncExitStack() as stack:
                    await stack.enter_async_context(visits.one())
                    costs["audio"] = await cost()
                    await stack.enter_async_context(visits.one())
                    costs["two"] = await cost()
                async with visits.one(video=True):
                    costs["video"] = await cost()
                return costs, visits.pictures
    finally:
        await engine.close()


ROWS = (
    ("models loaded, no session", "none", None),
    ("one audio session that listens", "audio", "none"),
    ("a second one beside it", "two", "audio"),
    ("one audio + video session (640x360, 15 pictures a second)", "video", "none"),
)
HEAD = """# What a session in a LiveKit room costs

{date}, {machine}. One run of `benchmarks/rooms.py --seconds {seconds:g}`: our process alone (agents, the LiveKit client
inside it, engine); livekit-server and the participants are processes of their own. Sessions that listen to a quiet
microphone; what one costs that talks stands in [beside.md](beside.md) (own cores). Each row but the first is what the
session adds.
"""


def table(costs: dict[str, Cost]) -> str:
    """The rows, each with what others had at work while it was measured (of the two spans it compares, the more)."""
    out = ["| | cores | memory, MB | cores of others |", "| --- | --- | --- | --- |"]
    for name, key, base in ROWS:
        cost, less = costs[key], costs[base] if base else Cost(0.0, 0.0, 0.0)
        others = max(cost.others_cores, less.others_cores)
        out.append(
            f"| {name} | {cost.own_cores - less.own_cores:.3f} | {cost.own_mb - less.own_mb:.0f} | {others:.3f} |"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    costs, pictures = asyncio.run(measure(asked.seconds))
    found = table(costs)
    print(found, f"\n{pictures} pictures were taken")
    if asked.report:
        today = datetime.datetime.now(datetime.UTC).date()
        head = HEAD.format(date=today, machine=machine(), seconds=asked.seconds)
        Path(__file__).with_name("rooms.md").write_text(f"{head}\n{found}", encoding="utf-8")


if __name__ == "__main__":
    main()
