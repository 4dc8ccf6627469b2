"""What this process may use of its machine: the limits of a container count, which the machine's own figures hide."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""The first version of control groups writes a number of about this size for no limit."""


def total_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes of memory that this process and its like may use."""
    limit = _memory_limit(cgroup)
    machine = psutil.virtual_memory().total
    return machine if limit is None else min(machine, limit[0])


def available_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes of memory that can still be used without swapping."""
    limit = _memory_limit(cgroup)
    machine = psutil.virtual_memory().available
    return machine if limit is None else max(0, min(machine, limit[0] - limit[1]))


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Cores that this process may keep busy, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _words(cgroup / "cpu.max")
    if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit() and int(quota[1]):
        cores = min(cores, math.ceil(int(quota[0]) / int(quota[1])))
    return max(1, cores)


def _memory_limit(cgroup: Path) -> tuple[int, int] | None:
    """Limit and use, in bytes; what is only cached of files does not count as used."""
    for folder, limit, used, cached in (
        (cgroup, "memory.max", "memory.current", "inactive_file"),
        (cgroup / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _number(folder / limit), _number(folder / used)
        if most is not None and now is not None and most < _UNLIMITED:
            return most, max(0, now - _entry(folder / "memory.stat", cached))
    return None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _entry(path: Path, name: str) -> int:
    words = _words(path)
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    return int(pairs.get(name, "0"))
