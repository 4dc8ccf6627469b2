"""Measure everything and write ``benchmarks/results.md``:  make bench

    python benchmarks/run.py [--quick] [--fresh]

Each part is a script of its own and runs in a process of its own, one after the other, so that none disturbs another.
``--quick`` takes few samples (for trying it out; the file says so), ``--fresh`` adds the start from a fresh clone.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from realtime_venus.engines.store import Store

HERE = Path(__file__).parent
ROWS = HERE / "results"
REUSE = "--reuse" in sys.argv
"""Take the parts that an earlier run has left in ``ROWS``."""


def script(name: str, *arguments: str) -> list[str]:
    """Run a script of this folder and give the lines it printed."""
    kept = ROWS / f"{Path(name).stem}.txt"
    if REUSE and kept.exists():
        return kept.read_text(encoding="utf-8").splitlines()
    print(f"== {name} {' '.join(arguments)}", flush=True)
    process = subprocess.run(
        [sys.executable, str(HERE / name), *arguments], stdout=subprocess.PIPE, text=True, check=True, cwd=HERE.parent
    )
    lines = process.stdout.splitlines()
    kept.write_text(process.stdout, encoding="utf-8")
    return lines


def rows(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith('{"id"')]


def percentiles(values: list[float]) -> str:
    if not values:
        return "– (n=0)"
    p50, p90 = np.percentile(values, 50), np.percentile(values, 90)
    return f"{p50:.2f} / {p90:.2f} (n={len(values)})"


def machine() -> str:
    """The processor, its cores and the memory, in one line."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    memory = psutil.virtual_memory().total / 2**30
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def latency_part(quick: bool) -> list[str]:
    measured = rows(script("latency.py", *(["--every", "12"] if quick else [])))
    out = [
        "## User's last sound → first audio of the answer, seconds, p50 / p90",
        "",
        "At the room's edge (`rooms/memory`), over the question stems of the whole duplex kit. No opener is used: what",
        "is timed is the answer itself. Starts before the end of the question are false starts, not in the figures.",
        "",
        "| language | all | quiet machine (others under 0.15 cores) | false starts | no answer in 6 s |",
        "| --- | --- | --- | --- | --- |",
    ]
    for language in ("en", "zh"):
        part = [row for row in measured if row["language"] == language]
        good = [row for row in part if row["latency_s"] is not None and not row["false_start"]]
        every = percentiles([row["latency_s"] for row in good])
        quiet = percentiles([row["latency_s"] for row in good if row["others_cores"] < 0.15])
        early = sum(row["false_start"] for row in part)
        silent = sum(row["latency_s"] is None for row in part)
        out.append(f"| {language} | {every} | {quiet} | {early} of {len(part)} | {silent} of {len(part)} |")
    return [*out, ""]


def listener_part(quick: bool) -> list[str]:
    measured = rows(script("listener.py", "--limit", "2" if quick else "6"))
    out = ["At the listener (Chromium on the same two cores, both voices recorded in the page):", ""]
    for language in ("en", "zh"):
        part = [row for row in measured if row["language"] == language]
        found = [row["latency_s"] for row in part if row["latency_s"] is not None]
        out.append(f"- {language}: {percentiles(found)}; no answer in time: {len(part) - len(found)} of {len(part)}")
    return [*out, ""]


def overlap_part(quick: bool) -> list[str]:
    lines = script("overlap.py", *(["--limit", "3"] if quick else []))
    found = json.loads(lines[-1])
    out = [
        "## Interruption → duck, hold, yield, milliseconds, p50 / p95",
        "",
        "From the first speech of the interruption, as the kit gives it, to the end of the frame that is lower,",
        "paused, flushed: the action's time on the timeline and one frame of 20 ms.",
        "",
        "| step | p50 / p95 | n |",
        "| --- | --- | --- |",
    ]
    for step in ("duck_ms", "hold_ms", "yield_ms"):
        got = found[step]
        out.append(f"| {step.removesuffix('_ms')} | {got['p50']} / {got['p95']} | {got['n']} of {found['n']} |")
    return [*out, ""]


def answers_part(quick: bool) -> list[str]:
    found = json.loads(script("answers.py", *(["--limit", "3"] if quick else []))[-1])
    out = ["## Answers that hold an expected keyword", ""]
    out += [f"- {name}: {got['hit']} of {got['n']}" for name, got in found.items()]
    return [*out, ""]


def knowledge_part() -> list[str]:
    lines = script("knowledge.py", str(Store().path("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")))
    figures = [line for line in lines if re.fullmatch(r"[^:]+: \d+ of \d+ \(.*%\)", line)]
    if not figures:
        raise SystemExit("benchmarks/knowledge.py printed no figures")
    return ["## Honesty", "", "Over the questions of tests/kits/knowledge.", "", *(f"- {line}" for line in figures), ""]


def cost_part(quick: bool, fresh: bool) -> list[str]:
    idle = json.loads(script("idle.py", "--seconds", "10" if quick else "30")[-1])
    start = json.loads(script("start.py", *(["--fresh"] if fresh else []))[-1])
    out = [
        "## Cost",
        "",
        f"- a session that only listens, beyond the WebRTC library: {idle['per_session_cores']:.3f} cores",
        f"- resident memory: {idle['loaded_mb']} MB loaded, {idle['in_call_mb']} MB in a call",
        f"- warm start until the page answers: {start['warm_start_s']} s",
    ]
    if "fresh_clone_s" in start:
        out.append(f"- fresh clone until the page answers: {start['fresh_clone_s']} s")
    return [*out, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--reuse", action="store_true", help="take what benchmarks/results/ holds instead of measuring")
    options = parser.parse_args()
    ROWS.mkdir(exist_ok=True)
    today = datetime.datetime.now(datetime.UTC).date()
    out = ["# Measured", "", f"{today}, {machine()}. Made by `make bench`; every sample was run once.", ""]
    if options.quick:
        out += ["**A quick run with few samples: not to be quoted.**", ""]
    out += latency_part(options.quick)
    out += listener_part(options.quick)
    out += overlap_part(options.quick)
    out += answers_part(options.quick)
    out += knowledge_part()
    out += cost_part(options.quick, options.fresh)
    (HERE / "results.md").write_text("\n".join(out), encoding="utf-8")
    print("\n".join(out))


if __name__ == "__main__":
    main()
