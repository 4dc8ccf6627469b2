"""The model store: paths of model files, whether they are what they should be, and how to get them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from ..base import MissingExtra
from .disk import FreeBytes, free_bytes, full_disk_explained, put_in_place, sha256_of
from .errors import ModelCorrupt, ModelMissing, StoreError, UnknownModel
from .fetching import PackageFetcher, Progress, Silent, UrlFetcher
from .lock import pull_lock
from .manifest import VENDORED, Derived, Entry, Fetched, Manifest, Packaged, Vendored, load_manifest
from .official import OfficialFetcher
from .pull import Pull
from .registry import RegistryFetcher
from .settings import ModelsSettings
from .stamps import Stamps

RECIPE_VERSION = 1
"""Goes up when derived files must be made anew."""

Recipe = Callable[[str, Path, Path], None]
"""Makes a derived file: name of the recipe, input, output.  Raises :class:`MissingExtra` when it cannot run here."""

State = Literal["ready", "unchecked", "missing", "corrupt"]
"""``unchecked``: there, but not hashed since it last changed."""


def _cut_kokoro(recipe: str, source: Path, target: Path) -> None:
    from .kokoro_graph import cut

    cut(recipe, source, target)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """How one file of the manifest stands."""

    name: str
    kind: Literal["fetched", "vendored", "packaged", "derived"]
    state: State
    size: int | None
    """Expected bytes; ``None`` for derived files."""
    licence: str
    use: str
    fallback: str
    optional: bool
    path: Path | None
    """Where it lies or would lie; ``None`` while its package is not installed."""


class Store:
    """Model files by name.  Safe to use from any thread; pulls of several processes take turns."""

    def __init__(
        self,
        settings: ModelsSettings | None = None,
        manifest: Manifest | None = None,
        packages: PackageFetcher | None = None,
        urls: UrlFetcher | None = None,
        free: FreeBytes = free_bytes,
        recipe: Recipe = _cut_kokoro,
    ) -> None:
        self.settings = settings or ModelsSettings()
        self.manifest = manifest or load_manifest()
        self._packages = packages or RegistryFetcher(self.settings.package_timeout_s)
        self._urls = urls or OfficialFetcher(self.settings.connect_timeout_s, self.settings.read_timeout_s)
        self._free = free
        self._recipe = recipe
        self._cache = self.settings.cache_dir
        self._stamps = Stamps(self._cache)

    # -- looking up -------------------------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        """Where the file ``name`` lies, or the folder ``name`` when several fetched files share it (``whisper-base``).

        A file that changed since it was last checked is hashed first (a second per gigabyte or so).
        Raises :class:`ModelMissing`, :class:`ModelCorrupt` or :class:`UnknownModel`.
        """
        group = self.manifest.group(name)
        if group:
            for member in group:
                self.path(member.name)
            return self._cache / name
        entry = self._entry(name)
        if isinstance(entry, Vendored):
            return VENDORED / entry.path
        if isinstance(entry, Packaged):
            return self._path_in_package(entry)
        path = self._cache / entry.name
        state = self._state(entry)
        if state == "missing":
            optional = isinstance(entry, Fetched) and entry.optional
            raise ModelMissing(name, "is not there", f"venus models pull {name}" if optional else "venus models pull")
        if state == "unchecked" and not self._adopt(entry):
            raise ModelCorrupt(name, "is not what it should be (another SHA-256)")
        return path

    def present(self, name: str) -> bool:
        """Whether :meth:`path` would give the file."""
        try:
            self.path(name)
        except ModelMissing:
            return False
        return True

    def status(self) -> tuple[FileStatus, ...]:
        """How every file of the manifest stands, without reading the files."""
        return tuple(self._status(entry, self._state(entry)) for entry in self.manifest.entries)

    def verify(self, names: Iterable[str] = ()) -> tuple[FileStatus, ...]:
        """Read and hash the files that are there, all of them or those of ``names``; what is corrupt must be pulled."""
        entries = self._entries(names) if (names := tuple(names)) else self.manifest.entries
        return tuple(self._status(entry, self._hashed_state(entry)) for entry in entries)

    # -- getting ----------------------------------------------------------------------------------------------------

    def pull(self, names: Iterable[str] = (), progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the default set, or ``names``, into the cache; gives the names of what was fetched or made.

        Needs no network when all is there.  Raises ``PullFailed``, ``DiskFull``, ``StoreBusy``, ``UnknownModel``,
        and :class:`ModelMissing` for a file of a Python package that is not installed.
        """
        progress = progress or Silent()
        names = tuple(names)
        entries = self._entries(names) if names else self._default_set()
        for entry in entries:
            if isinstance(entry, Packaged) and names:
                self._path_in_package(entry)
        if not self._lacking(entries):
            return ()
        try:
            with full_disk_explained(self._cache):
                self._cache.mkdir(parents=True, exist_ok=True)
                return self._pull(entries, progress)
        except OSError as error:
            raise StoreError(f"cannot write to {self._cache}: {error}") from error

    def _pull(self, entries: Sequence[Entry], progress: Progress) -> tuple[str, ...]:
        def waiting() -> None:
            progress.say("another pull is under way; waiting for it")

        with pull_lock(self._cache, self.settings.lock_timeout_s, waiting):
            lacking = self._lacking(entries)
            fetched = [entry for entry in lacking if isinstance(entry, Fetched) and not self._kept(entry, progress)]
            if fetched:
                Pull(self.settings, self._stamps, self._packages, self._urls, self._free, progress).run(fetched)
            made = [entry for entry in lacking if isinstance(entry, Derived) and self._make(entry, progress)]
        return tuple(entry.name for entry in (*fetched, *made))

    def _default_set(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.manifest.entries if not (isinstance(entry, Fetched) and entry.optional))

    def _entries(self, names: Iterable[str]) -> tuple[Entry, ...]:
        """The files of these names and folders, with the inputs of derived ones, each once."""
        wanted: dict[str, Entry] = {}
        for name in names:
            for entry in self.manifest.group(name) or (self._entry(name),):
                if isinstance(entry, Derived):
                    base = self._entry(entry.base)
                    wanted.setdefault(base.name, base)
                wanted[entry.name] = entry
        return tuple(wanted.values())

    def _entry(self, name: str) -> Entry:
        entry = self.manifest.entry(name)
        if entry is None:
            known = [one.name for one in self.manifest.entries]
            near = difflib.get_close_matches(name, known, 1)
            raise UnknownModel(f"no model file is called {name}" + (f"; did you mean {near[0]}?" if near else ""))
        return entry

    # -- one file ---------------------------------------------------------------------------------------------------

    def _lacking(self, entries: Sequence[Entry]) -> list[Fetched | Derived]:
        return [entry for entry in entries if isinstance(entry, Fetched | Derived) and self._state(entry) != "ready"]

    def _state(self, entry: Entry) -> State:
        path = self._path_or_none(entry)
        if path is None or not path.is_file():
            return "missing"
        if isinstance(entry, Vendored | Packaged):
            return "ready" if path.stat().st_size == entry.size else "corrupt"
        stamp = self._stamps.valid(entry.name)
        if isinstance(entry, Derived):
            return "ready" if stamp is not None and stamp.made_from == self._origin(entry) else "missing"
        return "ready" if stamp is not None and stamp.sha256 == entry.sha256 else "unchecked"

    def _hashed_state(self, entry: Entry) -> State:
        path = self._path_or_none(entry)
        if path is None or not path.is_file():
            return "missing"
        expected = entry.sha256 if not isinstance(entry, Derived) else None
        if isinstance(entry, Derived):
            stamp = self._stamps.valid(entry.name)
            if stamp is None or stamp.made_from != self._origin(entry):
                return "missing"
            expected = stamp.sha256
        if sha256_of(path) == expected:
            if isinstance(entry, Fetched):
                self._stamps.set(entry.name, entry.sha256)
            return "ready"
        if isinstance(entry, Fetched | Derived):
            self._stamps.drop(entry.name)  # so that the next pull looks at it
        return "corrupt"

    def _status(self, entry: Entry, state: State) -> FileStatus:
        return FileStatus(
            name=entry.name,
            kind=_KINDS[type(entry)],
            state=state,
            size=None if isinstance(entry, Derived) else entry.size,
            licence=entry.licence,
            use=entry.use,
            fallback=entry.fallback,
            optional=isinstance(entry, Fetched) and entry.optional,
            path=self._path_or_none(entry),
        )

    def _adopt(self, entry: Fetched | Derived) -> bool:
        """Hash a fetched file that has no valid stamp, and stamp it if it is the expected one."""
        if isinstance(entry, Derived) or sha256_of(self._cache / entry.name) != entry.sha256:
            return False
        self._stamps.set(entry.name, entry.sha256)
        return True

    def _kept(self, entry: Fetched, progress: Progress) -> bool:
        """Whether the file is there after all; a corrupt one is removed."""
        if self._state(entry) == "missing":
            return False
        if self._adopt(entry):
            return True
        progress.say(f"{entry.name}: corrupt, fetching it anew")
        (self._cache / entry.name).unlink()
        return False

    def _make(self, entry: Derived, progress: Progress) -> bool:
        """Make a derived file from its input."""
        target = self._cache / entry.name
        temporary = target.with_name(f"{target.name}.tmp")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._recipe(entry.recipe, self._cache / entry.base, temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            sha256 = sha256_of(temporary)
            put_in_place(temporary, target)
        except MissingExtra as error:
            progress.say(f"{entry.name}: not made ({error})")
            return False
        finally:
            temporary.unlink(missing_ok=True)
        self._stamps.set(entry.name, sha256, self._origin(entry))
        progress.say(f"{entry.name}: made from {entry.base}")
        return True

    def _origin(self, entry: Derived) -> str:
        base = self._entry(entry.base)
        return f"{base.sha256 if isinstance(base, Fetched) else base.name} recipe {RECIPE_VERSION}"

    def _path_or_none(self, entry: Entry) -> Path | None:
        if isinstance(entry, Vendored):
            return VENDORED / entry.path
        if isinstance(entry, Packaged):
            return _located(entry)
        return self._cache / entry.name

    @staticmethod
    def _path_in_package(entry: Packaged) -> Path:
        path = _located(entry)
        remedy = f"pip install '{entry.distribution}=={entry.version}'"
        if path is None or not path.is_file():
            raise ModelMissing(entry.name, f"lies in the package {entry.distribution}, which is not installed", remedy)
        if path.stat().st_size != entry.size:
            raise ModelCorrupt(entry.name, f"in {entry.distribution} is of another version", remedy)
        return path


_KINDS: dict[type, Literal["fetched", "vendored", "packaged", "derived"]] = {
    Fetched: "fetched",
    Vendored: "vendored",
    Packaged: "packaged",
    Derived: "derived",
}


def _located(entry: Packaged) -> Path | None:
    try:
        return Path(str(metadata.distribution(entry.distribution).locate_file(entry.member)))
    except metadata.PackageNotFoundError:
        return None
