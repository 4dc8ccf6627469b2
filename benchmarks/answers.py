"""How many answers hold a keyword that a right answer would, over ``turn_taking`` and ``simultaneous_start``.

    python benchmarks/answers.py [--limit N]

Each sample is played as the kit mixes it, in real time (the second remark of ``simultaneous_start`` must meet the
agent). What counts is what the agent's track says after the user's last words, recognised by the engine's own
recogniser; numbers may be spoken as words, so the words that were written count too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from realtime_venus.engines.base import Engine, SessionOptions
from realtime_venus.engines.catalog import create
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions
from realtime_venus.plugin.session import Session, SessionSettings

from tests.kit.kits import render, sample, sample_ids

TAIL_S = 10.0


async def answered(engine: Engine, name: str) -> tuple[bool, str]:
    """Whether the agent's words after the last of the user's hold one of the keywords."""
    rendered = render(name)
    last = max(float(event["timestamp"][1]) for event in rendered.metadata["events"])
    room = MemoryRoom(
        rendered.audio[: int((last + 0.5) * 16_000)], options=MemoryRoomOptions(tail_s=TAIL_S, answer_wait_s=TAIL_S)
    )
    await Session(room, engine, SessionOptions(), SessionSettings()).run()
    ended = [event for event in room.published if event["type"] == "agent.utterance_ended"]
    said = " ".join(str(event["heard_text"]) for event in ended)
    return any(word.lower() in said.lower() for word in sample(name)["expected_keywords"]), said


async def measure(limit: int | None) -> dict[str, dict[str, int]]:
    """Hits by scenario and language."""
    engine = create()
    await engine.load()
    found: dict[str, dict[str, int]] = {}
    try:
        for scenario in ("turn_taking", "simultaneous_start"):
            for language in ("en", "zh"):
                names = [name for name in sample_ids(scenario, language) if sample(name)["expected_keywords"]]
                counted = found.setdefault(f"{scenario} {language}", {"hit": 0, "n": 0})
                for name in names[:limit]:
                    hit, said = await answered(engine, name)
                    counted["hit"] += hit
                    counted["n"] += 1
                    row: dict[str, Any] = {"id": name, "hit": hit, "said": said}
                    print(json.dumps(row, ensure_ascii=False), flush=True)
    finally:
        await engine.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int)
    print(json.dumps(asyncio.run(measure(parser.parse_args().limit))))


if __name__ == "__main__":
    main()
