"""Duck, hold and yield at the room's edge: real interruptions of the kit over a speaking agent, in real time.

    python benchmarks/overlap.py [--limit N]

The agent says a long text word for word; the overlapping stem of each ``user_interruption`` sample is played over it.
Times run from the stem's first speech, as the kit gives it, to the end of the frame that the action shapes: the time at
which the timeline has the duck, hold or yield, and one frame of 20 ms, since it acts on the next frame pulled (which
tests/plugin/test_playback.py locks).  The sound itself is not looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import soundfile as sf
from latency import KIT, NOISE_DBFS
from realtime_venus.engines.base import INPUT_HZ, Engine, FloatPcm, Language, SessionOptions
from realtime_venus.engines.catalog import create
from realtime_venus.plugin.rooms.base import Say
from realtime_venus.plugin.rooms.memory import MemoryRoom, MemoryRoomOptions, TimedCommand
from realtime_venus.plugin.session import Session, SessionSettings

ONSET_S = 5.0
AFTER_S = 2.5
FRAME_MS = 20
LINES = {
    "en": "Sourdough bread begins with flour and water, and with a little patience. The baker feeds the starter every "
    "day, and after about a week it is lively enough to raise a loaf of bread. Then the dough is mixed, folded, shaped "
    "and left to rest in a cool place until the next morning, when the oven is already hot.",
    "zh": "做面包先要有面粉和水，还要有一点耐心。面包师每天都要喂养酵头，大约一个星期以后，"
    "它就有足够的力气让面团发起来。然后把面团揉好，折叠，整形，放在阴凉的地方过一夜，第二天早上再送进烤箱。",
}


@dataclass(slots=True)
class Row:
    id: str
    duck_ms: int | None
    hold_ms: int | None
    yield_ms: int | None


def cases() -> list[tuple[str, str, FloatPcm]]:
    """Id, language and microphone of every interruption; its speech begins at :data:`ONSET_S`."""
    found: list[tuple[str, str, FloatPcm]] = []
    for path in sorted((KIT / "samples").glob("*_user_interruption_*.json")):
        sample = cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        event = next(e for e in sample["events"] if e["role"] == "overlap")
        audio = cast(FloatPcm, sf.read(KIT / event["stem"], dtype="float32")[0])
        gain = 10 ** ((sample["question_level_dbfs"] + event["rel_db"] - event["level_dbfs"]) / 20)
        begin = int((ONSET_S - float(event["speech_start_s"])) * INPUT_HZ)
        total = begin + len(audio) + int(AFTER_S * INPUT_HZ)
        mic = np.random.default_rng(0).normal(0, 10 ** (NOISE_DBFS / 20), total).astype(np.float32)
        mic[begin : begin + len(audio)] += audio * np.float32(gain)
        found.append((str(sample["id"]), str(sample["language"]), mic))
    return found


async def play(engine: Engine, name: str, language: str, mic: FloatPcm) -> Row:
    """Interrupt the agent once."""
    room = MemoryRoom(mic, [TimedCommand(200, Say(LINES[language]))], MemoryRoomOptions())
    await Session(room, engine, SessionOptions(language=Language(language)), SessionSettings()).run()
    times: dict[str, int] = {}
    for event in room.published:
        if event["type"] == "overlap" and event["at_ms"] >= ONSET_S * 1000 - 50:
            times.setdefault(str(event["phase"]), round(event["at_ms"] - ONSET_S * 1000) + FRAME_MS)
    return Row(name, times.get("duck"), times.get("hold"), times.get("yield"))


def summary(rows: list[Row]) -> dict[str, Any]:
    """p50 / p95 of each step over the rows in which it happened."""
    result: dict[str, Any] = {"n": len(rows)}
    for step in ("duck_ms", "hold_ms", "yield_ms"):
        values = [value for row in rows if (value := getattr(row, step)) is not None]
        result[step] = {
            "n": len(values),
            "p50": round(float(np.percentile(values, 50))) if values else None,
            "p95": round(float(np.percentile(values, 95))) if values else None,
        }
    return result


async def measure(limit: int | None = None) -> list[Row]:
    """Every interruption of the kit, one after the other."""
    engine = create()
    await engine.load()
    try:
        rows: list[Row] = []
        for name, language, mic in cases()[:limit]:
            rows.append(await play(engine, name, language, mic))
            print(json.dumps(asdict(rows[-1])), flush=True)
        return rows
    finally:
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int)
    print(json.dumps(summary(asyncio.run(measure(parser.parse_args().limit)))))


if __name__ == "__main__":
    main()
