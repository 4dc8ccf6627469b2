"""Voice activity for LiveKit: Silero (v6) on the CPU."""

from __future__ import annotations

import logging
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from ....engines.base import FloatPcm, MissingExtra
from . import parts as engine_parts
from .audio import Mono16k, frame_of
from .bases import DetectorStream, api_errors
from .lanes import Lanes
from .parts import LOADING_S, Parts
from .segments import WINDOW, WINDOW_S, Kind, Moment, Segmenter, VadOptions

try:
    from livekit.agents import vad
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

if TYPE_CHECKING:
    from ....engines.silero import SileroVad

_log = logging.getLogger(__name__)

_BELOW: Final = 0.15
"""How far the lower threshold lies under the upper one, unless it is given."""
_LOWEST: Final = 0.01
_EVENTS: Final = {
    Kind.WINDOW: vad.VADEventType.INFERENCE_DONE,
    Kind.STARTED: vad.VADEventType.START_OF_SPEECH,
    Kind.ENDED: vad.VADEventType.END_OF_SPEECH,
}


class VAD(vad.VAD):
    """Where speech begins and ends, every 32 ms.  Durations are seconds, thresholds probabilities.

    Audio may have any rate and number of channels; the frames in its events are mono at 16 kHz.  Raises ``ValueError``
    for options that cannot be.
    """

    def __init__(
        self,
        *,
        min_speech_duration: float = 0.1,
        min_silence_duration: float = 0.4,
        prefix_padding_duration: float = 0.5,
        max_buffered_speech: float = 120.0,
        activation_threshold: float = 0.5,
        deactivation_threshold: float | None = None,
        parts: Parts | None = None,
    ) -> None:
        super().__init__(capabilities=vad.VADCapabilities(update_interval=WINDOW_S))
        self.options = VadOptions(
            min_speech_s=min_speech_duration,
            min_silence_s=min_silence_duration,
            prefix_padding_s=prefix_padding_duration,
            max_buffered_speech_s=max_buffered_speech,
            activation_threshold=activation_threshold,
            deactivation_threshold=_lower(activation_threshold, deactivation_threshold),
        )
        self.parts = parts or engine_parts.shared()
        self.lanes = Lanes("venus-vad")
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()

    @property
    def model(self) -> str:
        return "silero-vad-v6"

    @property
    def provider(self) -> str:
        return "realtime-venus"

    @property
    def min_silence_duration(self) -> float:
        """Seconds of silence that end speech; an ``AgentSession`` checks it against its turn detector's needs."""
        return self.options.min_silence_s

    def prewarm(self) -> None:
        """Begin to load the detector, without waiting."""
        engine_parts.prewarm(self.parts.speech, "vad")

    def update_options(
        self,
        *,
        min_speech_duration: float | None = None,
        min_silence_duration: float | None = None,
        prefix_padding_duration: float | None = None,
        max_buffered_speech: float | None = None,
        activation_threshold: float | None = None,
        deactivation_threshold: float | None = None,
    ) -> None:
        """Other options for this detector and the streams that are open; what is not given stays.

        A new ``activation_threshold`` alone moves the other one with it, as when the detector is made.  Raises
        ``ValueError`` for options that cannot be.
        """
        if activation_threshold is not None:
            deactivation_threshold = _lower(activation_threshold, deactivation_threshold)
        given = {
            "min_speech_s": min_speech_duration,
            "min_silence_s": min_silence_duration,
            "prefix_padding_s": prefix_padding_duration,
            "max_buffered_speech_s": max_buffered_speech,
            "activation_threshold": activation_threshold,
            "deactivation_threshold": deactivation_threshold,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        options = self.options = VadOptions.model_validate(self.options.model_dump() | changes)
        for stream in self._streams:
            stream.segmenter.options = options

    def stream(self) -> vad.VADStream:
        stream = _Stream(self)
        self._streams.add(stream)
        return stream

    async def aclose(self) -> None:
        """End the threads of the streams that are open.  The model stays loaded."""
        await self.lanes.aclose()


class _Stream(DetectorStream):
    def __init__(self, owner: VAD) -> None:
        self._owner = owner
        self.segmenter = Segmenter(owner.options)
        self._silero: SileroVad | None = None
        super().__init__(owner)

    async def detect(self) -> None:
        source, waiting = Mono16k(), np.zeros(0, np.float32)
        with api_errors("detecting speech"), self._owner.lanes.open() as lane:
            async for frame in self.frames():
                if frame is None:
                    source, waiting = Mono16k(), waiting[:0]
                    self.segmenter.reset()
                    await lane.run(self._reset, LOADING_S)
                    continue
                samples = source.push(frame)
                waiting = np.concatenate([waiting, samples])
                began = time.perf_counter()
                probabilities = await lane.run(partial(self._judge, samples), LOADING_S)
                took = (time.perf_counter() - began) / max(1, len(probabilities))
                for probability in probabilities:
                    self._tell(waiting[:WINDOW], probability, took)
                    waiting = waiting[WINDOW:]

    def _judge(self, samples: FloatPcm) -> list[float]:
        if self._silero is None:
            from ....engines.silero import SileroVad

            self._silero = SileroVad(self._owner.parts.speech())
        return self._silero.push(samples)

    def _reset(self) -> None:
        if self._silero is not None:
            self._silero.reset()

    def _tell(self, window: FloatPcm, probability: float, took_s: float) -> None:
        before = self.segmenter.dropped
        for moment in self.segmenter.feed(window, probability):
            self.emit(_event(moment, probability, took_s))
        if not before and self.segmenter.dropped:
            _log.warning(
                "an utterance is longer than what is kept of one: its end is lost",
                extra={"kept_s": self.segmenter.options.max_buffered_speech_s},
            )


def _event(moment: Moment, probability: float, took_s: float) -> vad.VADEvent:
    window = moment.kind is Kind.WINDOW
    return vad.VADEvent(
        type=_EVENTS[moment.kind],
        samples_index=moment.samples,
        timestamp=moment.samples / WINDOW * WINDOW_S,
        speech_duration=moment.speech_s,
        silence_duration=moment.silence_s,
        frames=[frame_of(moment.audio)],
        probability=probability if window else 0.0,
        inference_duration=took_s if window else 0.0,
        speaking=moment.speaking,
        raw_accumulated_silence=moment.run_silence_s if window else 0.0,
        raw_accumulated_speech=moment.run_speech_s if window else 0.0,
    )


def _lower(upper: float, lower: float | None) -> float:
    return max(_LOWEST, upper - _BELOW) if lower is None else lower
