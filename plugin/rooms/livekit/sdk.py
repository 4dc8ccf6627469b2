"""The LiveKit SDK as the room uses it: typed, with deadlines, and with errors that say what to do.

``livekit`` 1.1.x raises bare ``Exception`` in places; only here is it caught, and becomes :class:`MediaFailed`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from ....engines.base import INPUT_HZ, OUTPUT_HZ, FloatPcm, Int16Pcm, MissingExtra, RgbImage, VenusError
from ...redaction import redacted
from ..picture import LARGEST_PICTURE

try:
    from livekit import rtc
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

_FRAMES = 500
"""Received frames (20 ms) that may wait for us inside the SDK: 10 s.  Beyond this it drops the oldest."""


class JoinRefused(VenusError):
    """The room could not be joined; ``code`` is ``expired``, ``token``, ``grants``, ``unreachable`` or ``failed``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class MediaFailed(VenusError):
    """The SDK could not do what it was asked for; the connection may be gone."""


RpcHandler = Callable[[rtc.RpcInvocationData], Awaitable[str]]


class _Emitter(Protocol):
    def on(self, event: str, callback: Callable[..., None]) -> object: ...
    def off(self, event: str, callback: Callable[..., None]) -> None: ...


class _Speaking(Protocol):
    """What of ``LocalParticipant`` has no complete types."""

    async def publish_data(
        self, payload: str, *, reliable: bool, destination_identities: list[str], topic: str
    ) -> None: ...
    async def set_attributes(self, attributes: dict[str, str]) -> None: ...
    def register_rpc_method(self, method_name: str, handler: RpcHandler) -> object: ...
    def unregister_rpc_method(self, method: str) -> None: ...


def on(room: rtc.Room, event: str, callback: Callable[..., None]) -> None:
    """Call ``callback`` at every ``event``; it must be synchronous."""
    cast(_Emitter, room).on(event, callback)


def off(room: rtc.Room, event: str, callback: Callable[..., None]) -> None:
    """Undo :func:`on`."""
    cast(_Emitter, room).off(event, callback)


# -- joining and leaving --------------------------------------------------------------------------------------------


async def connect(url: str, token: str, deadline_s: float, encryption: rtc.E2EEOptions | None) -> rtc.Room:
    """Join with ``token``; nothing is subscribed by itself.  Raises :class:`JoinRefused`."""
    room = rtc.Room()
    options = rtc.RoomOptions(auto_subscribe=False, encryption=encryption)
    try:
        await joined(room, room.connect(url, token, options), deadline_s)
    except TimeoutError:
        raise JoinRefused(
            "unreachable", f"the LiveKit server at {url} did not let us in within {deadline_s:g} s"
        ) from None
    except rtc.ConnectError as error:
        raise _refused(url, error.message) from None
    return room


async def joined(room: rtc.Room, connecting: Coroutine[Any, Any, None], deadline_s: float) -> None:
    """Wait until ``room`` is connected by ``connecting``.  Raises what that raises, or ``TimeoutError``.

    The SDK cannot be stopped while it connects.  What comes of it after the deadline, or after the caller was
    cancelled, is undone: else somebody would be in the room whom nobody knows of (:func:`undone`).
    """
    joining = asyncio.create_task(connecting, name="livekit-connect")
    in_time = False
    try:
        await asyncio.wait([joining], timeout=deadline_s)
        in_time = joining.done()
    finally:
        if not in_time:
            undoing = asyncio.create_task(_undo(room, joining), name="livekit-undo")
            _UNDOING.add(undoing)
            undoing.add_done_callback(_UNDOING.discard)
    if not in_time:
        raise TimeoutError
    joining.result()


async def undone(deadline_s: float) -> bool:
    """Wait until this event loop has undone what it gave up joining; whether that was done in time."""
    loop = asyncio.get_running_loop()
    ours = [task for task in _UNDOING.copy() if task.get_loop() is loop]
    return not ours or not (await asyncio.wait(ours, timeout=deadline_s))[1]


def missing_grants(room: rtc.Room) -> list[str]:
    """The grants that our token lacks, without which an agent can do nothing."""
    may = room.local_participant.permissions
    needed = {"can_publish": may.can_publish, "can_subscribe": may.can_subscribe}
    return [name for name, given in needed.items() if not given]


_UNDOING: set[asyncio.Task[None]] = set()


