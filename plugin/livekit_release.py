"""The releases of livekit-agents that the plugin and the worker were written for, and the guard on them.

Its duplex interface is new in 1.8 and still changes, and the worker replaces private parts of it, hence the narrow
range.  Imports nothing of LiveKit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata

from ..engines.base import VenusError

_LEAST, _BELOW = (1, 8, 9), (1, 9)
_LEADING_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


class UnsupportedLiveKit(VenusError):
    """The installed livekit-agents differs from the releases that are known here."""


def check_version(version: Callable[[str], str] = metadata.version) -> None:
    """Raise :class:`UnsupportedLiveKit` unless livekit-agents is at least 1.8.9 and below 1.9."""
    found = version("livekit-agents")
    numbers = _LEADING_NUMBERS.match(found)
    release = tuple(int(part) for part in numbers.group().split(".")) if numbers else ()
    if not _LEAST <= release < _BELOW:
        raise UnsupportedLiveKit(
            f"livekit-agents {found} is installed, Realtime-Venus was written for >=1.8.9,<1.9: "
            "pip install 'livekit-agents>=1.8.9,<1.9'"
        )
