"""Errors of the model store."""

from __future__ import annotations

from pathlib import Path

from ..base import EngineError


class StoreError(EngineError):
    """The model store could not do what it was asked for."""


class UnknownModel(StoreError):
    """No file of that name is in the manifest."""


class ModelMissing(StoreError):
    """A model file is not there."""

    def __init__(self, name: str, why: str, remedy: str = "venus models pull") -> None:
        super().__init__(f"model file {name} {why}; run: {remedy}")
        self.name = name


class ModelCorrupt(ModelMissing):
    """A model file is there, but its bytes are not the expected ones."""


class FetchFailed(StoreError):
    """One source did not give what it should; the next one may."""


class PullCancelled(StoreError):
    """The pull was stopped; what was fetched is kept for the next one."""

    def __init__(self) -> None:
        super().__init__("the pull was stopped; run it again to go on")


class PullFailed(StoreError):
    """Some files could be had from none of their sources."""

    def __init__(self, reasons: dict[str, list[str]]) -> None:
        lines = [f"{name}: {'; '.join(why)}" for name, why in reasons.items()]
        super().__init__("could not fetch " + " | ".join(lines) + ". What was fetched is kept; run it again to go on.")
        self.reasons = reasons


class StoreBusy(StoreError):
    """Another pull holds the lock."""


class DiskFull(StoreError):
    """The disk cannot take what must be written; no half-written file is left."""

    def __init__(self, folder: Path, needed: int | None = None, free: int | None = None) -> None:
        amount = "" if needed is None or free is None else f": {mega(needed)} needed, {mega(free)} free"
        super().__init__(f"the disk of {folder} is full{amount}; free some space or set VENUS_MODELS__CACHE_DIR")
        self.needed = needed
        self.free = free


def mega(size: int) -> str:
    """``size`` bytes for people, in decimal megabytes."""
    return f"{size / 1e6:,.0f} MB" if size >= 1_000_000 else f"{size / 1e3:,.0f} kB"
