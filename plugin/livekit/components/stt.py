"""Speech to text for LiveKit: Whisper base on the CPU, English and Mandarin."""

from __future__ import annotations

from typing import Final

from ....engines.base import INPUT_HZ, FloatPcm, Language, MissingExtra
from ....engines.cascade.parts import Recogniser, Transcript
from . import parts as engine_parts
from .audio import cut_at_pauses, joined
from .bases import Events, api_errors
from .lanes import Lane, Lanes
from .parts import LOADING_S, Parts, need

try:
    from livekit import rtc
    from livekit.agents import NOT_GIVEN, APIConnectOptions, LanguageCode, NotGivenOr, stt, utils
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

_AT_ONCE_S: Final = 28.0
"""The recogniser hears no more at a time."""
_SHORT_S: Final = 2.0
"""Below this length the language cannot be told from the sound alone: what was spoken before is a hint."""
_PER_SECOND_S: Final = 5.0
"""Deadline for each second of audio, beside that of the loading; an idle machine needs a hundredth of it."""


class STT(stt.STT[Events]):
    """Whole utterances to text; an ``AgentSession`` streams into it through its VAD.

    ``language`` is ``en`` or ``zh`` (or any tag of theirs), ``None`` tells them apart by the sound.  Audio may have any
    rate and number of channels.  Raises ``ValueError`` for another language and :class:`MissingExtra` without the
    ``local`` extra; what fails later is an ``APIError``, as when the models were not pulled.
    """

    def __init__(self, *, language: str | None = None, parts: Parts | None = None) -> None:
        need(__name__, "ctranslate2", "opencc", "tokenizers")
        super().__init__(capabilities=stt.STTCapabilities(streaming=False, interim_results=False))
        self._wanted = None if language is None else known_language(language)
        self._spoken: Language | None = None
        self._parts = parts or engine_parts.shared()
        self._lanes = Lanes("venus-stt")

    @property
    def model(self) -> str:
        return "whisper-base"

    @property
    def provider(self) -> str:
        return "realtime-venus"

    def prewarm(self) -> None:
        """Begin to load the recogniser, without waiting."""
        engine_parts.prewarm(self._parts.recogniser, "recogniser")

    def update_options(self, *, language: str | None) -> None:
        """Another ``language`` from the next utterance on; ``None`` tells them apart.  Raises ``ValueError``."""
        self._wanted = None if language is None else known_language(language)

    async def aclose(self) -> None:
        """Break off what is being recognised and wait for its thread."""
        await self._lanes.aclose()

    async def _recognize_impl(
        self,
        buffer: utils.AudioBuffer,
        *,
        language: NotGivenOr[str] = NOT_GIVEN,
        conn_options: APIConnectOptions,
    ) -> stt.SpeechEvent:
        with api_errors("recognising speech"), self._lanes.open() as lane:
            wanted = known_language(language) if utils.is_given(language) else self._wanted
            seconds = _seconds(buffer)
            found = await lane.run(
                lambda: self._transcribe(joined(buffer), wanted, lane), LOADING_S + seconds * _PER_SECOND_S
            )
        if found.text:
            self._spoken = found.language
        spoken = stt.SpeechData(
            language=LanguageCode(found.language.value),
            text=found.text,
            end_time=seconds,
            confidence=found.confidence,
        )
        return stt.SpeechEvent(
            type=stt.SpeechEventType.FINAL_TRANSCRIPT,
            request_id=utils.shortuuid("stt_"),
            alternatives=[spoken],
        )

    def _transcribe(self, audio: FloatPcm, wanted: Language | None, lane: Lane) -> Transcript:
        recogniser = self._parts.recogniser()
        language = wanted or (self._spoken if audio.size < _SHORT_S * INPUT_HZ else None)
        heard: list[Transcript] = []
        for piece in cut_at_pauses(audio, _AT_ONCE_S):
            one = _recognised(recogniser, piece, language, lane)
            if one is None:
                break
            if one.text:
                heard.append(one)
                language = one.language
        return _together(heard, language or Language.EN)


def known_language(tag: str) -> Language:
    """The language of a tag such as ``en``, ``en-GB``, ``cmn-Hans`` or ``chinese``.

    Raises ``ValueError`` for one that is not spoken here.
    """
    base = LanguageCode(tag).language
    try:
        return Language(base)
    except ValueError:
        spoken = ", ".join(language.value for language in Language)
        raise ValueError(f"no model here knows the language {tag!r}: there are {spoken}") from None


def _recognised(recogniser: Recogniser, audio: FloatPcm, language: Language | None, lane: Lane) -> Transcript | None:
    return None if lane.left else recogniser.transcribe(audio, language, lambda: lane.left)


def _together(heard: list[Transcript], language: Language) -> Transcript:
    if not heard:
        return Transcript("", language, 0.0)
    between = "" if heard[0].language is Language.ZH else " "
    confidence = sum(one.confidence for one in heard) / len(heard)
    return Transcript(between.join(one.text for one in heard), heard[0].language, confidence)


def _seconds(buffer: utils.AudioBuffer) -> float:
    frames = [buffer] if isinstance(buffer, rtc.AudioFrame) else buffer
    return sum(frame.duration for frame in frames)
