"""What is sent and in whose name, with a room that writes it down."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from livekit import rtc
from realtime_venus.plugin.rooms.livekit.captions import Caption
from realtime_venus.plugin.rooms.livekit.wire import Wire


class Local:
    """Our own participant."""

    identity = "venus"

    def __init__(self) -> None:
        self.texts: list[tuple[str, str, dict[str, str]]] = []
        self.packets: list[tuple[str, list[str]]] = []
        self.attributes: list[dict[str, str]] = []
        self.hangs = False

    async def stream_text(self, *, topic: str, attributes: dict[str, str], sender_identity: str) -> Any:
        assert topic == "lk.transcription"

        async def write(text: str) -> None:
            self.texts.append((sender_identity, text, attributes))

        async def aclose() -> None:
            return

        return SimpleNamespace(write=write, aclose=aclose)

    async def publish_data(
        self, payload: str, *, reliable: bool, destination_identities: list[str], topic: str
    ) -> None:
        assert (reliable, topic) == (True, "venus.events")
        if self.hangs:
            await asyncio.Event().wait()
        self.packets.append((payload, destination_identities))

    async def set_attributes(self, attributes: dict[str, str]) -> None:
        self.attributes.append(attributes)


def wire_of(local: Local, *here: str) -> Wire:
    room = SimpleNamespace(local_participant=local, remote_participants=dict.fromkeys(here))
    return Wire(cast(rtc.Room, room), 8, lambda identity: f"track of {identity or 'venus'}")


async def sent(sending: Coroutine[Any, Any, None], timeout_s: float = 1.0) -> None:
    """Run one of the wire's loops until it has nothing more to do."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await sending


async def test_captions_go_out_in_the_name_of_who_spoke() -> None:
    local = Local()
    wire = wire_of(local, "alice")
    wire.caption(Caption("s1", "Who are you?", final=True, speaker="alice"))
    wire.caption(Caption("s2", "I am Venus.", final=False))
    await sent(wire.send_captions())
    assert [(who, text) for who, text, _ in local.texts] == [("alice", "Who are you?"), ("venus", "I am Venus.")]
    assert [told["lk.transcribed_track_id"] for *_, told in local.texts] == ["track of alice", "track of venus"]
    assert [told["lk.transcription_final"] for *_, told in local.texts] == ["true", "false"]


async def test_what_somebody_said_who_has_left_is_nobody_elses() -> None:
    local = Local()
    wire = wire_of(local, "alice")
    wire.caption(Caption("s1", "Goodbye.", final=True, speaker="bob"))
    await sent(wire.send_captions())
    assert local.texts == []
    assert wire.counters.captions_dropped == 1


async def test_an_unsent_caption_gives_way_to_the_next_of_its_segment() -> None:
    local = Local()
    wire = wire_of(local, "alice")
    for text in ("what", "what is", "What is it?"):
        wire.caption(Caption("s1", text, final=text.endswith("?"), speaker="alice"))
    await sent(wire.send_captions())
    assert [text for _, text, _ in local.texts] == ["What is it?"]
    assert wire.counters.captions_dropped == 0


async def test_too_many_captions_cost_the_oldest_unfinished_one() -> None:
    local = Local()
    wire = wire_of(local)
    wire.caption(Caption("done", "done", final=True))
    for number in range(64):
        wire.caption(Caption(f"s{number}", str(number), final=False))
    await sent(wire.send_captions())
    assert [text for _, text, _ in local.texts] == ["done", *map(str, range(1, 64))]
    assert wire.counters.captions_dropped == 1


async def test_nothing_is_sent_while_the_connection_is_away() -> None:
    local = Local()
    wire = wire_of(local)
    wire.state("listening")
    await sent(wire.send_state())
    wire.connection(up=False)
    wire.state("thinking")
    wire.state("speaking")
    wire.event({"type": "agent.state", "state": "speaking"})
    await sent(wire.send_state())
    await sent(wire.send_events())
    assert local.packets == []
    wire.connection(up=True)
    await sent(wire.send_state())
    assert local.attributes == [{"lk.agent.state": "listening"}, {"lk.agent.state": "speaking"}]


async def test_the_state_is_told_again_after_a_break() -> None:
    local = Local()
    wire = wire_of(local)
    wire.state("listening")
    await sent(wire.send_state())
    wire.connection(up=False)
    wire.connection(up=True)
    await sent(wire.send_state())
    assert local.attributes == [{"lk.agent.state": "listening"}] * 2


async def test_a_newcomer_is_welcomed_alone_and_one_too_many_is_counted() -> None:
    local = Local()
    wire = wire_of(local, "alice")
    for number in range(33):
        wire.welcome(f"guest {number}", [{"type": "session.started"}])
    await sent(wire.send_welcomes())
    assert [to for _, to in local.packets] == [[f"guest {number}"] for number in range(32)]
    assert wire.counters.unwelcomed == 1


async def test_what_cannot_be_sent_in_time_is_given_up() -> None:
    local = Local()
    local.hangs = True
    wire = wire_of(local)
    wire.event({"type": "latency"})
    await sent(wire.send_events(), 11.0)
    assert wire.counters.failed == 1
