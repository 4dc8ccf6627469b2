"""Stamps say that a file was hashed and has not changed since, so that a start need not read a gigabyte again."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from .disk import write_text_atomically


class Stamp(BaseModel):
    """What was true of a file when its bytes were last checked."""

    model_config = ConfigDict(frozen=True)

    size: int
    mtime_ns: int
    sha256: str
    made_from: str | None = None
    """For derived files: SHA-256 of the input and the recipe's version."""


class Stamps:
    """Stamps of the files below ``cache_dir``."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._folder = cache_dir / ".stamps"

    def valid(self, name: str) -> Stamp | None:
        """The stamp, if the file is there with the size and modification time that were stamped."""
        try:
            stamp = Stamp.model_validate_json(self._file(name).read_bytes())
            there = (self._cache_dir / name).stat()
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None
        return stamp if (there.st_size, there.st_mtime_ns) == (stamp.size, stamp.mtime_ns) else None

    def set(self, name: str, sha256: str, made_from: str | None = None) -> None:
        """Record that the file's bytes have just been found to have ``sha256``."""
        there = (self._cache_dir / name).stat()
        stamp = Stamp(size=there.st_size, mtime_ns=there.st_mtime_ns, sha256=sha256, made_from=made_from)
        write_text_atomically(self._file(name), stamp.model_dump_json())

    def drop(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"
