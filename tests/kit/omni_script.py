"""Sessions over the recorded checkpoint in which the test says what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from realtime_venus.engines.base import FloatPcm
from realtime_venus.engines.omni.behaviour import Behaviour
from realtime_venus.engines.omni.draws import Draws
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.duplex_settings import DuplexSettings
from realtime_venus.engines.omni.model import OmniModel
from realtime_venus.engines.omni.pieces import Piece, PrivatePiece, SpeechPiece, TextPiece, UnitEnd
from torch import Tensor

from . import golden
from .omni_replay import base, model, recorded_sessions, voice

STEPS = 2
"""Of the flow: quick, and rough enough for a test."""
VENUS, HUB, DEMO = Behaviour.VENUS, Behaviour.HUB, Behaviour.DEMO

P = TypeVar("P", TextPiece, SpeechPiece, PrivatePiece)


def second(number: int) -> FloatPcm:
    """A second of the recording."""
    return golden.microphone()[16_000 * number : 16_000 * (number + 1)]


@cache
def prompt() -> tuple[str, str, str]:
    """Beginning and end of the system prompt, and the file of the reference voice."""
    record = golden.record(next(recorded_sessions()))
    return record["prefix"], record["suffix"], record["ref_audio"]


def words(text: str) -> list[int]:
    """Ids that may be sampled as words."""
    tokens = model().tokens
    return [token for token in tokens.encode_plain(text) if token not in tokens.forbidden]


def told(text: str) -> str:
    """What :func:`words` are shown as."""
    return model().tokens.decode(words(text))


def named(name: str) -> int:
    """The id of a protocol token by the name of its field; the test is skipped on a set that has no such token."""
    found = getattr(model().tokens.ids, name)
    if found is None:
        pytest.skip(f"the checkpoint of this set has no token for {name}")
    assert isinstance(found, int)
    return found


@dataclass(frozen=True)
class Unit:
    """What a unit gave."""

    pieces: list[Piece]
    end: UnitEnd

    def of(self, kind: type[P]) -> list[P]:
        return [piece for piece in self.pieces if isinstance(piece, kind)]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.of(TextPiece))

    @property
    def pcm(self) -> FloatPcm:
        heard = [piece.pcm for piece in self.of(SpeechPiece)]
        return np.concatenate(heard) if heard else np.zeros(0, np.float32)


def session(
    behaviour: Behaviour = VENUS,
    *,
    speaks: bool = False,
    of: OmniModel | None = None,
    draws: Draws | None = None,
    prepared: bool = True,
    **settings: Any,
) -> Duplex:
    """A session, ready for its first unit."""
    given: dict[str, Any] = {"positions": 2048, **settings}
    wanted = DuplexSettings(behaviour=behaviour, speaks=speaks, **given)
    made = Duplex(of or model(), wanted, draws=draws)
    if prepared:
        prepare(made)
    return made


def prepare(made: Duplex) -> None:
    """Prepare a session with the recorded prompt and voice."""
    prefix, suffix, name = prompt()
    learnt = base(name, STEPS) if made.settings.speaks else None
    made.prepare(prefix, suffix, voice(name), learnt)


def steer(said: Sequence[int]) -> Any:
    """Makes the model say that, and then end the unit."""
    script = iter(said)

    def steered(logits: Tensor) -> Tensor:
        wanted = logits.clone()
        wanted[next(script, named("chunk_eos"))] += 1000.0
        return wanted

    return steered


def generate(made: Duplex, said: Sequence[int] | None = None, **options: Any) -> Unit:
    """Let the model say that (``None``: whatever it wants)."""
    if said is not None:
        options["steer"] = steer(said)
    pieces = list(made.generate(**options))
    end = pieces.pop()
    assert isinstance(end, UnitEnd)
    return Unit(pieces, end)


def unit(made: Duplex, number: int, said: Sequence[int] | None = None, **options: Any) -> Unit:
    """A whole unit that hears a second of the recording."""
    made.prefill(second(number))
    done = generate(made, said, **options)
    made.finalise()
    return done


def listening() -> list[int]:
    """What a model says that listens."""
    return [named("listen")]


def speaking(text: str, *ends: str) -> list[int]:
    """What a model says that speaks these words, and then the named tokens."""
    return [named("speak"), *words(text), *map(named, ends)]


class ScriptedCodes:
    """Draws in which the talker ends its speech where the test says so."""

    def __init__(self, *ends: int) -> None:
        self._ends = set(ends)
        self._drawn = 0

    def text(self) -> tuple[float, float]:
        return 0.5, 0.5

    def code(self) -> float:
        self._drawn += 1
        # the end of speech is the last code of all: the end of the unit interval draws it, where it may be drawn
        return 1 - 1e-12 if self._drawn - 1 in self._ends else 0.5


def close(ours: Tensor, other: Tensor, atol: float = 1e-4) -> bool:
    """Whether two tensors of one shape are equal but for rounding."""
    return ours.shape == other.shape and bool(torch.allclose(ours, other, atol=atol))