async def _undo(room: rtc.Room, joining: asyncio.Task[None]) -> None:
    await asyncio.wait([joining])
    if not joining.cancelled():
        joining.exception()  # nobody else looks at it
    await room.disconnect()  # at once, if it is not connected


def _refused(url: str, message: str) -> JoinRefused:
    said = redacted(message)
    if "token is expired" in said:
        return JoinRefused("expired", "the token has expired: make a new one")
    if "401" in said or "403" in said:
        return JoinRefused("token", f"the LiveKit server at {url} does not accept the token: {said}")
    if "connection error" in said or "timeout" in said.lower():
        return JoinRefused("unreachable", f"no LiveKit server answers at {url}: {said}")
    return JoinRefused("failed", f"the room could not be joined: {said}")


async def disconnect(room: rtc.Room, deadline_s: float) -> bool:
    """Leave; whether that was done in time."""
    try:
        async with asyncio.timeout(deadline_s):
            await room.disconnect()
    except TimeoutError:
        return False
    return True


async def unpublish(room: rtc.Room, publication: rtc.LocalTrackPublication | None, deadline_s: float) -> bool:
    """Take the agent's track back; whether that was done in time."""
    if publication is None:
        return True
    try:
        async with asyncio.timeout(deadline_s):
            await _narrowed(room.local_participant.unpublish_track(publication.sid))
    except (TimeoutError, MediaFailed):
        return False
    return True


def reason_name(reason: int) -> str:
    """A disconnect reason as a code: ``duplicate_identity``, ``room_deleted``..."""
    name = cast(str, cast(Any, rtc.DisconnectReason).Name(reason))
    return {"UNKNOWN_REASON": "connection_lost", "CLIENT_INITIATED": "disconnected"}.get(name, name.lower())


# -- sound ----------------------------------------------------------------------------------------------------------


class Source:
    """Where the agent's 24 kHz mono voice goes in; holds at most ``queue_ms``."""

    def __init__(self, queue_ms: int) -> None:
        self.native = rtc.AudioSource(OUTPUT_HZ, 1, queue_size_ms=queue_ms)

    async def put(self, pcm: Int16Pcm) -> None:
        """Queue ``int16[n]``; waits while the queue is full.  Raises :class:`MediaFailed`."""
        frame = rtc.AudioFrame(pcm.tobytes(), OUTPUT_HZ, 1, pcm.size)
        await _narrowed(self.native.capture_frame(frame))

    async def close(self) -> None:
        """Free it; what is queued is not played."""
        self.native.clear_queue()
        await self.native.aclose()


async def _narrowed(doing: Awaitable[None]) -> None:
    try:
        await doing
    except Exception as error:  # the SDK raises nothing narrower
        raise MediaFailed(str(error) or type(error).__name__) from error


async def publish_voice(room: rtc.Room, source: Source, name: str, deadline_s: float) -> rtc.LocalTrackPublication:
    """Publish the agent's microphone.  Raises :class:`MediaFailed`."""
    track = rtc.LocalAudioTrack.create_audio_track(name, source.native)
    options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
    try:
        async with asyncio.timeout(deadline_s):
            return await room.local_participant.publish_track(track, options)
    except TimeoutError:
        raise MediaFailed(f"the agent's track was not accepted within {deadline_s:g} s") from None
    except Exception as error:  # PublishTrackError derives from Exception and is not exported
        raise MediaFailed(f"the agent's track could not be published: {error}") from error


def samples_of(frame: rtc.AudioFrame) -> FloatPcm:
    """Mono int16 as float32 in [-1, 1]."""
    return np.frombuffer(frame.data, dtype=np.int16).astype(np.float32) / np.float32(32768.0)


_Event = TypeVar("_Event")


async def events_of(stream: AsyncIterable[_Event]) -> AsyncIterator[_Event]:
    """What comes of a stream.  Raises :class:`MediaFailed`."""
    try:
        async for event in stream:
            yield event
    except Exception as error:  # the SDK raises nothing narrower
        raise MediaFailed(str(error) or type(error).__name__) from error


def hear(track: rtc.Track) -> rtc.AudioStream:
    """The track at 16 kHz mono, in frames of 20 ms, whatever its own rate and channels are."""
    return rtc.AudioStream(track, capacity=_FRAMES, sample_rate=INPUT_HZ, num_channels=1, frame_size_ms=20)


# -- pictures -------------------------------------------------------------------------------------------------------

