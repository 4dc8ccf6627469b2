"""What a pull asks of the things that fetch; the real ones are in ``registry`` and ``official``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from .manifest import Part


@dataclass(frozen=True, slots=True)
class Job:
    """One download under way: tell it how many bytes are there so far, ask it whether to stop."""

    report: Callable[[int], None]
    cancelled: Callable[[], bool]


class PackageFetcher(Protocol):
    """Brings a package archive of a registry by the user's own package manager."""

    def fetch(self, kind: Literal["pip", "npm"], part: Part, folder: Path, job: Job) -> Path:
        """Download the archive of ``part`` into ``folder``, which is empty, and say where it lies.

        Raises ``FetchFailed``, ``DiskFull`` or ``PullCancelled``.
        """
        ...


class UrlFetcher(Protocol):
    """Brings a file from an official host."""

    def fetch(self, url: str, partial: Path, size: int, job: Job) -> None:
        """Download ``url`` (``size`` bytes) to ``partial``, going on where a part of it is already there.

        Raises ``FetchFailed`` (keeping what has come), ``DiskFull`` (keeping nothing) or ``PullCancelled``.
        """
        ...


class Progress(Protocol):
    """Shows how far a pull is.  Called from several threads, some times a second, also while nothing moves.

    Either method may raise ``PullCancelled`` to end the pull; what is complete is kept.
    """

    def update(self, done: int, total: int) -> None:
        """``done`` of ``total`` bytes are here."""
        ...

    def say(self, text: str) -> None:
        """Show a line that stays."""
        ...


class Silent:
    """Shows nothing."""

    def update(self, done: int, total: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass
