"""The table of ``beside.py``."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from beside_rows import QUIET_CORES, Row
from run import machine

NAMES = {
    "ours": "ours, at the room's edge",
    "livekit": "LiveKit Agents 1.8.9 `AgentSession`",
    "pipecat": "Pipecat 1.14.0 pipeline",
    "ours-livekit": "ours in a LiveKit room, at the participant",
}
PEERS = ("livekit", "pipecat")
HEAD = """# Beside peers

{date}, {machine}. One run of `benchmarks/beside.py`: the same audio of the duplex kit in real time, the same model
files (Whisper base int8, Qwen2.5-Coder-1.5B Q4_K_M, hibari, Kokoro), the language told to all, systems in turn in
batches of six. The peers run by the unchanged files of [peers](peers/README.md). The first three have microphone and
agent's track on one clock, without network or jitter buffer; the last one is heard through a real livekit-server by a
participant in another process, both jitter buffers and the codec included. A sample during which anything but the
measured system kept {quiet} cores or more busy is repeated, at most twice, for that reason alone, and left out if it
stays so.
"""
Plan = dict[str, list[tuple[str, str]]]
"""The samples (kind, id) that a run was to measure, by system."""
PLAN = "planned.json"


def read(folder: Path, system: str) -> list[Row]:
    """The rows of a system; of a sample that was played again the last one."""
    path = folder / f"{system}.jsonl"
    if not path.exists():
        return []
    rows = [Row(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return list({(row.kind, row.id): row for row in rows}.values())


def write_plan(folder: Path, plan: Plan) -> None:
    """Keep what a run is to measure beside what it measures; what is kept of other systems stays."""
    (folder / PLAN).write_text(json.dumps(read_plan(folder) | plan), encoding="utf-8")


def read_plan(folder: Path) -> Plan:
    """What the last run of each system was to measure."""
    path = folder / PLAN
    if not path.exists():
        return {}
    kept: dict[str, list[list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    return {system: [(kind, name) for kind, name in samples] for system, samples in kept.items()}


def measured(rows: Sequence[Row], samples: Sequence[tuple[str, str]]) -> int:
    """How many of the samples gave a figure: played, and not disturbed."""
    return len({(row.kind, row.id) for row in rows if not row.disturbed} & set(samples))


def middle(values: Sequence[float], percent: int = 50) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def spread(values: Sequence[float | None]) -> str:
    """p50 / p90 of those that are there."""
    found = [value for value in values if value is not None]
    if not found:
        return "–"
    return f"{middle(found):.2f} / {middle(found, 90):.2f} (n={len(found)})"


def mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f}" if values else "–"


def latencies(rows: Sequence[Row]) -> list[float]:
    """Of undisturbed questions that were answered, and not before they were over."""
    return [row.latency_s for row in rows if row.latency_s is not None and not row.false_start and not row.disturbed]


def load_cells(rows: Sequence[Row], quiet: Sequence[Row]) -> str:
    """Disturbed, repeated, load of others, own load, load of the server and the other participant."""
    disturbed = sum(row.disturbed for row in rows)
    repeated = sum(row.tries > 1 for row in rows)
    others = [row.others_cores for row in quiet]
    worst = f" (at most {max(others):.2f})" if others else ""
    helped = [row.companions_cores for row in quiet if row.companions_cores]
    return (
        f"{disturbed} | {repeated} | {mean(others)}{worst} | {mean([row.own_cores for row in quiet])} | {mean(helped)}"
    )


def questions_part(rows: dict[str, list[Row]]) -> list[str]:
    """Last user sound → first audio."""
    out = [
        "| system | p50 / p90, s | false starts | no answer in 6 s | disturbed, left out | repeated "
        "| cores of others, mean | own cores, mean | of server and participant | resident MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for system, part in rows.items():
        quiet = [row for row in part if not row.disturbed]
        early, silent = sum(row.false_start for row in quiet), sum(row.latency_s is None for row in quiet)
        memory = max((row.rss_mb for row in part), default=0.0)
        out.append(
            f"| {NAMES[system]} | {spread(latencies(part))} | {early} of {len(quiet)} | {silent} of {len(quiet)} "
            f"| {load_cells(part, quiet)} | {memory:.0f} |"
        )
    found = {system: values for system, part in rows.items() if (values := latencies(part))}
    ratios: list[str] = []
    for percent in (50, 90):
        peers = [value for peer in PEERS if peer in found and (value := middle(found[peer], percent)) is not None]
        ratios += [
            f"- {NAMES[system]}, p{percent}: {mine / min(peers):.2f} of the better peer's"
            for system in ("ours", "ours-livekit")
            if peers and system in found and (mine := middle(found[system], percent)) is not None
        ]
    return [*out, "", *ratios] if ratios else out


def interruptions_part(rows: dict[str, list[Row]]) -> list[str]:
    """Onset → hold, → silence."""
    out = [
        "| system | onset → hold, s | onset → silence, s | spoke at the onset | stopped | went on | had just ended "
        "| disturbed, left out | repeated | cores of others, mean | own cores, mean | of server and participant |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for system, part in rows.items():
        quiet = [row for row in part if not row.disturbed]
        count = Counter(row.outcome for row in quiet)
        resumed = sum(row.resumed for row in quiet)
        holds, silences = [row.hold_s for row in quiet], [row.silence_s for row in quiet]
        out.append(
            f"| {NAMES[system]} | {spread(holds)} | {spread(silences)} "
            f"| {len(quiet) - count['not_speaking']} of {len(quiet)} | {count['stopped']}"
            f"{f' ({resumed} resumed)' if resumed else ''} | {count['went_on']} | {count['own_end']} "
            f"| {load_cells(part, quiet)} |"
        )
    return out


def write_report(folder: Path, target: Path, systems: Sequence[str]) -> str:
    """Write ``target`` from the rows in ``folder`` and give its text."""
    rows = {system: part for system in systems if (part := read(folder, system))}
    today = datetime.datetime.now(datetime.UTC).date()
    out = [HEAD.format(date=today, machine=machine(), quiet=QUIET_CORES)]
    counts = [
        f"{NAMES[system]}: {measured(rows.get(system, []), samples)} of planned {len(samples)}"
        for system, samples in read_plan(folder).items()
        if system in systems
    ]
    out += [f"Samples measured undisturbed: {'; '.join(counts)}.\n"] if counts else []
    for language, name in (("en", "English"), ("zh", "Chinese")):
        for kind, title, part in (
            ("question", "user's last sound → first audio of the answer", questions_part),
            ("user_interruption", "interruption over the speaking agent", interruptions_part),
        ):
            those = {
                system: chosen
                for system, every in rows.items()
                if (chosen := [row for row in every if (row.kind, row.language) == (kind, language)])
            }
            if those:
                out += [f"## {name}: {title}", "", *part(those), ""]
    text = "\n".join(out)
    target.write_text(text, encoding="utf-8")
    return text
