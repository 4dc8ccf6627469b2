"""Limits of a container, as its files under ``/sys/fs/cgroup`` tell them."""

from __future__ import annotations

from pathlib import Path

import psutil
from realtime_venus.engines.machine import available_memory, total_memory, usable_cores

GIB = 1 << 30


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


def test_without_a_container_the_machine_counts(tmp_path: Path) -> None:
    assert total_memory(tmp_path) == psutil.virtual_memory().total
    assert 0 < available_memory(tmp_path) <= total_memory(tmp_path)
    assert usable_cores(tmp_path) >= 1


def test_the_limit_of_a_container_counts_and_cached_files_do_not(tmp_path: Path) -> None:
    write(
        tmp_path,
        memory__max=f"{GIB}\n",
        memory__current=f"{GIB // 2}\n",
        memory__stat=f"anon 5\ninactive_file {GIB // 4}\n",
    )
    assert total_memory(tmp_path) == GIB
    assert available_memory(tmp_path) == GIB * 3 // 4


def test_the_first_version_of_control_groups(tmp_path: Path) -> None:
    write(
        tmp_path / "memory",
        memory__limit_in_bytes=str(GIB),
        memory__usage_in_bytes=str(GIB + 5),
        memory__stat="cache 3\ntotal_inactive_file 2\n",
    )
    assert available_memory(tmp_path) == 0


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    write(tmp_path, memory__max="max\n", memory__current="5\n", cpu__max="max 100000\n")
    write(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712", memory__usage_in_bytes="5")
    assert total_memory(tmp_path) == psutil.virtual_memory().total
    assert usable_cores(tmp_path) >= 1


def test_a_share_of_the_processor_is_rounded_up(tmp_path: Path) -> None:
    write(tmp_path, cpu__max="50000 100000\n")
    assert usable_cores(tmp_path) == 1


def test_damaged_files_are_ignored(tmp_path: Path) -> None:
    write(tmp_path, memory__max="\N{SNOWMAN}", memory__current="many", cpu__max="1 0")
    assert total_memory(tmp_path) == psutil.virtual_memory().total
    assert usable_cores(tmp_path) >= 1
