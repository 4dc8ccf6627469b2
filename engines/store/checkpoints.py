"""The published weights: listed by their official repository, fetched with resumption, verified by the hub's hashes."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..base import EngineError
from .disk import FreeBytes, blocks_of, free_bytes, full_disk_explained, put_in_place, sha256_of
from .errors import DiskFull, FetchFailed, PullCancelled, PullFailed, StoreError, mega
from .fetching import Job, Progress, UrlFetcher
from .lock import pull_lock
from .official import OfficialFetcher
from .pull import SPARE_BYTES, Meter
from .settings import ModelsSettings
from .stamps import Stamps

REPOSITORY: Final = "inclusionAI/Realtime-Venus"
FOLDERS: Final = {"omni": "Realtime-Venus-Omni", "audio": "Realtime-Venus-Audio"}
"""Folder of each variant in the repository, and below the model cache."""
_CODE: Final = (".py", ".pyc", ".sh")
"""Files that are left where they are: nothing of the repository is run."""
_PARTIAL: Final = ".partial"
"""Folder of what is not whole yet, below the variant's; gone when all is."""
_MOST_BYTES: Final = 64_000_000
"""Longest listing that is read."""


class HubUnreachable(StoreError):
    """The hub gives no listing; the message says how to bring the files by hand."""


# -- the listing ----------------------------------------------------------------------------------------------------


