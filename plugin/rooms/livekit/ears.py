"""Everything that is heard: the microphones become one stream on the room's clock, and who spoke is remembered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from ....engines.base import FloatPcm
from ..base import AudioChunk
from ..input import InputCounters, UserAudio
from .mixer import Block, MixCounters, Mixer
from .speakers import SpeakerLog

_FILL_AFTER_S = 0.5
"""Without audio for so long time goes on by itself."""


class Ears:
    """``now_s`` is the event loop's clock."""

    def __init__(self, backlog_ms: int, mix_wait_ms: int, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._audio = UserAudio(backlog_ms)
        self._mixer = Mixer(self._audio.clock, mix_wait_ms)
        self._speakers = SpeakerLog()

    @property
    def microphones(self) -> int:
        """How many microphones sound in the mix at the moment."""
        return self._mixer.sources

    @property
    def input_counters(self) -> InputCounters:
        """What happened to the mix."""
        return self._audio.counters

    @property
    def mix_counters(self) -> MixCounters:
        """What happened on the way into the mix."""
        return self._mixer.counters

    @property
    def clock_ms(self) -> float:
        """Milliseconds since :meth:`begin`."""
        return self._audio.clock.milliseconds(self._now_s())

    def begin(self) -> None:
        """Time begins, if it has not yet."""
        self._audio.clock.position(self._now_s())

    def chunks(self) -> AsyncIterator[AudioChunk]:
        """The mix, until :meth:`close`."""
        return self._audio.chunks()

    def close(self) -> None:
        """End the stream; what waits is still read."""
        self._audio.close()

    def sound(self, key: str, speaker: str, samples: FloatPcm) -> None:
        """Audio of the microphone ``key``: ``float32[n]`` at 16 kHz."""
        now_s = self._now_s()
        self._audio.counters.received += 1
        nobody_sent = self._mixer.sources == 0
        blocks = self._mixer.add(key, speaker, samples, now_s, self._audio.next_position)
        if nobody_sent and blocks:
            self._audio.silence_until(blocks[0].position, now_s)
        self._mixed(blocks, now_s)
        self._audio.arrived(now_s)

    def ended(self, key: str, speaker: str) -> None:
        """The microphone is gone."""
        now_s = self._now_s()
        self._mixed(self._mixer.remove(key, now_s), now_s)
        self._speakers.forget(speaker)

    def fill(self, *, stalled: bool) -> None:
        """Let time go on where no audio comes.  ``stalled``: the event loop was late, so there may be some unread."""
        now_s, last_s = self._now_s(), self._audio.last_arrival_s
        if not stalled and self._audio.clock.started and (last_s is None or now_s - last_s > _FILL_AFTER_S):
            self._audio.fill(now_s, lost=self._mixer.sources > 0)

    def speaker(self, start_ms: int, end_ms: int) -> str | None:
        """Who was loudest between two moments."""
        return self._speakers.speaker(start_ms, end_ms)

    def _mixed(self, blocks: list[Block], now_s: float) -> None:
        for block in blocks:
            self._speakers.note(block.position, block.powers)
            self._audio.put(block.samples, block.position, now_s)
