"""Who is in the room, and whose voice, picture and commands count.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .options import Who

AGENT_ATTRIBUTES = "lk.agent."
"""Prefix of the attributes by which an agent is known that joined as an ordinary participant."""
ON_BEHALF = "lk.publish_on_behalf"
"""An avatar's attribute: it speaks for an agent."""


@dataclass(frozen=True, slots=True)
class Person:
    """A remote participant.  ``joined_ms`` is the server's time of joining, 0 when unknown."""

    identity: str
    agent: bool = False
    telephone: bool = False
    joined_ms: int = 0


def is_agent(attributes: Mapping[str, str]) -> bool:
    """Whether the attributes are those of an agent or of its avatar."""
    return any(name.startswith(AGENT_ATTRIBUTES) or name == ON_BEHALF for name in attributes)


class People:
    """The participants, without ourselves."""

    def __init__(
        self, listen_to: Literal["all", "first"] | tuple[str, ...], obey: Literal["heard", "anyone"] = "heard"
    ) -> None:
        self._listen_to = listen_to
        self._obey = obey
        self._here: dict[str, Person] = {}

    def put(self, person: Person) -> None:
        """Somebody came, or is known better now.  Who was first stays first."""
        self._here[person.identity] = person

    def remove(self, identity: str) -> None:
        """Somebody left."""
        self._here.pop(identity, None)

    def get(self, identity: str) -> Person | None:
        """The participant of that identity."""
        return self._here.get(identity)

    @property
    def identities(self) -> tuple[str, ...]:
        """Everybody, agents too."""
        return tuple(self._here)

    @property
    def humans(self) -> tuple[str, ...]:
        """Identities of all who are no agents, in the order of joining."""
        # Agents that join as ordinary participants and say so a moment later are gone from here at that moment.
        people = [person for person in self._here.values() if not person.agent]
        return tuple(person.identity for person in sorted(people, key=lambda person: person.joined_ms))

    @property
    def heard(self) -> tuple[str, ...]:
        """Identities of those who are listened to, in the order of joining."""
        humans = self.humans
        if self._listen_to == "all":
            return humans
        if self._listen_to == "first":
            return humans[:1]
        return tuple(identity for identity in humans if identity in self._listen_to)

    @property
    def reports_playback(self) -> bool:
        """Whether any of those who listen may have a page that reports playback.  Telephones have none."""
        people = [self._here[identity] for identity in self.heard]
        return not people or any(not person.telephone for person in people)

    def may_command(self, identity: str) -> bool:
        """Whether the participant is obeyed.  Agents never are: two of them would keep each other talking."""
        return identity in (self.humans if self._obey == "anyone" else self.heard)

    def allows(self, who: Who, identity: str) -> bool:
        """Whether the participant is one of ``who``.  Agents never are."""
        if who == "nobody":
            return False
        return self.may_command(identity) if who == "listened" else identity in who and identity in self.humans
