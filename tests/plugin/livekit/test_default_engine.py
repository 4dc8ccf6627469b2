"""The three lines that a user writes, with the models of this machine: no key, no network."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from livekit.agents import Agent, AgentSession, llm
from livekit.plugins import venus
from realtime_venus.engines.store import Store

from ...kit.kits import sample, stem
from .agent_io import on, running

pytestmark = pytest.mark.models

DEADLINE_S = 90.0


async def test_a_spoken_question_is_answered_aloud(models: Store) -> None:
    models.path("whisper-base")
    async with venus.DuplexModel(language="en") as model:
        await model.load()
        session: AgentSession[Any] = AgentSession(llm=model, **venus.session_options())
        attachment = venus.attach(session)
        answered = asyncio.Event()

        def added(event: Any) -> None:
            if isinstance(event.item, llm.ChatMessage) and event.item.role == "assistant":
                answered.set()

        on(session, "conversation_item_added", added)
        async with attachment, running(session, Agent(instructions=""), stem("en_turn_taking_01")) as output:
            async with asyncio.timeout(DEADLINE_S):
                await answered.wait()
            user, assistant = session.history.messages()
            assert user.role == "user"
            assert len((user.text_content or "").split()) >= 3, sample("en_turn_taking_01")
            assert len((assistant.text_content or "").split()) >= 2
            assert np.abs(output.segments[0].astype(int)).max() > 1000
