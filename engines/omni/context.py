"""What a session forgets so that it may go on: policies over the table of units, and their application to the cache.

The decision is pure (:func:`overdue`): which units are to go.  Those that are longest in the context go first, one that
was put back into it counts from then on, and the newest always stays.  Keys of what stays are rotated to their new
positions in float32; values are untouched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator
from torch import Tensor

from .kv import KVCache
from .pieces import Work, forward
from .thinker import Thinker
from .tokens import Tokens
from .units import Unit, UnitTable

P = TypeVar("P", bound="_Policy")


class _Policy(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Off(_Policy):
    """Forget nothing: the session ends when its cache is full."""

    policy: Literal["off"] = "off"


class Basic(_Policy):
    """Beyond ``high`` positions, or ``units`` units, the oldest units go until at most ``low`` positions are left."""

    policy: Literal["basic"] = "basic"
    high: PositiveInt = 8000
    low: PositiveInt = 6000
    units: PositiveInt | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        return _ordered(self, self.low, self.high)


class Previous(_Policy):
    """At most ``units`` units; the words of dropped ones, at most ``tokens`` of them, stay in the system prompt."""

    policy: Literal["context"] = "context"
    units: PositiveInt = 24
    tokens: int = Field(default=500, ge=0)
    marker: str = "\n\nprevious: "


class Recent(_Policy):
    """Units that began more than ``seconds`` before the newest go, and beyond ``high`` positions the oldest down to
    ``low``.

    They go together once the oldest is ``batch`` seconds over: what stays moves each time, and a key that is rounded to
    bfloat16 every second for two minutes is 5 % off its place, one that moves twelve times 0.9 %.
    """

    policy: Literal["time"] = "time"
    seconds: float = Field(default=120.0, gt=0)
    batch: float = Field(default=10.0, ge=0)
    high: PositiveInt | None = None
    low: PositiveInt | None = None
    """Without it as ``high``."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        return _ordered(self, self.low, self.high)


def _ordered(policy: P, low: int | None, high: int | None) -> P:
    if low is not None and (high is None or low > high):
        raise ValueError(f"low ({low}) must not lie above high ({high})")
    return policy


Policy = Annotated[Off | Basic | Previous | Recent, Field(discriminator="policy")]


def overdue(policy: Off | Basic | Previous | Recent, table: UnitTable) -> list[int]:
    """Indices of the units that have to go, ascending."""
    order = table.longest_here()
    match policy:
        case Off():
            return []
        case Basic():
            count = 0
            if table.end > policy.high:
                count = _beyond(table, order, policy.low)
            if policy.units is not None:
                count = max(count, len(table) - policy.units)
        case Previous():
            count = len(table) - policy.units
        case Recent():
            count = 0
            came = [table[index].came_ms for index in order]
            oldest = table[len(table) - 1].at_ms - round(policy.seconds * 1000) if came else 0
            if came and came[0] < oldest - round(policy.batch * 1000):
                count = bisect_left(came, oldest)
            if policy.high is not None and table.end > policy.high:
                count = max(count, _beyond(table, order, policy.low or policy.high))
    return sorted(order[: max(0, count)])


def _beyond(table: UnitTable, order: Sequence[int], limit: int) -> int:
    """How many units have to go, in that order, for the rest to fit into ``limit`` positions."""
    end, count = table.end, 0
    while end > limit and count < len(order):
        end -= table[order[count]].length
        count += 1
    return count


