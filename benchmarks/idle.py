"""What a session costs that only listens, beyond the WebRTC library: CPU of the runtime and the engine, and memory.

    python benchmarks/idle.py [--seconds 30]

``rooms/memory`` stands for the room, so that no codec, network or page is in the figure.  The microphone gives the
noise of a quiet room (-60 dBFS).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

import numpy as np
import psutil
from realtime_venus.engines.base import INPUT_HZ, SessionOptions
from realtime_venus.engines.catalog import create
from realtime_venus.plugin.rooms.memory import MemoryRoom
from realtime_venus.plugin.session import Session, SessionSettings

SETTLE_S = 3.0
READING_S = 12.0
"""After it is loaded the engine still reads its rules."""


async def measure(seconds: float = 30.0) -> dict[str, float]:
    """Cores used while nobody speaks, with and without a session, and resident megabytes."""
    engine = create()
    await engine.load()
    process = psutil.Process()
    noise = np.random.default_rng(0).normal(0, 10**-3, int((seconds + 2 * SETTLE_S) * INPUT_HZ)).astype(np.float32)

    async def used(span_s: float) -> float:
        before, began = process.cpu_times(), time.monotonic()
        await asyncio.sleep(span_s)
        after = process.cpu_times()
        return (after.user + after.system - before.user - before.system) / (time.monotonic() - began)

    await asyncio.sleep(READING_S)
    alone = await used(5.0)
    loaded_mb = process.memory_info().rss / 1e6
    session = asyncio.create_task(
        Session(MemoryRoom(noise), engine, SessionOptions(), SessionSettings()).run(), name="session"
    )
    await asyncio.sleep(SETTLE_S)
    cores = await used(seconds)
    in_call_mb = process.memory_info().rss / 1e6
    await session
    await engine.close()
    return {
        "listening_cores": round(cores, 4),
        "no_session_cores": round(alone, 4),
        "per_session_cores": round(cores - alone, 4),
        "loaded_mb": round(loaded_mb),
        "in_call_mb": round(in_call_mb),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    print(json.dumps(asyncio.run(measure(parser.parse_args().seconds))))


if __name__ == "__main__":
    main()
