"""Whole units of the omni engine at the size of the recorded checkpoint: time, kernels and forwards of the thinker."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from realtime_venus.engines.omni.behaviour import Behaviour
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.duplex_settings import DuplexSettings
from realtime_venus.engines.omni.engine import PREFIX, SUFFIX
from realtime_venus.engines.omni.model import OmniModel
from realtime_venus.engines.omni.pieces import UnitEnd
from realtime_venus.engines.omni.voice import VoicePrompt, enroll
from realtime_venus.engines.omni_settings import OmniSettings
from torch.profiler import ProfilerActivity, profile

from tests.kit import golden

UNITS = 16
COUNTED = (5, 6, 7)
"""Units under the profiler, which takes seconds to sort the events of one; the last of them listens."""
HZ = 16_000


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit as it was measured."""

    listens: bool
    words: int
    forwards: int
    kernels: int
    ms: float


def run(model: OmniModel, voice: VoicePrompt, behaviour: Behaviour, *, seed: int) -> list[Unit]:
    """A session over the recording: sound and, every fourth second, a picture.

    Words are whatever the seed draws; every fourth unit is made to listen, as random weights hardly ever do.
    """
    session = Duplex(model, DuplexSettings(behaviour=behaviour, seed=seed))
    sound = golden.microphone()
    picture = np.zeros((480, 640, 3), dtype=np.uint8)
    activities = [ProfilerActivity.CUDA if model.device.type == "cuda" else ProfilerActivity.CPU]
    units: list[Unit] = []
    with torch.inference_mode():
        session.prepare(PREFIX.format(prompt=OmniSettings().system_prompt), SUFFIX, voice)
        for number in range(UNITS):
            heard = sound[number * HZ : (number + 1) * HZ]
            frames = [picture] if number % 4 == 0 else []
            counted = number in COUNTED
            with profile(activities=activities) if counted else _Nothing() as seen:
                began = time.perf_counter()
                session.prefill(heard, frames)
                (end,) = [
                    piece for piece in session.generate(force_listen=number % 4 == 3) if isinstance(piece, UnitEnd)
                ]
                session.finalise()
                if model.device.type == "cuda":
                    torch.cuda.synchronize()
                ms = 1e3 * (time.perf_counter() - began)
            kernels = 0 if seen is None else _kernels(seen)
            units.append(Unit(end.is_listen, len(end.ids), end.forwards, kernels, 0.0 if counted else ms))
    return units


def report(device: torch.device) -> str:
    """The table of units, as Markdown."""
    rows = ["### Units of the recorded tiny checkpoint", ""]
    rows += ["Sound, and a picture every fourth second.  A unit speaks as many words as the random network draws, at"]
    rows += ["most 49 (`venus`) or 19; those that listen are made to, and close an open turn first (one more).", ""]
    rows += ["| behaviour | unit | n | ms, median | kernels, median | forwards of the thinker, median |"]
    rows += ["| --- | --- | --- | --- | --- | --- |"]
    model = OmniModel.load(golden.model_dir(), device=device)
    assets = golden.model_dir() / "assets"
    voice = enroll(golden.wave(golden.voice()), HZ, assets / "token2wav", None)
    for behaviour in Behaviour:
        kinds: dict[str, list[Unit]] = defaultdict(list)
        for unit in run(model, voice, behaviour, seed=1):
            kinds["listens" if unit.listens else "speaks"].append(unit)
        for kind, units in sorted(kinds.items()):
            ms = [unit.ms for unit in units if unit.ms]
            kernels = [unit.kernels for unit in units if unit.kernels]
            cells = [behaviour.value, kind, str(len(units))]
            cells += [
                f"{statistics.median(ms):.1f}" if ms else "-",
                f"{statistics.median(kernels):.0f}" if kernels else "-",
            ]
            cells.append(f"{statistics.median(unit.forwards for unit in units):.0f}")
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join([*rows, ""])


class _Nothing:
    """In place of the profiler, where a unit is timed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _kernels(seen: profile) -> int:
    """Kernels on the device (neither copies nor the calls that launch them), or operators on the CPU that call no
    other."""
    events: Any = seen.events() or []
    on_device = [event for event in events if event.device_type.name == "CUDA"]
    if on_device:
        return sum(1 for event in on_device if not event.name.startswith(("Memcpy", "Memset", "[memory]")))
    return sum(1 for event in events if not event.cpu_children and not event.name.startswith("[memory]"))
