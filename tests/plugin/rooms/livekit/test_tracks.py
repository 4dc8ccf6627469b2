from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from livekit import rtc
from realtime_venus.plugin.rooms.livekit import LiveKitOptions
from realtime_venus.plugin.rooms.livekit.people import People, Person
from realtime_venus.plugin.rooms.livekit.pictures import LatestPicture
from realtime_venus.plugin.rooms.livekit.tracks import Tracks


@dataclass
class Publication:
    """A microphone whose audio never comes: only who is subscribed to is looked at."""

    sid: str
    subscribed: bool = False
    kind: Any = rtc.TrackKind.KIND_AUDIO
    source: Any = rtc.TrackSource.SOURCE_MICROPHONE
    track: None = None
    muted: bool = False

    def set_subscribed(self, subscribed: bool) -> None:
        self.subscribed = subscribed


@dataclass
class Participant:
    identity: str
    track_publications: dict[str, Publication]


@dataclass
class House:
    """A room with people who come, publish a microphone each, and go."""

    people: People
    remote_participants: dict[str, Participant] = field(default_factory=dict[str, Participant])

    def come(self, identity: str, joined_ms: int = 0) -> Publication:
        made = Publication(f"TR_{identity}")
        self.remote_participants[identity] = Participant(identity, {made.sid: made})
        self.people.put(Person(identity, joined_ms=joined_ms))
        return made

    def go(self, identity: str) -> None:
        del self.remote_participants[identity]
        self.people.remove(identity)

    def heard(self) -> list[str]:
        every = [one for person in self.remote_participants.values() for one in person.track_publications.values()]
        return [one.sid.removeprefix("TR_") for one in every if one.subscribed]


def tracks_of(house: House, options: LiveKitOptions) -> Tracks:
    def spawn(work: Coroutine[Any, Any, None], _name: str) -> asyncio.Task[None]:
        raise AssertionError("there is nothing to read")

    def nothing(*_: object) -> None:
        raise AssertionError("there is nothing to hear")

    made = Tracks(cast(Any, house), house.people, options, LatestPicture(0), lambda: 0.0, nothing, nothing)
    made.begin(spawn, exclusive=True)
    return made


def test_so_many_are_heard_and_the_next_when_one_leaves(caplog: pytest.LogCaptureFixture) -> None:
    house = House(People("all"))
    tracks = tracks_of(house, LiveKitOptions(max_listened=2))
    for place, identity in enumerate(("ann", "bob", "cat", "dan")):
        house.come(identity, joined_ms=1000 * place)
        tracks.sync()
    assert house.heard() == ["ann", "bob"]
    tracks.sync()
    assert tracks.counters.waiting == 2
    assert caplog.messages.count("more microphones than are listened to") == 1
    house.go("ann")
    tracks.sync()
    assert house.heard() == ["bob", "cat"]
    assert tracks.counters.waiting == 2, "dan waited already"


def test_who_is_heard_is_not_put_out_by_one_who_was_here_before() -> None:
    house = House(People("all"))
    tracks = tracks_of(house, LiveKitOptions(max_listened=1))
    house.come("late", joined_ms=2000)
    tracks.sync()
    house.come("early", joined_ms=1000)
    tracks.sync()
    assert house.heard() == ["late"]
