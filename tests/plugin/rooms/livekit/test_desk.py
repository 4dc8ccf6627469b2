from __future__ import annotations

from typing import Any

import pytest
from livekit import rtc
from realtime_venus.plugin.rooms.base import Command, Interrupt, Say, TypeText
from realtime_venus.plugin.rooms.livekit import LiveKitOptions
from realtime_venus.plugin.rooms.livekit.desk import Desk
from realtime_venus.plugin.rooms.livekit.people import People, Person
from realtime_venus.plugin.rooms.livekit.status import Status


def desk_of(**options: Any) -> Desk:
    """In a room with alice, who is listened to, and bob, who is not."""
    people = People("first")
    for joined_ms, identity in enumerate(("alice", "bob")):
        people.put(Person(identity, joined_ms=joined_ms))

    async def acquaint(_identity: str) -> None:
        return

    return Desk(people, LiveKitOptions.model_validate(options), Status(), lambda _stretch, _ms: None, acquaint)


async def asked(desk: Desk, who: str, method: str, payload: str = "{}") -> Command | int:
    """What a request leads to: a command, or the code of a refusal."""
    try:
        await desk.request(rtc.RpcInvocationData("id", who, payload, 10.0, method))
    except rtc.RpcError as error:
        return error.code
    return await anext(desk.commands())


SAY = ("venus.say", '{"text": "I am the agent"}')


@pytest.mark.parametrize(
    ("say_from", "alice", "bob"),
    [
        (None, 403, 403),
        ("nobody", 403, 403),
        ("listened", Say("I am the agent"), 403),
        (["bob"], 403, Say("I am the agent")),
    ],
)
async def test_who_may_make_it_speak_is_a_setting_and_nobody_may_by_default(
    say_from: object, alice: object, bob: object
) -> None:
    given = {} if say_from is None else {"say_from": say_from}
    assert await asked(desk_of(**given), "alice", *SAY) == alice
    desk = desk_of(**given)
    assert await asked(desk, "bob", *SAY) == bob
    assert desk.counters.refused_requests == (bob == 403)


@pytest.mark.parametrize(
    ("interrupt_from", "alice", "bob"),
    [(None, Interrupt(), 403), ("nobody", 403, 403), (["bob"], 403, Interrupt())],
)
async def test_who_may_silence_it_is_a_setting_and_those_who_are_listened_to_may_by_default(
    interrupt_from: object, alice: object, bob: object
) -> None:
    given = {} if interrupt_from is None else {"interrupt_from": interrupt_from}
    assert await asked(desk_of(**given), "alice", "venus.interrupt") == alice
    assert await asked(desk_of(**given), "bob", "venus.interrupt") == bob


async def test_lines_of_chat_that_lead_to_nothing_are_counted() -> None:
    desk = desk_of()
    await desk.typed("alice", "Hello?")
    await desk.typed("bob", "Hear me")
    await desk.typed("alice", "  ")
    assert desk.counters.ignored_lines == 2
    assert await anext(desk.commands()) == TypeText("Hello?", "alice")
