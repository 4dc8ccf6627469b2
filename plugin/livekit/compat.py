"""The only file of the plugin that touches names LiveKit keeps private.  The release is checked when it is imported.

One private name is used: an ``AgentSession`` takes its video sampler only when it is made, and :func:`~.attach.attach`
comes afterwards.  What is relied on, private or not, is observed by ``tests/contract/test_livekit_agents.py``
(livekit-agents 1.8.9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from ...engines.base import MissingExtra
from ..livekit_release import UnsupportedLiveKit, check_version

try:
    from livekit import rtc
    from livekit.agents import AgentSession
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

__all__ = [
    "UnsupportedLiveKit",
    "VideoSampler",
    "check_version",
    "ignore",
    "listen",
    "rtc",
    "set_video_sampler",
    "video_sampler",
]

check_version()


class VideoSampler(Protocol):
    """Says of each frame whether the model gets it."""

    def __call__(self, frame: rtc.VideoFrame, session: AgentSession[Any]) -> bool: ...


def video_sampler(session: AgentSession[Any]) -> VideoSampler | None:
    """The sampler of the session; ``None`` lets every frame through."""
    return session._video_sampler  # pyright: ignore[reportPrivateUsage]  # see the module


def set_video_sampler(session: AgentSession[Any], sampler: VideoSampler | None) -> None:
    """Replace the sampler; it counts from the next frame on."""
    session._video_sampler = sampler  # pyright: ignore[reportPrivateUsage]  # see the module


# -- events, whose types are only half written down -------------------------------------------------------------------


class _Emitter(Protocol):
    def on(self, event: str, callback: Callable[..., object]) -> object: ...
    def off(self, event: str, callback: Callable[..., object]) -> object: ...


def listen(emitter: object, event: str, callback: Callable[..., object]) -> None:
    """Have ``callback`` called at every ``event`` of an ``rtc.EventEmitter``."""
    cast(_Emitter, emitter).on(event, callback)


def ignore(emitter: object, event: str, callback: Callable[..., object]) -> None:
    """Take back a :func:`listen`."""
    cast(_Emitter, emitter).off(event, callback)
