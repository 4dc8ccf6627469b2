"""State of a session around a scripted core: what a snapshot holds, and how another session goes on from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from realtime_venus.engines.base import (
    EngineError,
    EngineEvent,
    Speech,
    Text,
    TurnEnded,
    UnitDone,
)
from realtime_venus.engines.omni.pieces import Piece, TextPiece
from realtime_venus.engines.outbox import Outbox

from ...kit.omni_session import Stage, end, says


async def test_a_session_goes_on_from_a_snapshot_and_closes_the_turn_that_was_open() -> None:
    stage = Stage(says("a", 240))
    stage.units()
    stage.session.inject("a result")
    stage.work()
    snapshot = stage.session.snapshot()
    await stage.told()
    other = Stage(says("b", 240, turn=True))
    other.session.restore(snapshot)
    other.units(2)
    events = await other.told()
    assert other.core.restored is not None
    assert other.core.restored["cache"].tolist() == [0, 1, 2]
    assert other.core.injected == ["a result"]
    assert other.core.forced[0] is True
    assert {event.utterance_id for event in events if isinstance(event, Speech)} == {"u2"}


async def test_a_session_that_has_said_something_else_ends_it_and_uses_no_name_twice() -> None:
    stage = Stage(says("a", 240, turn=True), says("b", 240, turn=True), says("c", 240), says("d", 240, turn=True))
    stage.units()
    snapshot = stage.session.snapshot()
    stage.units(2)
    stage.session.restore(snapshot)
    stage.units()
    events = await stage.told()
    assert [(event.utterance_id, event.text) for event in events if isinstance(event, Text)] == [
        ("u1", "a"),
        ("u2", "b"),
        ("u3", "c"),
        ("u4", "d"),
    ]
    assert [event.utterance_id for event in events if isinstance(event, TurnEnded)] == ["u1", "u2", "u3", "u4"]


async def test_what_waits_is_not_left_out_of_a_snapshot() -> None:
    stage = Stage()
    stage.units()
    stage.push()  # as when the engine's thread is with another session
    stage.session.type("a question")
    stage.session.inject("a result")
    other = Stage()
    other.session.restore(stage.session.snapshot())
    other.units()
    assert [feed["text"] for feed in other.core.fed] == [None, "a question"]
    assert other.core.injected == ["a result"]
    await other.told()
    await stage.told()


async def test_a_question_that_waits_for_the_end_of_a_turn_is_in_the_snapshot() -> None:
    stage = Stage(says("a", 240))
    stage.units()
    stage.session.interrupt("u1")
    stage.session.type("a question")
    stage.work()
    other = Stage()
    other.session.restore(stage.session.snapshot())
    with pytest.raises(EngineError, match="busy with another snapshot"):
        other.session.snapshot()
    other.units()
    assert [feed["text"] for feed in other.core.fed] == [None, "a question"]
    await stage.told()
    await other.told()


async def test_what_is_no_snapshot_of_this_engine_is_refused_at_once() -> None:
    stage = Stage()
    with pytest.raises(ValueError, match="snapshot"):
        stage.session.restore(b"nonsense")
    with pytest.raises(EngineError, match="not begun"):
        stage.session.snapshot()
    await stage.told()


async def test_a_busy_session_gives_no_snapshot_and_does_not_hang() -> None:
    caught: list[str] = []

    def busy() -> Iterator[Piece]:
        with pytest.raises(EngineError, match="busy") as error:
            stage.session.snapshot()
        caught.append(str(error.value))
        yield end(listen=True)

    stage = Stage(busy)
    stage.units()
    assert len(caught) == 1
    assert stage.session.snapshot(), "the unit is over"
    await stage.told()


async def test_a_session_is_at_rest_once_it_has_said_that_a_unit_is_done() -> None:
    taken: list[bytes] = []

    class Told(Outbox):
        def put(self, event: EngineEvent) -> None:
            super().put(event)
            if isinstance(event, UnitDone):
                taken.append(stage.session.snapshot())

    stage = Stage(outbox=Told())
    stage.units(2)
    assert len(taken) == 2
    await stage.told()


async def test_a_unit_that_broke_leaves_no_snapshot() -> None:
    def breaks() -> Iterator[Piece]:
        yield TextPiece("half")
        raise RuntimeError("odd")

    stage = Stage(breaks)
    stage.units()
    with pytest.raises(EngineError, match="broke in the middle"):
        stage.session.snapshot()
    await stage.told()
