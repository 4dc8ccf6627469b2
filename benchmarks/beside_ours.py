"""Plays samples to our agent, at the room's edge or in a LiveKit room, and writes what ``peers/harness.py`` writes.

    python benchmarks/beside_ours.py memory|livekit FOLDER... --out DIR [--wait-quiet S]

The language is told, as it is to the peers.  A sample during which others kept more than 0.15 cores busy is repeated,
at most twice, as the harness does it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import psutil
import soundfile as sf
from machine_load import Load, cores, settled, wait_quiet
from realtime_venus.engines.base import INPUT_HZ, OUTPUT_HZ, Engine, FloatPcm, Int16Pcm, Language, SessionOptions
from realtime_venus.engines.catalog import create
from realtime_venus.plugin.rooms.livekit import LiveKitRoom
from realtime_venus.plugin.rooms.memory import MemoryRoom
from realtime_venus.plugin.session import Session, SessionSettings

from tests.kit.livekit_participant import agent_token
from tests.kit.livekit_server import LiveKitServer, running

TAIL_S = 6.0
"""As the harness: played until so long after the last event."""
QUIET_CORES = 0.15
TRIES = 3
FRAME_S = 0.02
READY_S = 40.0

Json = dict[str, Any]


@dataclass
class Heard:
    """What a sample gave: the agent's voice at 24 kHz, the timeline (``t`` in seconds), the load."""

    audio: Int16Pcm
    events: list[Json]
    load: Load


Play = Callable[[Engine, Path, float, Json, float], Awaitable[Heard]]


def options(about: Json) -> SessionOptions:
    return SessionOptions(language=Language(about["language"]))


async def in_memory(engine: Engine, wav: Path, seconds: float, about: Json, quiet_s: float) -> Heard:
    """At the room's edge; the agent's track and the microphone have one clock."""
    audio = cast(FloatPcm, sf.read(wav, dtype="float32")[0])
    length = round(seconds * INPUT_HZ)
    room = MemoryRoom(np.pad(audio[:length], (0, max(0, length - len(audio)))))
    session = Session(room, engine, options(about), SessionSettings())
    if quiet_s:
        await wait_quiet(quiet_s)
    load = Load()
    async with load.watched():
        await session.run()
    # An action shapes the next frame pulled.
    events = [{**event, "t": round(event["at_ms"] / 1000 + FRAME_S, 3)} for event in room.published]
    return Heard(room.agent_audio[: round(seconds * OUTPUT_HZ)], events, load)


class Rooms:
    """Samples in rooms of a real server, heard by a guest in a process of its own."""

    def __init__(self, server: LiveKitServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._count = 0

    async def play(self, engine: Engine, wav: Path, seconds: float, about: Json, quiet_s: float) -> Heard:
        """One room, one guest, one session."""
        self._count += 1
        name, out = f"beside-{self._count}", self._folder / f"{self._count}.wav"
        room = await LiveKitRoom.join(self._server.url, agent_token(name))
        session = Session(room, engine, options(about), SessionSettings())
        running = asyncio.create_task(session.run())
        try:
            async with self._guest(name, wav, seconds, out) as guest:
                assert guest.stdin is not None
                assert self._server.process is not None
                companions = (guest.pid, self._server.process.pid)
                if quiet_s:
                    await wait_quiet(quiet_s, companions)
                guest.stdin.write(b"begin\n")
                began_s = float((await said(guest))["began"])
                load = Load(companions)
                async with load.watched():
                    load.began_s = began_s
                    await asyncio.sleep(max(0.0, began_s + seconds - time.monotonic()))
                if await asyncio.wait_for(guest.wait(), READY_S):
                    raise RuntimeError("the guest failed")
        finally:
            session.stop()
            await asyncio.wait([running])
        running.result()
        events = cast(list[Json], json.loads(out.with_suffix(".json").read_text(encoding="utf-8")))
        return Heard(cast(Int16Pcm, sf.read(out, dtype="int16")[0]), events, load)

    @asynccontextmanager
    async def _guest(
        self, name: str, wav: Path, seconds: float, out: Path
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        script = str(Path(__file__).with_name("beside_guest.py"))
        token = self._server.token("guest", name)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, script, self._server.url, token, str(wav), str(seconds), str(out)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            await said(process)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def said(process: asyncio.subprocess.Process) -> Json:
    """The next line of the guest."""
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), READY_S)
    if not line:
        raise RuntimeError("the guest ended")
    return cast(Json, json.loads(line))


def play_seconds(about: Json) -> float:
    """As ``play_seconds`` of the harness."""
    last = max(float(event["timestamp"][1]) for event in about["events"])
    return round(min(float(about["total_s"]), last + TAIL_S), 2)


def renamed(events: list[Json]) -> list[Json]:
    """The timeline's events by the names that the harness uses."""
    found: list[Json] = []
    for event in events:
        if event["type"] == "user.text" and event["final"]:
            found.append({"t": event["t"], "type": "transcript", "text": event["text"], "final": True})
        elif event["type"] == "agent.text":
            found.append({"t": event["t"], "type": "agent_text", "text": event["text"]})
        elif event["type"] == "overlap":
            found.append({"t": event["t"], "type": event["phase"]})
    return found


def write(out: Path, about: Json, seconds: float, heard: Heard) -> None:
    """The sample's folder, as the harness writes it, and its line."""
    target = out / about["scenario"] / about["id"]
    target.mkdir(parents=True, exist_ok=True)
    sf.write(target / "output.wav", heard.audio, OUTPUT_HZ)
    (target / "metadata.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
    report = {
        "seconds": seconds,
        "rss_mb": round(psutil.Process().memory_info().rss / 1e6),
        "at": time.strftime("%H:%M:%S"),
        "events": renamed(heard.events),
        "load": heard.load.rows,
    }
    (target / "events.json").write_text(json.dumps(report, ensure_ascii=False), encoding="utf-8")
    found = cores(heard.load.rows)
    print(f"{report['at']} {about['id']} {seconds:.1f}s others {found.others} own {found.own}", flush=True)


async def every(play: Play, folders: list[Path], out: Path, quiet_s: float) -> None:
    """All samples with one engine."""
    engine = create()
    await engine.load()
    try:
        await settled()
        for folder in folders:
            about = cast(Json, json.loads((folder / "metadata.json").read_text(encoding="utf-8")))
            seconds = play_seconds(about)
            for _ in range(TRIES if quiet_s else 1):
                try:
                    heard = await play(engine, folder / "input.wav", seconds, about, quiet_s)
                except (RuntimeError, TimeoutError) as error:
                    print(f"FAILED {about['id']}: {type(error).__name__}: {error}", flush=True)
                    break
                write(out, about, seconds, heard)
                if cores(heard.load.rows).others < QUIET_CORES:
                    break
            await asyncio.sleep(0.5)
    finally:
        await engine.close()


async def measure(where: str, folders: list[Path], out: Path, quiet_s: float) -> None:
    if where == "memory":
        await every(in_memory, folders, out, quiet_s)
        return
    with tempfile.TemporaryDirectory() as made:
        async with running(Path(made)) as server:
            await every(Rooms(server, Path(made)).play, folders, out, quiet_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", choices=("memory", "livekit"))
    parser.add_argument("samples", nargs="+", type=Path, help="folders with input.wav and metadata.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wait-quiet", type=float, default=0.0)
    args = parser.parse_args()
    asyncio.run(measure(args.where, args.samples, args.out, args.wait_quiet))


if __name__ == "__main__":
    main()