@dataclass
class Memory:
    """What a session knows about the beginning of its context.

    The protected positions are ``prefix`` (prompt and reference voice), the words of dropped units if there are any,
    and ``suffix`` (embeddings ``[1, n, hidden]``, computed again whenever words are put before it).
    """

    policy: Off | Basic | Previous | Recent
    prefix: int = 0
    suffix: Tensor | None = None
    dropped: int = 0
    """Positions that were dropped without a trace."""
    previous: tuple[int, ...] = ()
    """Marker and words as they stand in the context."""
    previous_text: str = ""

    def reset(self) -> None:
        """Forget the session."""
        self.prefix, self.suffix, self.dropped, self.previous, self.previous_text = 0, None, 0, (), ""

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values; the suffix follows from the prompt."""
        return {
            "prefix": self.prefix,
            "suffix": None if self.suffix is None else self.suffix.to("cpu", copy=True),
            "dropped": self.dropped,
            "previous": list(self.previous),
            "previous_text": self.previous_text,
        }

    def restore(self, snapshot: dict[str, Any], device: torch.device) -> None:
        """Go on from a snapshot."""
        self.prefix = int(snapshot["prefix"])
        suffix: Tensor | None = snapshot["suffix"]
        self.suffix = None if suffix is None else suffix.to(device)
        self.dropped = int(snapshot["dropped"])
        self.previous = tuple(int(token) for token in snapshot["previous"])
        self.previous_text = str(snapshot["previous_text"])

    def enforce(self, table: UnitTable, cache: KVCache, slot: int, thinker: Thinker, tokens: Tokens) -> Work[bool]:
        """Drop what is overdue; whether anything was.

        Yields the forward that computes the suffix again behind the words of dropped units, where a policy keeps them.
        """
        going = overdue(self.policy, table)
        if going:
            yield from self.forget(going, table, cache, slot, thinker, tokens)
        return bool(going)

    def make_room(
        self, positions: int, table: UnitTable, cache: KVCache, slot: int, thinker: Thinker, tokens: Tokens
    ) -> Work[None]:
        """Drop so many units that ``positions`` more fit; none where that would not be enough."""
        lacking = positions - cache.room(slot)
        if lacking <= 0 or isinstance(self.policy, Off):
            return
        order = table.longest_here()
        for count in range(1, len(order) + 1):
            going = sorted(order[:count])
            gone = [table[index] for index in going]
            longer = len(self._words(gone, tokens)) - len(self.previous)  # what is kept of them takes room too
            if sum(unit.length for unit in gone) - longer >= lacking:
                yield from self.forget(going, table, cache, slot, thinker, tokens)
                return

    def forget(
        self, going: Sequence[int], table: UnitTable, cache: KVCache, slot: int, thinker: Thinker, tokens: Tokens
    ) -> Work[None]:
        """Drop the units at these indices (ascending), as the policy drops them."""
        start, length = table.protected, 0
        runs = table.runs(going)
        gone = table.drop(going)
        for at, count in reversed(runs):
            if at == start:
                length = count
            else:
                cache.evict(slot, at, count)
        previous = self._words(gone, tokens)
        if not isinstance(self.policy, Previous):
            self.dropped += sum(count for _, count in runs)
        if not isinstance(self.policy, Previous) or previous == self.previous:
            cache.evict(slot, start, length)
            return
        new = _never_dropped(gone)
        self.previous_text += "".join(unit.text for unit in new)
        marker = len(tokens.encode(self.policy.marker))
        if len(previous) - marker < max(0, len(self.previous) - marker) + sum(len(unit.ids) for unit in new):
            self.previous_text = tokens.decode(previous[marker:])  # the oldest words are over the limit
        self.previous = previous
        kept = cache.copy_out(slot, start + length, cache.length(slot))
        cache.truncate(slot, self.prefix)
        embeds = thinker.embed(list(self.previous))[None]
        if self.suffix is not None:
            embeds = torch.cat((embeds, self.suffix), dim=1)
        yield from forward(embeds)
        table.protected = cache.length(slot)
        cache.copy_in(slot, table.protected, kept)

    def _words(self, gone: Sequence[Unit], tokens: Tokens) -> tuple[int, ...]:
        """What :attr:`previous` will be when these units are dropped."""
        if not isinstance(self.policy, Previous):
            return self.previous
        marker = tokens.encode(self.policy.marker)
        words = [*self.previous[len(marker) :], *(token for unit in _never_dropped(gone) for token in unit.ids)]
        words = words[max(0, len(words) - self.policy.tokens) :]
        return (*marker, *words) if words else ()


def _never_dropped(units: Sequence[Unit]) -> list[Unit]:
    """Without those that were put back: their words were kept when they went for the first time."""
    return [unit for unit in units if unit.copied_at_ms is None]
