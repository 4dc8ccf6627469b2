"""Whole files or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from realtime_venus.engines.store.disk import free_bytes, sha256_of, write_hashed, write_text_atomically
from realtime_venus.engines.store.errors import DiskFull, PullCancelled

from ...kit.registry import sha256


def test_size_and_hash_are_those_of_what_was_written(tmp_path: Path) -> None:
    target = tmp_path / "file"
    assert write_hashed(target, [b"ab", b"", b"c"]) == (3, sha256(b"abc"))
    assert sha256_of(target) == sha256(b"abc")


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.symlink_to("/dev/full")
    with pytest.raises(DiskFull, match="VENUS_MODELS__CACHE_DIR"):
        write_hashed(target, [b"x" * 100_000])
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_hashed(tmp_path / "file", blocks())
    assert list(tmp_path.iterdir()) == []


def test_other_errors_are_not_taken_for_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_hashed(tmp_path / "none" / "file", [b"x"])


def test_text_replaces_text(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"
    write_text_atomically(target, "one")
    write_text_atomically(target, "two")
    assert target.read_text() == "two"
    assert list(target.parent.iterdir()) == [target]


def test_hashing_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(PullCancelled):
        sha256_of(tmp_path / "file", lambda: True)


def test_free_space_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") > 0