_QUARTER_TURNS: dict[int, int] = {
    rtc.VideoRotation.VIDEO_ROTATION_0: 0,
    rtc.VideoRotation.VIDEO_ROTATION_90: 1,
    rtc.VideoRotation.VIDEO_ROTATION_180: 2,
    rtc.VideoRotation.VIDEO_ROTATION_270: 3,
}


def see(track: rtc.Track) -> rtc.VideoStream:
    """The track's frames; only the newest waits."""
    return rtc.VideoStream(track, capacity=1)


def thinned(frame: rtc.VideoFrame) -> rtc.VideoFrame:
    """The frame itself, or of one with more than :data:`LARGEST_PICTURE` pixels every second (third...) row and column.

    Done before a conversion, which needs three bytes a pixel and more time than a whole unit has.  Raises
    :class:`MediaFailed` for one that is too large and not planar (I420), as what comes from a room is.
    """
    width, height = frame.width, frame.height
    step = math.ceil(math.sqrt(width * height / LARGEST_PICTURE))
    if step <= 1:
        return frame
    if frame.type != rtc.VideoBufferType.I420:
        raise MediaFailed(f"a picture of {width} x {height} pixels is too large")
    data = np.frombuffer(frame.data, dtype=np.uint8)
    half_width, half_height = -(-width // 2), -(-height // 2)
    planes: list[bytes] = []
    at = 0
    for columns, rows in ((width, height), (half_width, half_height), (half_width, half_height)):
        plane = data[at : at + columns * rows].reshape(rows, columns)
        planes.append(plane[::step, ::step].tobytes())
        at += columns * rows
    return rtc.VideoFrame(-(-width // step), -(-height // step), rtc.VideoBufferType.I420, b"".join(planes))


def upright(frame: rtc.VideoFrame, event: rtc.VideoFrameEvent) -> RgbImage:
    """The frame of ``event`` as RGB, turned as its sender says (clockwise).  Raises :class:`MediaFailed`."""
    try:
        converted = frame.convert(rtc.VideoBufferType.RGB24)
    except Exception as error:  # the SDK raises nothing narrower
        raise MediaFailed(str(error) or type(error).__name__) from error
    image = np.frombuffer(converted.data, dtype=np.uint8).reshape(converted.height, converted.width, 3)
    return np.ascontiguousarray(np.rot90(image, k=-_QUARTER_TURNS.get(cast(int, event.rotation), 0)))


async def close_stream(stream: rtc.AudioStream | rtc.VideoStream, deadline_s: float) -> None:
    """End a stream; the SDK's own task ends with it."""
    try:
        async with asyncio.timeout(deadline_s):
            await stream.aclose()
    except TimeoutError:
        return


# -- words ----------------------------------------------------------------------------------------------------------


async def send(room: rtc.Room, topic: str, message: str, to: str | None = None) -> None:
    """Send a data packet to everybody or to one, reliably.  Raises :class:`MediaFailed`."""
    us = cast(_Speaking, room.local_participant)
    await _narrowed(us.publish_data(message, reliable=True, destination_identities=[to] if to else [], topic=topic))


async def send_text(room: rtc.Room, topic: str, text: str, attributes: dict[str, str], sender: str) -> None:
    """Send ``text`` as a stream of its own; in the name of ``sender``, which the server lets agents do.

    Raises :class:`MediaFailed`.
    """

    async def sending() -> None:
        writer = await room.local_participant.stream_text(topic=topic, attributes=attributes, sender_identity=sender)
        await writer.write(text)
        await writer.aclose()

    await _narrowed(sending())


async def set_attributes(room: rtc.Room, attributes: dict[str, str]) -> None:
    """Set attributes of ours; without the permission nothing happens.  Raises :class:`MediaFailed`."""
    await _narrowed(cast(_Speaking, room.local_participant).set_attributes(attributes))


def offer(room: rtc.Room, method: str, handler: RpcHandler) -> None:
    """Answer RPC calls of ``method``."""
    cast(_Speaking, room.local_participant).register_rpc_method(method, handler)


def withdraw(room: rtc.Room, method: str) -> None:
    """Undo :func:`offer`."""
    cast(_Speaking, room.local_participant).unregister_rpc_method(method)


def offer_stream(room: rtc.Room, topic: str, handler: Callable[[rtc.TextStreamReader, str], None]) -> bool:
    """Take text streams of ``topic``; whether nobody else does already."""
    try:
        room.register_text_stream_handler(topic, handler)
    except ValueError:
        return False
    return True
