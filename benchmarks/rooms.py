"""What a session in a LiveKit room costs that only listens: CPU with audio, with audio and video, and memory.

    python benchmarks/rooms.py [--seconds 30]

Our process alone is counted: the agents, the LiveKit client inside it, the engine.  The server and the participants
(a quiet microphone; 640x360 at 15 frames a second where there is video) are processes of their own.  The default
engine takes no pictures, so with video the newest one is taken here once a second, as an engine that sees would.
Prints one line of JSON; ``others_cores`` is what else was at work meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
from machine_load import Load, cores, settled
from realtime_venus.engines.base import Engine, SessionOptions
from realtime_venus.engines.catalog import create
from realtime_venus.plugin.rooms.livekit import LiveKitRoom
from realtime_venus.plugin.session import Session, SessionSettings

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


async def measure(seconds: float) -> dict[str, float]:
    """Cores and megabytes with none, one and two sessions, and with one that sees."""
    others: list[float] = []

    async def used(companions: Callable[[], list[int]]) -> tuple[float, float]:
        await asyncio.sleep(SETTLE_S)
        load = Load(companions())
        async with load.watched():
            await asyncio.sleep(seconds)
        found = cores(load.rows)
        others.append(found.others)
        return found.own, private_mb()

    engine = create()
    await engine.load()
    try:
        await settled()
        with tempfile.TemporaryDirectory() as made:
            async with running(Path(made)) as server:
                visits = Visits(server, engine)

                def companions() -> list[int]:
                    return list(visits.companions)

                async with visits.one():
                    await asyncio.sleep(SETTLE_S)  # what is loaded for the first session of all
                none, none_mb = await used(companions)
                async with AsyncExitStack() as stack:
                    await stack.enter_async_context(visits.one())
                    one, one_mb = await used(companions)
                    await stack.enter_async_context(visits.one())
                    two, two_mb = await used(companions)
                async with visits.one(video=True):
                    seeing, seeing_mb = await used(companions)
    finally:
        await engine.close()
    return {
        "no_session_cores": round(none, 4),
        "audio_session_cores": round(one - none, 4),
        "second_audio_session_cores": round(two - one, 4),
        "audio_video_session_cores": round(seeing - none, 4),
        "no_session_mb": round(none_mb),
        "first_session_mb": round(one_mb - none_mb),
        "second_session_mb": round(two_mb - one_mb),
        "audio_video_session_mb": round(seeing_mb - none_mb),
        "pictures": visits.pictures,
        "others_cores": round(max(others), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    print(json.dumps(asyncio.run(measure(parser.parse_args().seconds))))


if __name__ == "__main__":
    main()
