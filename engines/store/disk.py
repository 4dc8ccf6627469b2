"""Writing whole files or none: hash while writing, flush to the disk, rename; a full disk leaves nothing behind."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from .errors import DiskFull, PullCancelled

BLOCK = 1 << 20
"""Bytes read at a time."""

FreeBytes = Callable[[Path], int]
"""Free space, in bytes, of the disk that holds a folder."""


def free_bytes(folder: Path) -> int:
    """Free space of the disk that holds ``folder``, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk_explained(folder: Path) -> Generator[None]:
    """Turn "no space left" into :class:`DiskFull`."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFull(folder) from error
        raise


def blocks_of(path: Path) -> Generator[bytes]:
    """The file's bytes, a block at a time."""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def sha256_of(path: Path, cancelled: Callable[[], bool] = lambda: False) -> str:
    """SHA-256 of a file, in lower-case hexadecimal.  Raises :class:`PullCancelled`."""
    digest = hashlib.sha256()
    for block in blocks_of(path):
        if cancelled():
            raise PullCancelled
        digest.update(block)
    return digest.hexdigest()


def write_hashed(temporary: Path, blocks: Iterable[bytes]) -> tuple[int, str]:
    """Write ``blocks`` to ``temporary``, down to the disk; gives size in bytes and SHA-256.

    Whatever goes wrong, ``temporary`` is removed.  Raises :class:`DiskFull`.
    """
    digest = hashlib.sha256()
    size = 0
    try:
        with full_disk_explained(temporary.parent), temporary.open("wb") as file:
            for block in blocks:
                file.write(block)
                digest.update(block)
                size += len(block)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return size, digest.hexdigest()


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename ``temporary`` to ``target`` so that either the old or the whole new file is there, even after a crash."""
    os.replace(temporary, target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_text_atomically(target: Path, text: str) -> None:
    """Replace ``target`` by ``text``.  Raises :class:`DiskFull`."""
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_hashed(temporary, [text.encode()])
    put_in_place(temporary, target)
