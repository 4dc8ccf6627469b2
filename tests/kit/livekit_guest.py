"""Somebody who meets an agent in a LiveKit room: speaks, hears it, sees it come and go."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from livekit import rtc

from .livekit_participant import Participant, participant
from .livekit_server import LiveKitServer

DEADLINE_S = 45.0
_VARIABLES = ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET")


@pytest.fixture
def environment_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes back what livekit-agents writes into the environment of the process that runs its server."""
    for name in _VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def agents(user: Participant) -> list[rtc.RemoteParticipant]:
    """The agents in the user's room."""
    kind = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
    return [one for one in user.room.remote_participants.values() if one.kind == kind]


async def agent_of(user: Participant) -> rtc.RemoteParticipant:
    """The one agent, once it is here."""
    await user.until(lambda: agents(user), "an agent", DEADLINE_S)
    (only,) = agents(user)
    return only


async def alone(user: Participant, timeout_s: float = DEADLINE_S) -> None:
    """Wait until there is no agent."""
    await user.until(lambda: not agents(user), "no agent", timeout_s)


async def hears_agent(user: Participant) -> None:
    """Wait until there is an agent, and something loud of it is heard from then on."""
    await user.until(lambda: agents(user), "an agent", DEADLINE_S)
    heard = len(user.loud_s)
    await user.until(lambda: len(user.loud_s) > heard, lambda: f"the agent is heard: {_met(user)}", DEADLINE_S)


def _met(user: Participant) -> str:
    """What there is of agents, for whoever has to find out why none is heard."""
    met: list[str] = []
    for one in agents(user):
        tracks = [(track.sid, track.subscribed, track.muted) for track in one.track_publications.values()]
        met.append(f"{one.identity} {one.attributes} with {tracks}")
    return "; ".join(met) or "nobody is here any more"


@asynccontextmanager
async def guest(
    server: LiveKitServer, room: str, identity: str = "guest", token: str | None = None
) -> AsyncGenerator[Participant]:
    """Somebody with a microphone in ``room``; leaves afterwards."""
    async with participant(server, identity, room, token) as user:
        await user.microphone()
        yield user
