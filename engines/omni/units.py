"""The table of units: what lies where in the thinker's cache.

The cache holds a protected beginning (the system prompt) and then the units without a gap, so that a unit's place
follows from the lengths before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast


class UnitKind(StrEnum):
    """What a unit was fed with."""

    AUDIO = "audio"
    VIDEO = "video"
    OMNI = "omni"
    TEXT = "text"

    @classmethod
    def of(cls, *, audio: bool, video: bool) -> UnitKind:
        """The kind of a unit with or without audio and pictures."""
        if audio:
            return cls.OMNI if video else cls.AUDIO
        return cls.VIDEO if video else cls.TEXT


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of the context.

    ``length`` counts cache positions from ``<unit>`` to ``</unit>``; ``at_ms`` is the media time at which it began;
    ``ids`` and ``text`` are what was said in it, without control tokens.  ``copied_at_ms`` is the media time of the
    context when the unit was put back into it, if it was.
    """

    id: int
    length: int
    kind: UnitKind
    is_listen: bool
    text: str
    ids: tuple[int, ...]
    at_ms: int
    copied_at_ms: int | None = None

    @property
    def came_ms(self) -> int:
        """The media time since which it is in the context: what was put back counts from then on."""
        return max(self.at_ms, self.copied_at_ms or 0)


class UnitTable:
    """The units in the cache, oldest first, behind ``protected`` positions."""

    def __init__(self) -> None:
        self.protected = 0
        self._units: list[Unit] = []

    def __len__(self) -> int:
        return len(self._units)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units)

    def __getitem__(self, index: int) -> Unit:
        return self._units[index]

    @property
    def end(self) -> int:
        """The position behind the last unit."""
        return self.protected + sum(unit.length for unit in self._units)

    def start(self, index: int) -> int:
        """The position of the first token of the unit at ``index``; ``len(self)`` gives the end."""
        return self.protected + sum(unit.length for unit in self._units[:index])

    def append(self, unit: Unit) -> None:
        """Take in the newest unit."""
        self._units.append(unit)

    def longest_here(self) -> list[int]:
        """Indices of all units but the newest, in the order in which they are to be forgotten."""
        return sorted(range(len(self._units) - 1), key=lambda index: self._units[index].came_ms)

    def runs(self, indices: Iterable[int]) -> list[tuple[int, int]]:
        """The positions of these units (ascending) as runs without a gap: where each starts, and its length."""
        runs: list[tuple[int, int]] = []
        for index in indices:
            start, length = self.start(index), self._units[index].length
            if runs and sum(runs[-1]) == start:
                runs[-1] = runs[-1][0], runs[-1][1] + length
            else:
                runs.append((start, length))
        return runs

    def drop(self, indices: Iterable[int]) -> list[Unit]:
        """Forget these units and return them."""
        going = set(indices)
        dropped = [unit for index, unit in enumerate(self._units) if index in going]
        self._units = [unit for index, unit in enumerate(self._units) if index not in going]
        return dropped

    def insert(self, unit: Unit) -> int:
        """Put a unit of an earlier time in its place and return its index."""
        index = bisect_left(self._units, (unit.at_ms, unit.id), key=lambda other: (other.at_ms, other.id))
        self._units.insert(index, unit)
        return index

    def between(self, start_ms: int, end_ms: int) -> range:
        """Indices of the units that began in ``[start_ms, end_ms)``."""
        times = [unit.at_ms for unit in self._units]
        return range(bisect_left(times, start_ms), bisect_left(times, end_ms))

    def reset(self) -> None:
        """Forget everything."""
        self.protected = 0
        self._units = []

    def snapshot(self) -> dict[str, Any]:
        """The table as plain values."""
        return {"protected": self.protected, "units": [_plain(unit) for unit in self._units]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.protected = int(snapshot["protected"])
        self._units = [unit_of(values) for values in cast("Sequence[dict[str, Any]]", snapshot["units"])]


def _plain(unit: Unit) -> dict[str, Any]:
    return {**asdict(unit), "kind": unit.kind.value, "ids": list(unit.ids)}


def unit_of(values: dict[str, Any]) -> Unit:
    """A unit from its plain values."""
    ids = tuple(int(token) for token in cast("Sequence[int]", values["ids"]))
    return Unit(
        id=int(values["id"]),
        length=int(values["length"]),
        kind=UnitKind(values["kind"]),
        is_listen=bool(values["is_listen"]),
        text=str(values["text"]),
        ids=ids,
        at_ms=int(values["at_ms"]),
        copied_at_ms=None if values["copied_at_ms"] is None else int(values["copied_at_ms"]),
    )
