"""A room in the browser, over aiortc."""

from __future__ import annotations

from .options import IceServer, WebRtcOptions
from .peer import OfferRefused
from .room import AlreadyConnected, Answer, RoomClosed, WebRtcRoom

__all__ = ["AlreadyConnected", "Answer", "IceServer", "OfferRefused", "RoomClosed", "WebRtcOptions", "WebRtcRoom"]
