"""Ours beside two peers, in one run: the same audio, the same model files, the same definitions, one after the other.

    python benchmarks/beside.py [--systems ...] [--languages ...] [--questions N] [--interruptions N] [--limit N]
                                [--wait-quiet S] [--reuse] [--until HH:MM] [--report]

``ours``: at the room's edge (rooms/memory).  ``livekit``: a stock AgentSession.  ``pipecat``: its pipeline.
``ours-livekit``: ours in a room of a real livekit-server, heard by a participant.  The peers run in .venv-peers
(made by requirements/peers.sh) by the unchanged files of peers/.  Systems take turns in small batches, so that a
machine that drifts drifts for all.  A sample during which anything but the measured system kept more than 0.15 cores
busy is repeated, at most twice, for that reason alone.  Rows go to results/beside/; ``--report`` writes beside.md.
The exit status is 1 when fewer samples than planned were measured undisturbed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from beside_report import Plan, measured, read, write_plan, write_report
from beside_rows import Row, row_of
from beside_samples import QUESTIONS, interruptions, questions
from peer_models import lay_out

HERE = Path(__file__).parent
OUT = HERE / "results" / "beside"
PEERS = HERE / "peers"
PEER_PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"
SYSTEMS = ("ours", "livekit", "pipecat", "ours-livekit")
BATCH = 6
TRIES = 3
START_S = 240.0
SAMPLE_S = 40.0
"""A batch that takes longer than it can is ended."""
PLAYED = re.compile(r"^\d\d:\d\d:\d\d (\S+) ")


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    systems: tuple[str, ...]
    languages: tuple[str, ...]
    questions: int
    interruptions: int
    limit: int | None
    wait_quiet: float
    reuse: bool
    until: datetime.datetime | None

    @property
    def over(self) -> bool:
        """Whether the clock forbids another sample."""
        return self.until is not None and datetime.datetime.now().astimezone() >= self.until


def command(system: str, folders: list[Path], wait_quiet: float) -> list[str]:
    """How a system plays samples."""
    if system in ("ours", "ours-livekit"):
        start = [sys.executable, "-u", str(HERE / "beside_ours.py"), "livekit" if "-" in system else "memory"]
    else:
        start = [str(PEER_PYTHON), "-u", "-B", f"peer_{system}.py"]
    more = ["--out", str(OUT / system), "--wait-quiet", str(wait_quiet)]
    if start[0] == str(PEER_PYTHON):
        more += ["--models", str(OUT / "models"), "--redo"]
    return [*start, *map(str, folders), *more]


def play(system: str, folders: list[Path], options: Options) -> Iterator[Row]:
    """Let a system play a batch; give the row of each sample once it is done."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LIVEKIT_", "BENCH_"))}
    environment["PYTHONIOENCODING"] = "utf-8"
    by_id = {folder.name: folder for folder in folders}
    tries: Counter[str] = Counter()
    done: list[str] = []

    def finished(name: str) -> Row:
        folder = by_id[name]
        row = row_of(system, OUT / system / folder.parent.name / name, tries[name])
        with (OUT / f"{system}.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
        return row

    with (
        (OUT / f"{system}.log").open("a") as log,
        subprocess.Popen(
            command(system, folders, options.wait_quiet),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=PEERS,
            env=environment,
        ) as process,
    ):
        assert process.stdout is not None
        longest_s = START_S + len(folders) * TRIES * (SAMPLE_S + options.wait_quiet)
        watchdog = threading.Timer(longest_s, process.kill)
        watchdog.daemon = True
        watchdog.start()
        stopped = False
        try:
            for line in process.stdout:
                if line.startswith("FAILED"):
                    print(f"{system}: {line.rstrip()}", flush=True)
                if (match := PLAYED.match(line)) and match[1] in by_id:
                    name = match[1]
                    if done and done[-1] != name:  # only now it is known that the one before is not repeated
                        yield finished(done[-1])
                    if not done or done[-1] != name:
                        done.append(name)
                    tries[name] += 1
                    if options.over:
                        # Ours has a server and a guest to end; native threads of the peers would not heed an interrupt.
                        process.send_signal(signal.SIGINT if system.startswith("ours") else signal.SIGTERM)
                        stopped = True
                        break
            process.wait()  # as long as the watchdog allows: one that closed its output may hang all the same
        finally:
            watchdog.cancel()
            process.kill()  # of one that has ended nothing is left to kill
    if process.returncode and not stopped:
        # It may have been about to repeat the last sample, or in the middle of that.
        print(f"{system}: ended with {process.returncode}; its last sample is not counted", flush=True)
    elif done:
        yield finished(done[-1])


def batches(options: Options) -> list[list[Path]]:
    """Groups of samples, languages and kinds in turn."""
    samples = OUT / "samples"
    rows: list[list[list[Path]]] = []
    for language in options.languages:
        kinds = [questions(samples, language, options.questions)]
        if options.interruptions:
            kinds.append(interruptions(samples, language, options.interruptions))
        for folders in kinds:
            part = folders[: options.limit]
            rows.append([part[i : i + BATCH] for i in range(0, len(part), BATCH)])
    found: list[list[Path]] = []
    while any(rows):
        found.extend(waiting.pop(0) for waiting in rows if waiting)
    return found


def progress(row: Row) -> str:
    """One line about a sample."""
    what = row.latency_s if row.kind == "question" else f"{row.outcome} hold {row.hold_s} silence {row.silence_s}"
    notes = [f"try {row.tries}"] if row.tries > 1 else []
    notes += ["DISTURBED"] if row.disturbed else []
    notes += ["false start"] if row.false_start else []
    return f"{row.at} {row.system:12} {row.id:28} {what}  others {row.others_cores:.2f} {' '.join(notes)}"


def measure(options: Options) -> Plan:
    """Play what is asked for, systems in turn; gives the samples that were planned for each."""
    OUT.mkdir(parents=True, exist_ok=True)
    if {"livekit", "pipecat"} & set(options.systems):
        if not PEER_PYTHON.exists():
            raise SystemExit("the peers' environment is missing: requirements/peers.sh")
        lay_out(OUT / "models")
    if not options.reuse:
        for system in options.systems:
            (OUT / f"{system}.jsonl").unlink(missing_ok=True)
    groups = batches(options)
    samples = [(folder.parent.name, folder.name) for folders in groups for folder in folders]
    plan = dict.fromkeys(options.systems, samples)
    write_plan(OUT, plan)
    for number, folders in enumerate(groups):
        turn = number % len(options.systems)
        for system in (*options.systems[turn:], *options.systems[:turn]):
            kept = {(row.kind, row.id) for row in read(OUT, system) if not row.disturbed}
            todo = [folder for folder in folders if (folder.parent.name, folder.name) not in kept]
            if options.over:
                print("the time is up", flush=True)
                return plan
            if not todo:
                continue
            began = time.monotonic()
            print(f"-- batch {number + 1} of {len(groups)}: {system}, {len(todo)} samples", flush=True)
            for row in play(system, todo, options):
                print(progress(row), flush=True)
            print(f"-- {time.monotonic() - began:.0f} s", flush=True)
    return plan


def clock(text: str) -> datetime.datetime:
    """The next time that it is HH:MM."""
    now = datetime.datetime.now().astimezone()
    hour, minute = (int(part) for part in text.split(":"))
    due = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return due if due > now else due + datetime.timedelta(days=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--languages", nargs="+", choices=("en", "zh"), default=("en", "zh"))
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="a language")
    parser.add_argument("--interruptions", type=int, default=12, help="a language; the kit has 12 en, 6 zh")
    parser.add_argument("--limit", type=int, help="samples of a kind and language, for trying it out")
    parser.add_argument("--wait-quiet", type=float, default=60.0, help="0: no waiting and no repeating")
    parser.add_argument("--reuse", action="store_true", help="skip what an earlier run measured undisturbed")
    parser.add_argument("--until", type=clock, help="HH:MM: no sample begins after it")
    parser.add_argument("--report", action="store_true", help="write beside.md at the end")
    parser.add_argument("--report-only", action="store_true", help="only that")
    args = parser.parse_args()
    plan: Plan = {}
    if not args.report_only:
        plan = measure(
            Options(
                tuple(cast(list[str], args.systems)),
                tuple(cast(list[str], args.languages)),
                args.questions,
                args.interruptions,
                args.limit,
                args.wait_quiet,
                args.reuse,
                args.until,
            )
        )
    if args.report or args.report_only:
        print(write_report(OUT, HERE / "beside.md", SYSTEMS))
    complete = True
    for system, samples in plan.items():
        found = measured(read(OUT, system), samples)
        complete = complete and found == len(samples)
        print(f"{system}: measured {found} of planned {len(samples)}", flush=True)
    if not complete:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
