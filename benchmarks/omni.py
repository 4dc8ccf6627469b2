"""What the stages of the omni network cost, against what they must at least: memory to read, operations to do.

    python benchmarks/omni.py [--device cpu|cuda] [--dtype bfloat16] [--sizes released|reduced|layer ...]
                              [--context N] [--seconds S] [--units] [--out FILE]

Weights are random: only shapes matter here.  ``released`` are the published sizes (19 GB in bfloat16), ``layer`` has
their widths and one layer of every tower (and a vocabulary of 8192), ``reduced`` about a hundredth of the weights.
Without ``--sizes`` a CUDA device takes ``released`` and a CPU ``reduced`` and ``layer``.  A floor is the larger of
bytes / bandwidth and operations / rate, both measured here in the same run (a copy of 256 MB and a product of square
matrices).  On a CUDA device times are of events, eager and, where a stage has no host work, replayed from a graph.
``--units`` runs the recorded tiny checkpoint through whole units: milliseconds, kernels launched (counted by the
profiler; on a CPU the leaf operators) and forwards of the thinker.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from omni_stages import Sizes, Stage, reduced, released, stages
from omni_units import report as units_report

LEAST_CALLS = 3
COPY_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class Machine:
    """``bandwidth`` in bytes and ``rate`` in operations a second, as measured."""

    name: str
    bandwidth: float
    rate: float

    def floor_ms(self, stage: Stage) -> float:
        """The least a call can take."""
        return 1e3 * max(stage.bytes / self.bandwidth, stage.operations / self.rate)


class Clock:
    """Median milliseconds of a call."""

    def __init__(self, device: torch.device, seconds: float) -> None:
        self._cuda = device.type == "cuda"
        self._seconds = seconds

    def eager(self, call: Callable[[], object]) -> float:
        """As Python calls it."""
        call()
        taken: list[float] = []
        until = time.perf_counter() + self._seconds
        while len(taken) < LEAST_CALLS or time.perf_counter() < until:
            taken.append(self._once(call))
        return statistics.median(taken)

    def graph(self, call: Callable[[], object]) -> float | None:
        """Replayed from a CUDA graph; ``None`` without such a device."""
        if not self._cuda:
            return None
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):
                call()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return self.eager(graph.replay)

    def _once(self, call: Callable[[], object]) -> float:
        if not self._cuda:
            began = time.perf_counter()
            call()
            return 1e3 * (time.perf_counter() - began)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last)


def measure_machine(device: torch.device, dtype: torch.dtype, clock: Clock) -> Machine:
    """What the device does at best in this run."""
    source = torch.zeros(COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copied = clock.eager(lambda: target.copy_(source))
    side = 8192 if device.type == "cuda" else 1024
    square = torch.randn(side, side, device=device, dtype=dtype)
    multiplied = clock.eager(lambda: square @ square)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return Machine(name, 2 * COPY_BYTES / copied * 1e3, 2 * side**3 / multiplied * 1e3)


def table(sizes: Sizes, whole: Sizes, device: torch.device, dtype: torch.dtype, machine: Machine, clock: Clock) -> str:
    """One row for each stage, as Markdown."""
    head = ["stage", "layers", "MB read", "GFLOP", "ms", "graph, ms", "floor, ms", "x floor", "calls a unit"]
    rows = [f"### {sizes.name}, {str(dtype).removeprefix('torch.')}", ""]
    rows += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    unit = floor = 0.0
    for stage in stages(sizes, device, dtype, whole):
        with torch.inference_mode():
            eager = clock.eager(stage.run)
            graph = clock.graph(stage.run) if stage.graph else None
        best, least = graph or eager, machine.floor_ms(stage)
        unit += stage.per_unit * best
        floor += stage.per_unit * least
        layers = str(stage.layers) if stage.layers == stage.all_layers else f"{stage.layers} of {stage.all_layers}"
        cells = [stage.name, layers, f"{stage.bytes / 1e6:.1f}", f"{stage.operations / 1e9:.2f}", f"{eager:.2f}"]
        cells += ["-" if graph is None else f"{graph:.2f}", f"{least:.2f}", f"{best / least:.1f}", str(stage.per_unit)]
        rows.append("| " + " | ".join(cells) + " |")
        print(rows[-1], flush=True)
        del stage
        gc.collect()
    rows += ["", f"A speaking unit of five words with these layers: {unit:.1f} ms, floor {floor:.1f} ms.", ""]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--sizes", nargs="+", choices=("released", "reduced", "layer"))
    parser.add_argument("--context", type=int, help="positions before the thinker's rows; else those of the sizes")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each stage")
    parser.add_argument("--units", action="store_true")
    parser.add_argument("--out", type=Path, help="Markdown; else it is printed")
    given = parser.parse_args(arguments)
    device = torch.device(given.device)
    dtype = getattr(torch, given.dtype or ("bfloat16" if device.type == "cuda" else "float32"))
    wanted: list[str] = given.sizes or (["released"] if device.type == "cuda" else ["reduced", "layer"])
    clock = Clock(device, given.seconds)
    machine = measure_machine(device, dtype, clock)
    parts = [
        "# Stages of the omni network",
        "",
        "Written by `python benchmarks/omni.py --units --out FILE`; its docstring says what the columns are.  Random",
        "weights.  One layer alone may stay in the processor's cache, and then needs less than its floor.",
        "",
        f"{time.strftime('%Y-%m-%d')}, {machine.name}, torch {torch.__version__}, {torch.get_num_threads()} threads; "
        f"{machine.bandwidth / 1e9:.1f} GB/s copied, {machine.rate / 1e9:.0f} GFLOP/s in products.",
        "",
    ]
    makers: dict[str, Callable[[], Sizes]] = {"released": released, "reduced": reduced, "layer": lambda: released(1)}
    for name in wanted:
        sizes = makers[name]()
        if given.context:
            sizes = Sizes(sizes.name, sizes.config, sizes.flow, sizes.hift, given.context)
        whole = sizes if name == "reduced" else released()
        parts.append(table(sizes, whole, device, dtype, machine, clock))
    if given.units:
        parts.append(units_report(device))
    text = "\n".join(parts)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    else:
        print(text)


def _processor() -> str:
    names: Any = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
