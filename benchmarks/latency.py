"""User's last sound → first audio of the answer, over the question stems of the duplex kit, in real time.

    python benchmarks/latency.py [--language en|zh] [--scenario NAME] [--limit N] [--rows FILE]

Each stem is played once through ``rooms/memory`` (the room's edge: no network, no jitter buffer).  The latency is
taken from the audio alone: the end of the stem's speech as the kit gives it, and the first 20 ms frame of the
agent's track above a level.  A start before the end of the question counts as a false start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import soundfile as sf
from realtime_venus.engines.base import INPUT_HZ, Engine, FloatPcm, Int16Pcm, SessionOptions
from realtime_venus.engines.catalog import create
from realtime_venus.plugin.rooms.memory import MemoryRoom
from realtime_venus.plugin.session import Session, SessionSettings

KIT = Path(__file__).parent.parent / "tests" / "kits" / "duplex"
LEAD_S = 0.4
AFTER_S = 0.12
"""Of the stem after its last speech, so that its own decay is heard."""
WAIT_S = 6.0
LEVEL = 0.004
FRAME = 480
NOISE_DBFS = -65.0
FOLLOW_S = 1.2
"""The agent is listened to for this long after it began."""


@dataclass(frozen=True, slots=True)
class Stem:
    id: str
    language: str
    scenario: str
    audio: FloatPcm
    end_s: float
    text: str


@dataclass(slots=True)
class Row:
    id: str
    language: str
    scenario: str
    latency_s: float | None
    false_start: bool
    heard: str
    reference: str
    said: str
    own_cores: float
    others_cores: float


def stems(language: str | None = None, scenario: str | None = None) -> list[Stem]:
    """The first question of every sample of the kit, ready to be played."""
    found: list[Stem] = []
    for path in sorted((KIT / "samples").glob("*.json")):
        sample = cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
        if language not in (None, sample["language"]) or scenario not in (None, sample["scenario"]):
            continue
        question = sample["events"][0]
        audio = cast(FloatPcm, sf.read(KIT / question["stem"], dtype="float32")[0])
        end = float(question["speech_end_s"])
        cut = audio[: int((end + AFTER_S) * INPUT_HZ)]
        noise = np.random.default_rng(0).normal(0, 10 ** (NOISE_DBFS / 20), int((LEAD_S + end + WAIT_S) * INPUT_HZ))
        whole = noise.astype(np.float32)
        begin = int(LEAD_S * INPUT_HZ)
        whole[begin : begin + len(cut)] += cut
        found.append(
            Stem(sample["id"], sample["language"], sample["scenario"], whole, LEAD_S + end, str(question["text"]))
        )
    return found


def first_sound_s(track: Int16Pcm, after_s: float = 0.0) -> float | None:
    """When the first frame above the level begins, at or after ``after_s``."""
    frames = track[: len(track) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float32) / 32768
    loud = np.flatnonzero(np.sqrt(np.mean(frames**2, axis=1)) > LEVEL)
    later = loud[loud * 0.02 >= after_s]
    return float(later[0]) * 0.02 if len(later) else None


def busy() -> tuple[float, float]:
    """CPU seconds of this process and of the whole machine."""
    own, machine = psutil.Process().cpu_times(), psutil.cpu_times()
    return own.user + own.system, sum(machine) - machine.idle - float(getattr(machine, "iowait", 0.0))


async def play(engine: Engine, stem: Stem) -> Row:
    """Play one stem and listen."""
    room = MemoryRoom(stem.audio)
    session = Session(room, engine, SessionOptions(), SessionSettings())
    started, (own, machine) = time.monotonic(), busy()

    async def listen() -> None:
        while True:
            await asyncio.sleep(0.1)
            begun = first_sound_s(room.agent_audio, stem.end_s)
            if begun is not None and len(room.agent_audio) / 24_000 > begun + FOLLOW_S:
                await room.close()
                return

    watching = asyncio.create_task(listen())
    await session.run()
    watching.cancel()
    spent, (own_after, machine_after) = time.monotonic() - started, busy()
    begun, early = first_sound_s(room.agent_audio, stem.end_s), first_sound_s(room.agent_audio)
    texts = [e for e in room.published if e["type"] == "user.text" and e["final"]]
    said = " ".join(str(e["text"]).strip() for e in room.published if e["type"] == "agent.text")
    own_cores = (own_after - own) / spent
    return Row(
        stem.id,
        stem.language,
        stem.scenario,
        None if begun is None else round(begun - stem.end_s, 3),
        early is not None and early < stem.end_s,
        str(texts[-1]["text"]) if texts else "",
        stem.text,
        said,
        round(own_cores, 2),
        round(max(0.0, (machine_after - machine) / spent - own_cores), 2),
    )


def summary(rows: list[Row]) -> dict[str, Any]:
    """p50 / p90 over the rows whose answer did not begin before the question's end."""
    good = [row.latency_s for row in rows if row.latency_s is not None and not row.false_start]
    p50, p90 = (round(float(np.percentile(good, p)), 3) if good else None for p in (50, 90))
    return {
        "n": len(good),
        "p50_s": p50,
        "p90_s": p90,
        "false_starts": sum(row.false_start for row in rows),
        "no_answer": sum(row.latency_s is None for row in rows),
    }


async def measure(chosen: list[Stem], rows_file: Path | None = None) -> list[Row]:
    """Play every stem with one engine; rows are written as they come."""
    engine = create()
    await engine.load()
    rows: list[Row] = []
    try:
        for stem in chosen:
            row = await play(engine, stem)
            rows.append(row)
            line = json.dumps(asdict(row), ensure_ascii=False)
            print(line, flush=True)
            if rows_file is not None:
                with rows_file.open("a", encoding="utf-8") as out:
                    out.write(line + "\n")
    finally:
        await engine.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", choices=("en", "zh"))
    parser.add_argument("--scenario")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--every", type=int, default=1, help="take every n-th stem")
    parser.add_argument("--rows", type=Path)
    args = parser.parse_args()
    chosen = stems(args.language, args.scenario)[:: args.every][: args.limit]
    rows = asyncio.run(measure(chosen, args.rows))
    for language in ("en", "zh"):
        part = [row for row in rows if row.language == language]
        if part:
            print(language, json.dumps(summary(part)), file=sys.stdout)


if __name__ == "__main__":
    main()
