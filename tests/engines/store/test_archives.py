"""Members of zip and tar archives, also damaged ones."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from realtime_venus.engines.store.archives import member_blocks
from realtime_venus.engines.store.errors import FetchFailed

from ...kit.registry import npm_package, wheel

MEMBERS = {"a/part.bin": bytes(range(256)) * 20_000, "a/__init__.py": b"raise SystemExit"}


@pytest.mark.parametrize("build", [wheel, npm_package])
def test_a_member_comes_whole_and_in_blocks(tmp_path: Path, build: object) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(wheel(MEMBERS) if build is wheel else npm_package(MEMBERS))
    blocks = list(member_blocks(archive, "a/part.bin"))
    assert b"".join(blocks) == MEMBERS["a/part.bin"]
    assert len(blocks) > 1


@pytest.mark.parametrize("content", [wheel(MEMBERS), npm_package(MEMBERS)])
def test_a_truncated_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(content[: len(content) // 2])
    with pytest.raises(FetchFailed, match="damaged"):
        list(member_blocks(archive, "a/part.bin"))


def test_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    content = bytearray(wheel(MEMBERS))
    content[200] ^= 0xFF
    archive = tmp_path / "archive"
    archive.write_bytes(content)
    with pytest.raises(FetchFailed, match="damaged"):
        list(member_blocks(archive, "a/part.bin"))


@pytest.mark.parametrize("content", [b"", b"not an archive at all"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(content)
    with pytest.raises(FetchFailed, match="damaged"):
        list(member_blocks(archive, "a/part.bin"))


def test_a_link_in_a_tar_archive_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("a/folder")
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    archive = tmp_path / "archive"
    archive.write_bytes(buffer.getvalue())
    with pytest.raises(FetchFailed, match="no regular file"):
        list(member_blocks(archive, "a/folder"))
