"""The agent's voice: a track that pulls 20 ms frames by its own clock and sends them as Opus.

The track encodes itself instead of leaving it to aiortc: 24 kHz mono needs no resampling, in-band error correction can
be switched on, presentation times stay exact, and silence is one packet that is encoded once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, SupportsBytes, cast

from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame, CodecContext
from av.packet import Packet

from ....engines.base import OUTPUT_HZ, Int16Pcm
from ..base import PLAYOUT_MS, PLAYOUT_SAMPLES, PlayoutSource
from .adapter import rtp_distance

if TYPE_CHECKING:
    from av.stream import Stream

RTP_HZ = 48_000
RTP_PER_FRAME = RTP_HZ * PLAYOUT_MS // 1000
_FRAME_S = PLAYOUT_MS / 1000
_TIME_BASE = Fraction(1, RTP_HZ)
_REMEMBERED = 30_000 // PLAYOUT_MS
"""Frames whose presentation time is remembered for acknowledgements: 30 s."""
_HANGOVER = 25
"""Silent frames that are still encoded, so that the decoder's memory has faded before one packet is repeated."""


class _Encoder(Protocol):
    def encode(self, frame: AudioFrame) -> list[SupportsBytes]: ...


class VoiceEncoder:
    """24 kHz mono int16 to Opus packets of 20 ms."""

    def __init__(self, bit_rate: int = 40_000) -> None:
        codec = CodecContext.create("libopus", "w")
        codec.bit_rate = bit_rate
        codec.format = "s16"
        codec.layout = "mono"
        codec.sample_rate = OUTPUT_HZ
        codec.time_base = Fraction(1, OUTPUT_HZ)
        codec.options = {
            "application": "voip",
            "compression_level": "5",
            "fec": "1",
            "packet_loss": "10",
            "frame_duration": str(PLAYOUT_MS),
        }
        self._codec = cast(_Encoder, codec)
        self._samples = 0
        self._silent = 0
        self._silence: bytes | None = None
        self.encoded = 0

    def encode(self, pcm: Int16Pcm, *, silent: bool) -> bytes:
        """Encode ``int16[480]``; long silence is the same packet again and costs nothing."""
        self._silent = self._silent + 1 if silent else 0
        if self._silent > _HANGOVER and self._silence is not None:
            return self._silence
        frame = AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = OUTPUT_HZ
        frame.time_base = Fraction(1, OUTPUT_HZ)
        frame.pts = self._samples
        self._samples += PLAYOUT_SAMPLES
        packet = b"".join(bytes(packet) for packet in self._codec.encode(frame))
        self.encoded += 1
        if silent:
            self._silence = packet
        return packet


@dataclass(slots=True)
class OutputCounters:
    """Frames of 20 ms."""

    sent: int = 0
    skipped: int = 0
    """Time slots left out because the sender was late; what was to be said is said afterwards."""


class AgentTrack(MediaStreamTrack):
    """Pulls one frame every 20 ms of the loop's clock, never in bursts."""

    kind = "audio"

    def __init__(self, source: PlayoutSource, late_ms: int) -> None:
        super().__init__()
        self._source = source
        self._late_s = late_ms / 1000
        self._encoder = VoiceEncoder()
        self._start_s: float | None = None
        self._slot = 0
        self._sent: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        self._last_rtp: Callable[[], int] | None = None
        self._origin: int | None = None
        self.counters = OutputCounters()

    def bind(self, last_rtp: Callable[[], int]) -> None:
        """Say where the RTP timestamp of the last packet that left can be read."""
        self._last_rtp = last_rtp

    async def recv(self) -> Packet[Stream]:
        """The next packet, at its time."""
        if self.readyState != "live":
            raise MediaStreamError
        loop = asyncio.get_running_loop()
        if self._start_s is None:
            self._start_s = loop.time()
        else:
            if self._origin is None and self._last_rtp is not None:
                # Asked for the next frame, the sender has surely sent the one before it.
                self._origin = self._last_rtp() - self._sent[-1][0]
            self._slot += 1
            late_s = loop.time() - (self._start_s + self._slot * _FRAME_S)
            if late_s > self._late_s:
                skipped = int(late_s / _FRAME_S)
                self._slot += skipped
                self.counters.skipped += skipped
            elif late_s < 0:
                await asyncio.sleep(-late_s)
        frame = self._source.pull()
        packet: Packet[Stream] = Packet(self._encoder.encode(frame.pcm, silent=frame.silent))
        packet.pts = self._slot * RTP_PER_FRAME
        packet.time_base = _TIME_BASE
        self._sent.append((packet.pts, frame.number))
        self.counters.sent += 1
        return packet

    def rtp_of(self, number: int) -> int | None:
        """The RTP time that frame ``number`` went out with, or ``None``: the inverse of :meth:`frame_played`."""
        if self._origin is None:
            return None
        for pts, sent in self._sent:
            if sent == number:
                return (pts + self._origin) % (1 << 32)
        return None

    def frame_played(self, rtp: int) -> int | None:
        """Number of the newest frame that has been played when the listener is at RTP time ``rtp``.

        ``None`` when ``rtp`` belongs to no frame that was sent (or remembered: 30 s).
        """
        if self._origin is None or not self._sent:
            return None
        last_pts = self._sent[-1][0]
        behind = rtp_distance(last_pts + self._origin, rtp)
        if behind < 0:
            return None
        for sent_pts, number in reversed(self._sent):
            if sent_pts <= last_pts - behind:
                return number
        return None
