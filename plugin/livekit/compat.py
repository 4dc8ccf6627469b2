"""The only file of the plugin that touches names LiveKit keeps private, and the guard on its release.

The duplex interface is new in livekit-agents 1.8 and still changes, hence the narrow range.  One private name is used:
an ``AgentSession`` takes its video sampler only when it is made, and :func:`~.attach.attach` comes afterwards.  What
is relied on, private or not, is observed by ``tests/contract/test_livekit_agents.py`` (livekit-agents 1.8.9).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata
from typing import Any, Protocol, cast

from ...engines.base import MissingExtra, VenusError

try:
    from livekit import rtc
    from livekit.agents import AgentSession
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

_LEAST = (1, 8, 9)
_BELOW = (1, 9)
_LEADING_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


class UnsupportedLiveKit(VenusError):
    """The installed livekit-agents differs from the releases that this plugin was written for."""


def check_version(version: Callable[[str], str] = metadata.version) -> None:
    """Raise :class:`UnsupportedLiveKit` unless livekit-agents is at least 1.8.9 and below 1.9."""
    found = version("livekit-agents")
    numbers = _LEADING_NUMBERS.match(found)
    release = tuple(int(part) for part in numbers.group().split(".")) if numbers else ()
    if not _LEAST <= release < _BELOW:
        raise UnsupportedLiveKit(
            f"livekit-agents {found} is installed, livekit.plugins.venus was written for >=1.8.9,<1.9: "
            "pip install 'livekit-agents>=1.8.9,<1.9'"
        )


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
