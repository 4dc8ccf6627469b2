"""Several sessions in step: their forwards through the thinker are run together, so that its weights are read once.

The sessions are slots of one cache.  Each asks for its forwards as if it were alone (:mod:`~.duplex`); those that wait
at the same time are padded to one batch.  Towers, talker and token2wav run for each session by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import torch

from .draws import Draws
from .driving import result
from .duplex import Duplex
from .duplex_settings import DuplexSettings
from .model import OmniModel
from .pieces import Feed, Piece, Work
from .thinker import Step

T = TypeVar("T")


class Lockstep:
    """Sessions that share a cache.  ``sessions[i]`` is slot ``i``; each may also be used by itself."""

    def __init__(
        self, model: OmniModel, settings: Sequence[DuplexSettings], draws: Sequence[Draws | None] | None = None
    ) -> None:
        self.model = model
        positions = max(each.positions for each in settings)
        self.cache = model.thinker.cache(positions, slots=len(settings))
        given = [None] * len(settings) if draws is None else list(draws)
        self.sessions = [
            Duplex(model, each, draws=draw, cache=self.cache, slot=slot)
            for slot, (each, draw) in enumerate(zip(settings, given, strict=True))
        ]

    def together(self, works: Mapping[int, Work[T]]) -> Mapping[int, T]:
        """Run a part of the work of some sessions, by index, that gives out no pieces; what each of them returns."""
        results: dict[int, T] = {}
        for _ in self._run(works, results):
            raise AssertionError("only generating gives out pieces")
        return results

    def generate(self, works: Mapping[int, Work[None]]) -> Iterator[tuple[int, Piece]]:
        """Run :meth:`Duplex.generating` of some sessions, by index: their pieces as they come."""
        return self._run(works, {})

    def alone(self, index: int, work: Work[T]) -> T:
        """Run a part of one session's work that gives out no pieces."""
        return result(work, self.sessions[index].run)

    def _run(self, works: Mapping[int, Work[T]], results: dict[int, T]) -> Iterator[tuple[int, Piece]]:
        answers: dict[int, Step | None] = dict.fromkeys(sorted(works))
        while answers:
            asked: dict[int, Feed] = {}
            for index, answer in answers.items():
                item: Feed | Piece | None = None
                while not isinstance(item, Feed):
                    try:
                        item = works[index].send(answer)
                    except StopIteration as end:
                        results[index] = end.value
                        break
                    answer = None
                    if isinstance(item, Feed):
                        asked[index] = item
                    else:
                        yield index, item
            answers = dict(self._forward(asked)) if asked else {}

    def _forward(self, asked: Mapping[int, Feed]) -> Iterator[tuple[int, Step]]:
        """One batch of what the sessions ask for, padded behind."""
        embeds = [feed.embeds[0] for feed in asked.values()]
        counts = [rows.shape[0] for rows in embeds]
        batch = torch.nn.utils.rnn.pad_sequence(embeds, batch_first=True)
        step: Step = self.model.thinker(batch, self.cache, counts, slots=list(asked))
        for row, index in enumerate(asked):
            self.sessions[index].counted()
            yield index, Step(step.logits[row : row + 1], step.hidden[row : row + 1])
