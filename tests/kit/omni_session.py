"""A scripted core for sessions of the omni engine, and the engine's thread as a list of steps that a test works off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from realtime_venus.engines.base import EngineEvent, Frame, MediaUnit
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.pieces import Piece, SpeechPiece, TextPiece, UnitEnd
from realtime_venus.engines.omni.session import OmniSession, Ways
from realtime_venus.engines.outbox import Outbox

Script = Callable[[], Iterator[Piece]]


def end(*, listen: bool = False, turn: bool = False, closed: bool | None = None) -> UnitEnd:
    closed = turn if closed is None else closed
    return UnitEnd(listen, "", turn, closed, (), 0, 0, 0, 1, {"text": 1.0, "speech": 2.0})


def says(*pieces: Piece | str | int, turn: bool = False) -> Script:
    """A unit of speech: words, samples of sound, or pieces as they are."""

    def run() -> Iterator[Piece]:
        for piece in pieces:
            if isinstance(piece, str):
                yield TextPiece(piece)
            elif isinstance(piece, int):
                yield SpeechPiece(np.full(piece, 0.5, np.float32))
            else:
                yield piece
        yield end(turn=turn)

    return run


def listens() -> Iterator[Piece]:
    yield end(listen=True)


class ScriptedCore:
    """Stands where :class:`Duplex` stands: units do what ``scripts`` say, and listen when there are no more."""

    class Words:
        turn_open = False

    def __init__(self, *scripts: Script) -> None:
        self.scripts = deque(scripts)
        self.fed: list[dict[str, Any]] = []
        self.injected: list[str] = []
        self.forced: list[bool] = []
        self.restored: dict[str, Any] | None = None
        self.broken = 0
        self.resumed = 0
        self.text = ScriptedCore.Words()
        self.inject_waits = False

    def prefill(self, audio: Any = None, frames: Sequence[Any] = (), text: str | None = None, **rest: Any) -> None:
        assert torch.is_inference_mode_enabled()
        self.fed.append({"audio": audio, "frames": frames, "text": text, **rest})

    def generate(self, *, force_listen: bool = False) -> Iterator[Piece]:
        self.forced.append(force_listen)
        script = listens if force_listen or not self.scripts else self.scripts.popleft()
        for piece in script():
            if isinstance(piece, UnitEnd):
                self.text.turn_open = not (piece.turn_closed or piece.is_listen)
            yield piece

    def inject(self, text: str) -> bool:
        self.injected.append(text)
        return not self.inject_waits

    def finalise(self) -> None: ...

    def break_off(self) -> None:
        self.broken += 1

    def resume(self) -> None:
        self.resumed += 1

    def snapshot(self) -> dict[str, Any]:
        return {"cache": torch.arange(3), "open": self.text.turn_open}

    def restore(self, state: dict[str, Any]) -> None:
        self.restored = state
        self.text.turn_open = state["open"]


class Stage:
    """A session, its core, and the steps that wait for the engine's thread."""

    def __init__(
        self,
        *scripts: Script,
        sees: bool = False,
        close_timeout_s: float = 5.0,
        takes_results: bool = True,
        outbox: Outbox | None = None,
    ) -> None:
        self.core = ScriptedCore(*scripts)
        self.steps: deque[Callable[[], None]] = deque()
        self.returned: list[object] = []
        self.begun = 0
        self.index = 0
        ways = Ways(self.steps.append, self._begin, self.returned.append, "me", sees, 2, close_timeout_s, takes_results)
        self.session = OmniSession(ways, outbox or Outbox())

    def _begin(self) -> Duplex:
        self.begun += 1
        return cast("Duplex", self.core)

    def work(self) -> None:
        """Let the engine's thread do all that waits."""
        while self.steps:
            self.steps.popleft()()

    def push(self, count: int = 1, *frames: Frame) -> None:
        for _ in range(count):
            audio = np.full(16_000, self.index, np.float32)
            self.session.push(MediaUnit(self.index, self.index * 1000, audio, frames))
            self.index += 1

    def units(self, count: int = 1) -> None:
        """Units that are pushed and worked off one by one."""
        for _ in range(count):
            self.push()
            self.work()

    async def told(self) -> list[EngineEvent]:
        """Everything the session said, after it was closed."""
        self.work()
        closing = asyncio.create_task(self.session.close())
        await asyncio.sleep(0)
        self.work()
        await closing
        return [event async for event in self.session.events()]


def of(events: Sequence[EngineEvent], *kinds: type) -> list[EngineEvent]:
    return [event for event in events if isinstance(event, kinds)]
