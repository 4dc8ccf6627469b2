"""What the room sends beside sound: events, captions, the agent's state.  Each waits in a bounded place of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..messages import pack
from ..outbox import Outbox
from . import sdk
from .captions import Caption
from .sdk import rtc

log = logging.getLogger(__name__)

EVENTS = "venus.events"
TRANSCRIPTION = "lk.transcription"
STATE = "lk.agent.state"
_CAPTIONS = 64
"""Segments whose newest text waits to be sent.  Beyond this the oldest unfinished one gives way, else the oldest."""
_WELCOMES = 32
_SEND_S = 10.0
"""How long sending one thing may take."""


@dataclass(slots=True)
class WireCounters:
    """What did not get through."""

    failed: int = 0
    """Messages that the SDK did not take, or not in time."""
    events_dropped: int = 0
    """Events that gave way to newer ones."""
    captions_dropped: int = 0
    """Captions that gave way to newer ones, or whose speaker is not here (any more): nobody else's name fits them."""
    unwelcomed: int = 0
    """Newcomers who were not told what they had missed."""


class Wire:
    """Sends for one room.  ``track_of`` names the microphone of an identity, ``""`` being the agent itself."""

    def __init__(self, room: rtc.Room, outbox_events: int, track_of: Callable[[str], str | None]) -> None:
        self._room = room
        self._track_of = track_of
        self._outbox = Outbox(outbox_events)
        self._captions: dict[str, Caption] = {}
        self._captioned = asyncio.Event()
        self._welcomes: asyncio.Queue[tuple[str, list[dict[str, Any]]]] = asyncio.Queue(_WELCOMES)
        self._state = ""
        self._told = ""
        self._stated = asyncio.Event()
        self._connected = asyncio.Event()
        self._connected.set()
        self._next_chunk = 0
        self.counters = WireCounters()

    def event(self, event: dict[str, Any]) -> None:
        """Send an event on ``venus.events``."""
        self._outbox.put(event)
        self.counters.events_dropped = self._outbox.dropped

    def caption(self, caption: Caption) -> None:
        """Show a caption; an unsent one of the same segment is replaced."""
        self._captions.pop(caption.segment, None)
        if len(self._captions) >= _CAPTIONS:
            self.counters.captions_dropped += 1
            unfinished = (segment for segment, waiting in self._captions.items() if not waiting.final)
            del self._captions[next(unfinished, next(iter(self._captions)))]
        self._captions[caption.segment] = caption
        self._captioned.set()

    def state(self, state: str) -> None:
        """Set ``lk.agent.state``; only the newest counts."""
        self._state = state
        self._stated.set()

    def connection(self, *, up: bool) -> None:
        """The connection was lost, or is back: then the server may have forgotten our attributes."""
        if up:
            self._told = ""
            self._stated.set()
            self._connected.set()
        else:
            self._connected.clear()

    async def send_events(self) -> None:
        """Send events until cancelled."""
        while True:
            await self._outbox.wait()
            await self._connected.wait()
            event = self._outbox.take()
            if event is None:
                continue
            await self._send_event(event)

    def welcome(self, identity: str, events: list[dict[str, Any]]) -> None:
        """Send events to one who has just come; beyond 32 such at a time the newest goes without."""
        try:
            self._welcomes.put_nowait((identity, events))
        except asyncio.QueueFull:
            self.counters.unwelcomed += 1

    async def send_welcomes(self) -> None:
        """Send newcomers what they missed until cancelled."""
        while True:
            identity, events = await self._welcomes.get()
            for event in events:
                await self._send_event(event, identity)

    async def send_captions(self) -> None:
        """Send captions until cancelled."""
        while True:
            await self._captioned.wait()
            await self._connected.wait()
            self._captioned.clear()
            while self._captions and self._connected.is_set():
                await self._send_caption(self._captions.pop(next(iter(self._captions))))
            if self._captions:
                self._captioned.set()

    async def send_state(self) -> None:
        """Keep the agent's state up to date until cancelled."""
        while True:
            await self._stated.wait()
            await self._connected.wait()
            self._stated.clear()
            state = self._state
            if state and state != self._told and await self._trying(sdk.set_attributes(self._room, {STATE: state})):
                self._told = state

    async def _send_event(self, event: dict[str, Any], to: str | None = None) -> None:
        self._next_chunk += 1
        for message in pack(event, self._next_chunk):
            await self._trying(sdk.send(self._room, EVENTS, message, to))

    async def _send_caption(self, caption: Caption) -> None:
        sender = self._room.local_participant.identity if caption.speaker is None else caption.speaker
        if caption.speaker is not None and caption.speaker not in self._room.remote_participants:
            self.counters.captions_dropped += 1
            return
        attributes = {
            "lk.segment_id": caption.segment,
            "lk.transcription_final": "true" if caption.final else "false",
        }
        track = self._track_of(caption.speaker or "")
        if track:
            attributes["lk.transcribed_track_id"] = track
        await self._trying(sdk.send_text(self._room, TRANSCRIPTION, caption.text, attributes, sender))

    async def _trying(self, sending: Awaitable[None]) -> bool:
        try:
            async with asyncio.timeout(_SEND_S):
                await sending
        except (sdk.MediaFailed, TimeoutError) as error:
            self.counters.failed += 1
            log.info("a message was not sent", extra={"error": type(error).__name__})
            return False
        return True
