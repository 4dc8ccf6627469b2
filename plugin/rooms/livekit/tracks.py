"""Which tracks of the others are subscribed, and who reads them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from ....engines.base import FloatPcm
from . import sdk
from .options import LiveKitOptions
from .people import People
from .pictures import LatestPicture
from .sdk import rtc

log = logging.getLogger(__name__)

_MICROPHONES = (rtc.TrackSource.SOURCE_MICROPHONE, rtc.TrackSource.SOURCE_UNKNOWN)
_CAMERAS = (rtc.TrackSource.SOURCE_CAMERA, rtc.TrackSource.SOURCE_UNKNOWN)
_SCREENS = (rtc.TrackSource.SOURCE_SCREENSHARE,)
_PLACEHOLDER = 8
"""Width of the black frames that stand for no picture: WebRTC makes them where a track begins and where it is muted."""
_CLOSE_S = 2.0

_Published = tuple[str, rtc.RemoteTrackPublication]
"""Who, and what."""

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


@dataclass(frozen=True, slots=True)
class _Reader:
    track: rtc.Track
    task: asyncio.Task[None]


@dataclass(slots=True)
class TrackCounters:
    """What is not heard."""

    waiting: int = 0
    """Microphones that had to wait because as many as ``max_listened`` were heard already."""


class Tracks:
    """Brings subscriptions and readers in line with who is in the room, each time :meth:`sync` is called.

    ``sound`` gets every 20 ms of a microphone (key, identity, samples), ``ended`` its end.  A track that comes back
    under another name after a reconnection is just another one.
    """

    def __init__(
        self,
        room: rtc.Room,
        people: People,
        options: LiveKitOptions,
        picture: LatestPicture,
        clock_ms: Callable[[], float],
        sound: Callable[[str, str, FloatPcm], None],
        ended: Callable[[str, str], None],
    ) -> None:
        self._room = room
        self._people = people
        self._options = options
        self._picture = picture
        self._clock_ms = clock_ms
        self._sound = sound
        self._ended = ended
        self._spawn: Spawn | None = None
        self._exclusive = False
        self._readers: dict[str, _Reader] = {}
        self._asked: set[str] = set()
        self._order: dict[str, int] = {}
        self._next_order = 0
        self._watched = ""
        self._waiting: set[str] = set()
        self.counters = TrackCounters()
        self.seeing = False

    def begin(self, spawn: Spawn, *, exclusive: bool) -> None:
        """Start; ``exclusive``: nobody else uses the connection, so what is not wanted need not be sent to us."""
        self._spawn, self._exclusive = spawn, exclusive
        self.sync()

    def end(self) -> None:
        """Start nothing more."""
        self._spawn = None

    def ask_anew(self) -> None:
        """The connection is another one: what was asked for while it was being made may have been lost."""
        self._asked.clear()
        self.sync()

    def shown_anew(self, sid: str) -> None:
        """The picture was switched on: it is the newest now."""
        self._order.pop(sid, None)

    @property
    def watched(self) -> str:
        """Sid of the track that pictures come from; empty without one."""
        return self._watched

    def microphone_of(self, identity: str) -> str | None:
        """Sid of the participant's microphone."""
        participant = self._room.remote_participants.get(identity)
        if participant is None:
            return None
        found = (pub.sid for pub in participant.track_publications.values() if self._is_microphone(pub))
        return next(found, None)

    def sync(self) -> None:
        """Look at the room and do what is to be done."""
        if self._spawn is None:
            return
        publications = list(self._publications())
        self._asked &= {publication.sid for _, publication in publications}
        wanted = {publication.sid: (identity, publication) for identity, publication in self._heard(publications)}
        self._choose_picture(publications)
        if self._watched:
            wanted[self._watched] = next(one for one in publications if one[1].sid == self._watched)
        for sid, reader in list(self._readers.items()):
            if sid not in wanted or wanted[sid][1].track is not reader.track:
                del self._readers[sid]
                reader.task.cancel()
        for identity, publication in publications:
            if publication.sid in wanted:
                self._want(identity, publication)
            elif self._exclusive and publication.sid in self._asked:
                self._asked.discard(publication.sid)
                publication.set_subscribed(False)

    def _heard(self, publications: list[_Published]) -> list[_Published]:
        """The microphones to read: who is read stays, then who joined first.  Others wait until one of them goes."""
        order = {identity: place for place, identity in enumerate(self._people.heard)}
        microphones = [one for one in publications if one[0] in order and self._is_microphone(one[1])]
        microphones.sort(key=lambda one: (one[1].sid not in self._asked, order[one[0]]))
        waiting = {publication.sid for _, publication in microphones[self._options.max_listened :]}
        if waiting and not self.counters.waiting:
            log.warning("more microphones than are listened to", extra={"max_listened": self._options.max_listened})
        self.counters.waiting += len(waiting - self._waiting)
        self._waiting = waiting
        return microphones[: self._options.max_listened]

    def _publications(self) -> Iterator[_Published]:
        for participant in self._room.remote_participants.values():
            for publication in participant.track_publications.values():
                yield participant.identity, publication

    @staticmethod
    def _is_microphone(publication: rtc.RemoteTrackPublication) -> bool:
        return publication.kind == rtc.TrackKind.KIND_AUDIO and publication.source in _MICROPHONES

    def _want(self, identity: str, publication: rtc.RemoteTrackPublication) -> None:
        sid, track = publication.sid, publication.track
        if sid not in self._asked:
            self._asked.add(sid)
            publication.set_subscribed(True)
        if track is None or sid in self._readers or self._spawn is None:
            return
        reading = self._watch(track) if sid == self._watched else self._hear(sid, identity, track)
        self._readers[sid] = _Reader(track, self._spawn(reading, f"livekit-track-{sid}"))

    def _choose_picture(self, publications: list[_Published]) -> None:
        sources = {"camera": _CAMERAS, "screen": _SCREENS, "newest": (*_CAMERAS, *_SCREENS), "off": ()}
        allowed = sources[self._options.video] if self.seeing else ()
        chosen = self._options.video_from
        candidates: list[str] = []
        for identity, publication in publications:
            if publication.kind != rtc.TrackKind.KIND_VIDEO:
                continue
            if publication.sid not in self._order:
                self._order[publication.sid] = self._next_order
                self._next_order += 1
            seen = identity == chosen if chosen is not None else identity in self._people.heard
            if seen and publication.source in allowed and not publication.muted:
                candidates.append(publication.sid)
        there = {publication.sid for _, publication in publications}
        self._order = {sid: order for sid, order in self._order.items() if sid in there}
        newest = max(candidates, key=lambda sid: self._order[sid], default="")
        if newest != self._watched:
            self._watched = newest
            self._picture.clear()

    async def _hear(self, sid: str, identity: str, track: rtc.Track) -> None:
        stream = sdk.hear(track)
        try:
            async for event in sdk.events_of(stream):
                self._sound(sid, identity, sdk.samples_of(event.frame))
        except sdk.MediaFailed as error:
            log.warning("a microphone can be heard no longer", extra={"error": str(error)})
        finally:
            self._ended(sid, identity)
            await sdk.close_stream(stream, _CLOSE_S)

    async def _watch(self, track: rtc.Track) -> None:
        stream = sdk.see(track)
        try:
            async for event in sdk.events_of(stream):
                if event.frame.width <= _PLACEHOLDER:
                    continue
                self._picture.put(event, self._clock_ms())
        except sdk.MediaFailed as error:
            log.warning("a picture can be seen no longer", extra={"error": str(error)})
        finally:
            await sdk.close_stream(stream, _CLOSE_S)