class _Lfs(BaseModel):
    model_config = ConfigDict(frozen=True)

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class _Sibling(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str = Field(alias="rfilename")
    size: int | None = Field(default=None, ge=0)
    blob: str | None = Field(default=None, alias="blobId", pattern="^[0-9a-f]{40}$")
    lfs: _Lfs | None = None


class _Card(BaseModel):
    license: str | list[str] | None = None


class _Answer(BaseModel):
    """What the hub says of a repository when its files are asked for too."""

    sha: str = Field(pattern="^[0-9a-f]{40}$")
    card: _Card | None = Field(default=None, alias="cardData")
    siblings: tuple[_Sibling, ...] = ()


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of the repository.  ``path`` is below the variant's folder; ``kind`` is the hash that the hub keeps."""

    path: str
    size: int
    kind: Literal["sha256", "git-sha1"]
    hash: str

    @property
    def stamp(self) -> str:
        """How a stamp names the hash."""
        return self.hash if self.kind == "sha256" else f"git:{self.hash}"


@dataclass(frozen=True, slots=True)
class Listing:
    """What would be fetched."""

    variant: str
    revision: str
    licence: str
    files: tuple[HubFile, ...]

    @property
    def folder(self) -> str:
        return FOLDERS[self.variant]

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(file.size for file in self.files)


def list_release(variant: str, settings: ModelsSettings) -> Listing:
    """Ask the hub what a variant consists of.

    Raises :class:`HubUnreachable`, and :class:`~..store.errors.StoreError` for an answer that cannot be trusted.
    """
    url = f"{settings.hub_url.rstrip('/')}/api/models/{REPOSITORY}?blobs=true"
    headers = {"User-Agent": "realtime-venus"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https, by the settings
    try:
        with urllib.request.urlopen(request, timeout=settings.connect_timeout_s) as answer:  # noqa: S310
            body = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise HubUnreachable(_by_hand(variant, settings, f"answered {error.code}")) from error
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise HubUnreachable(_by_hand(variant, settings, f"cannot be reached: {reason}")) from error
    return _parsed(variant, settings, body)


def _parsed(variant: str, settings: ModelsSettings, body: bytes) -> Listing:
    try:
        answer = _Answer.model_validate(json.loads(body))
    except (ValueError, RecursionError, ValidationError) as error:
        raise StoreError(f"{settings.hub_url} gave no listing of {REPOSITORY}; is it a model hub?") from error
    prefix = f"{FOLDERS[variant]}/"
    files = tuple(_file(one, prefix) for one in answer.siblings if _wanted(one.name, prefix))
    if not any(file.path == "config.json" for file in files):
        raise StoreError(f"{REPOSITORY} at {settings.hub_url} has no {prefix}config.json: its layout has changed")
    licence = answer.card.license if answer.card is not None else None
    shown = ", ".join(licence) if isinstance(licence, list) else licence
    return Listing(variant, answer.sha, shown or "not stated", files)


def _wanted(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and not name.endswith(_CODE) and not PurePosixPath(name).name.startswith(".")


def _file(one: _Sibling, prefix: str) -> HubFile:
    path = one.name.removeprefix(prefix)
    parts = path.split("/")
    if "\\" in path or any(part in ("", ".", "..") for part in parts) or not path.isprintable():
        raise StoreError(f"the hub lists {one.name!r}, a name that leads out of its folder; nothing was fetched")
    if one.lfs is not None:
        return HubFile(path, one.lfs.size, "sha256", one.lfs.sha256)
    if one.blob is None or one.size is None:
        raise StoreError(f"the hub gives no hash for {one.name}, so that it cannot be verified; nothing was fetched")
    return HubFile(path, one.size, "git-sha1", one.blob)


def _by_hand(variant: str, settings: ModelsSettings, reason: str) -> str:
    folder = FOLDERS[variant]
    target = settings.cache_dir / folder
    return (
        f"the hub {settings.hub_url} {reason}. To bring the files by hand: on a machine that reaches it, download the "
        f"folder {folder} of https://huggingface.co/{REPOSITORY} as it is, and copy it to {target}, or anywhere and "
        f"say --model FOLDER (VENUS_OMNI__MODEL). VENUS_MODELS__HUB_URL names a mirror"
    )


# -- what is here ---------------------------------------------------------------------------------------------------


def fetched_folder(settings: ModelsSettings) -> Path | None:
    """The checkpoint that was fetched (or copied) into the model cache, ``None`` without one.

    Omni before audio, and one whose fetching was broken off after any that is whole.
    """
    folders = [settings.cache_dir / folder for folder in FOLDERS.values()]
    here = [folder for folder in folders if (folder / "config.json").is_file()]
    return min(here, key=lambda folder: (folder / _PARTIAL).exists(), default=None)


def checkpoint_folder(named: Path | None, models: ModelsSettings) -> Path:
    """Where the checkpoint lies: ``named``, or the fetched one.  Raises :class:`~..base.EngineError` without one."""
    folder = named or fetched_folder(models)
    if folder is None:
        raise EngineError(
            "no checkpoint for the omni engine: fetch one by `venus models pull omni` (or audio), or name its folder "
            "by --model or VENUS_OMNI__MODEL"
        )
    if not (folder / "config.json").is_file():
        below = sorted(path.parent.name for path in folder.glob("*/config.json")) if folder.is_dir() else []
        hint = f"; take one of its folders: {', '.join(below)}" if below else ""
        raise EngineError(f"{folder} is no checkpoint: it has no config.json{hint}")
    return folder


def git_sha1(path: Path, cancelled: Callable[[], bool] = lambda: False) -> str:
    """The hash by which git (and the hub, for small files) knows a file's content."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    for block in blocks_of(path):
        if cancelled():
            raise PullCancelled
        digest.update(block)
    return digest.hexdigest()


# -- fetching -------------------------------------------------------------------------------------------------------


class Release:
    """Brings the files of a listing into the model cache.  ``urls`` and ``free`` are injected by tests."""

    def __init__(
        self,
        listing: Listing,
        settings: ModelsSettings,
        progress: Progress,
        urls: UrlFetcher | None = None,
        free: FreeBytes = free_bytes,
    ) -> None:
        self._listing, self._settings, self._progress = listing, settings, progress
        self._urls = urls or OfficialFetcher(settings.connect_timeout_s, settings.read_timeout_s)
        self._free = free
        self._stamps = Stamps(settings.cache_dir)
        self._meter = Meter(progress)
        self._stop = Event()
        self.folder = settings.cache_dir / listing.folder
        self._partials = self.folder / _PARTIAL

    def lacking(self) -> tuple[HubFile, ...]:
        """The files that are not here, or changed since they were verified."""
        return tuple(file for file in self._listing.files if not self._ready(file))

    def pull(self) -> tuple[str, ...]:
        """Fetch what is lacking, verify it, put it in place; gives the names of what was fetched.

        Raises :class:`~..store.errors.PullFailed` when some files could not be had (the others are in place by then),
        :class:`~..store.errors.DiskFull`, :class:`~..store.errors.StoreBusy` and
        :class:`~..store.errors.PullCancelled`.  Run again after any of them, it goes on with what it had.
        """
        cache = self._settings.cache_dir
        with full_disk_explained(cache):
            cache.mkdir(parents=True, exist_ok=True)
        with pull_lock(cache, self._settings.lock_timeout_s, lambda: self._progress.say("waiting for another pull")):
            lacking = [file for file in self.lacking() if not self._adopted(file)]
            if not lacking:
                return ()
            self._check_space(lacking)
            with full_disk_explained(cache):
                self._partials.mkdir(parents=True, exist_ok=True)
            failed = self._fetch_all(lacking)
            if failed:
                raise PullFailed(failed)
            shutil.rmtree(self._partials)
        return tuple(file.path for file in lacking)

    def _fetch_all(self, files: list[HubFile]) -> dict[str, list[str]]:
        for file in files:
            self._meter.expect(file.path, file.size)
        failed: dict[str, list[str]] = {}
        with ThreadPoolExecutor(self._settings.parallel, thread_name_prefix="venus-pull") as pool:
            jobs = {pool.submit(self._fetch, file): file for file in files}
            try:
                wait(jobs)
            except BaseException:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                raise
            fatal: list[BaseException] = []
            for job, file in jobs.items():
                error = job.exception()
                if isinstance(error, FetchFailed):
                    failed[file.path] = [str(error)]
                elif error is not None:
                    fatal.append(error)
        if fatal:  # one of them made the others break off
            raise next((error for error in fatal if not isinstance(error, PullCancelled)), fatal[0])
        return failed

    def _fetch(self, file: HubFile) -> None:
        if self._stop.is_set():
            raise PullCancelled
        target, partial = self.folder / file.path, self._partial(file)
        below = urllib.parse.quote(f"{REPOSITORY}/resolve/{self._listing.revision}/{self._listing.folder}/{file.path}")
        job = Job(report=lambda have: self._meter.report(file.path, have), cancelled=self._stop.is_set)
        try:
            if file.size:
                self._urls.fetch(f"{self._settings.hub_url.rstrip('/')}/{below}", partial, file.size, job)
            else:
                partial.touch()
            got = self._hash(file, partial)
            if got != file.hash:
                partial.unlink()
                raise FetchFailed(f"expected {file.kind} {file.hash}, got {got}")
            with full_disk_explained(self.folder):
                target.parent.mkdir(parents=True, exist_ok=True)
                put_in_place(partial, target)
                self._stamps.set(self._name(file), file.stamp)
        except (OSError, DiskFull, PullCancelled):
            self._stop.set()  # the others would fare no better
            raise
        self._progress.say(f"{file.path}: {mega(file.size)}, {file.kind} as the hub says")

    def _adopted(self, file: HubFile) -> bool:
        """Take over a file that somebody copied here, if it is the right one."""
        path = self.folder / file.path
        if not path.is_file() or path.stat().st_size != file.size or self._hash(file, path) != file.hash:
            return False
        self._stamps.set(self._name(file), file.stamp)
        return True

    def _ready(self, file: HubFile) -> bool:
        stamp = self._stamps.valid(self._name(file))
        return stamp is not None and stamp.sha256 == file.stamp

    def _check_space(self, lacking: list[HubFile]) -> None:
        partials = (self._partial(file) for file in lacking)
        here = sum(path.stat().st_size for path in partials if path.is_file())
        needed = sum(file.size for file in lacking) - here + SPARE_BYTES
        free = self._free(self.folder)
        if free < needed:
            raise DiskFull(self._settings.cache_dir, needed, free)

    def _partial(self, file: HubFile) -> Path:
        return self._partials / f"{file.hash[:16]}-{file.path.replace('/', '+')}"

    def _hash(self, file: HubFile, path: Path) -> str:
        return (sha256_of if file.kind == "sha256" else git_sha1)(path, self._stop.is_set)

    def _name(self, file: HubFile) -> str:
        return f"{self._listing.folder}/{file.path}"
