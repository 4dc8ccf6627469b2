from __future__ import annotations

import pytest
from realtime_venus.plugin.rooms.livekit.people import People, Person, is_agent


def filled(people: People) -> People:
    people.put(Person("bob", joined_ms=2000))
    people.put(Person("alice", joined_ms=1000))
    people.put(Person("robot", agent=True, joined_ms=10))
    people.put(Person("+49", telephone=True, joined_ms=3000))
    return people


def test_everybody_but_agents_is_heard_in_the_order_of_joining() -> None:
    people = filled(People("all"))
    assert people.heard == people.humans == ("alice", "bob", "+49")
    assert "robot" in people.identities


def test_the_first_is_followed_by_the_next() -> None:
    people = filled(People("first"))
    assert people.heard == ("alice",)
    people.put(Person("alice", joined_ms=1000))
    assert people.heard == ("alice",)
    people.remove("alice")
    assert people.heard == ("bob",)


def test_named_ones_are_heard_when_they_are_there() -> None:
    people = filled(People(("bob", "carol", "robot")))
    assert people.heard == ("bob",)
    people.put(Person("carol", joined_ms=9000))
    assert people.heard == ("bob", "carol")


def test_one_who_turns_out_to_be_an_agent_is_heard_no_more() -> None:
    people = filled(People("all"))
    people.put(Person("bob", agent=True, joined_ms=2000))
    assert people.heard == ("alice", "+49")


@pytest.mark.parametrize(
    ("attributes", "agent"),
    [
        ({}, False),
        ({"name": "lk.agent.state"}, False),
        ({"lk.agent.state": "listening"}, True),
        ({"lk.agent.name": "x"}, True),
        ({"lk.publish_on_behalf": "x"}, True),
    ],
)
def test_agents_are_known_by_their_attributes(attributes: dict[str, str], agent: bool) -> None:
    assert is_agent(attributes) is agent


def test_those_who_are_heard_are_obeyed_or_anyone_but_never_an_agent() -> None:
    strict, lenient = filled(People("first")), filled(People("first", "anyone"))
    assert [strict.may_command(one) for one in ("alice", "bob", "robot", "nobody")] == [True, False, False, False]
    assert [lenient.may_command(one) for one in ("alice", "bob", "robot", "nobody")] == [True, True, False, False]


def test_telephones_report_no_playback() -> None:
    people = People("all")
    assert people.reports_playback
    people.put(Person("+49", telephone=True))
    assert not people.reports_playback
    people.put(Person("alice"))
    assert people.reports_playback


def test_what_is_open_to_some_is_open_to_them_alone_and_never_to_an_agent() -> None:
    people = filled(People("first"))
    names = ("alice", "bob", "robot", "nobody")
    assert [people.allows("nobody", one) for one in names] == [False, False, False, False]
    assert [people.allows("listened", one) for one in names] == [True, False, False, False]
    assert [people.allows(("bob", "robot"), one) for one in names] == [False, True, False, False]
