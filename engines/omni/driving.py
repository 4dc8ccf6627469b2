"""Running the work of one session: its forwards one by one, its pieces to whoever asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from .pieces import Feed, Piece, Work
from .thinker import Step

T = TypeVar("T")

Run = Callable[[Feed], Step]


def pieces(work: Work[T], run: Run) -> Iterator[Piece]:
    """The pieces of ``work`` as they come; ``run`` does its forwards."""
    answer: Step | None = None
    while True:
        try:
            item = work.send(answer)
        except StopIteration:
            return
        answer = None
        if isinstance(item, Feed):
            answer = run(item)
        else:
            yield item


def result(work: Work[T], run: Run) -> T:
    """Run ``work`` that gives out no pieces to its end."""
    answer: Step | None = None
    while True:
        try:
            item = work.send(answer)
        except StopIteration as end:
            return end.value
        assert isinstance(item, Feed), "only generating gives out pieces"
        answer = run(item)
