"""Text to speech for LiveKit: hibari for English, Kokoro for Mandarin, on the CPU."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ....engines.base import OUTPUT_HZ, Language, MissingExtra
from . import parts as engine_parts
from .bases import Events, TextStream, WholeTextStream, api_errors
from .lanes import Lane, Lanes
from .parts import LOADING_S, Parts, need
from .stt import known_language

try:
    from livekit.agents import DEFAULT_API_CONNECT_OPTIONS, APIConnectOptions, tts, utils
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

if TYPE_CHECKING:
    from .speaking import Clause, Clauses, Speaker

_CLAUSE_S: Final = 60.0
"""Deadline of one clause."""
_NOTHING: Final = bytes(2 * OUTPUT_HZ // 50)
"""20 ms of silence: LiveKit takes a text without any sound for a failure, and a smile has none."""


class TTS(tts.TTS[Events]):
    """Speech at 24 kHz, mono, which begins with the first clause while the text is still being written.

    ``voice`` is a name of :meth:`voices`; ``None`` takes the default of the language.  ``language`` is ``en`` or
    ``zh``, ``None`` tells by the script of each clause.  Numbers, dates, units and the like are read out.
    Raises ``ValueError`` for another language and :class:`MissingExtra` without the ``local`` extra; what fails later
    is an ``APIError``, as when the voice is unknown or the models were not pulled.
    """

    def __init__(self, *, voice: str | None = None, language: str | None = None, parts: Parts | None = None) -> None:
        need(__name__, "hibari", "jieba")
        super().__init__(capabilities=tts.TTSCapabilities(streaming=True), sample_rate=OUTPUT_HZ, num_channels=1)
        self.voice = voice
        self.language = None if language is None else known_language(language)
        self.parts = parts or engine_parts.shared()
        self.lanes = Lanes("venus-tts")

    @property
    def model(self) -> str:
        return "hibari+kokoro-82m"

    @property
    def provider(self) -> str:
        return "realtime-venus"

    def prewarm(self) -> None:
        """Begin to load the voices, without waiting."""
        engine_parts.prewarm(self.parts.voices, "voices")

    def update_options(self, *, voice: str | None, language: str | None = None) -> None:
        """Another voice, or language, from the next text on.  Raises ``ValueError`` for an unknown language."""
        self.language = None if language is None else known_language(language)
        self.voice = voice

    async def voices(self) -> Mapping[Language, tuple[str, ...]]:
        """The names of the voices by language, the default first; loads them."""
        with api_errors("loading the voices"), self.lanes.open() as lane:
            book = await lane.run(self.parts.voices, LOADING_S)
        return {language: book.names(language) for language in Language}

    def synthesize(
        self, text: str, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS
    ) -> tts.ChunkedStream:
        return _Whole(self, input_text=text, conn_options=conn_options)

    def stream(self, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS) -> tts.SynthesizeStream:
        return _Growing(self, conn_options=conn_options)

    async def aclose(self) -> None:
        """Break off what is being spoken and wait for the threads.  The voices stay loaded."""
        await self.lanes.aclose()


class _Whole(WholeTextStream):
    def __init__(self, owner: TTS, *, input_text: str, conn_options: APIConnectOptions) -> None:
        self._owner = owner
        super().__init__(owner, input_text=input_text, conn_options=conn_options)

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id=utils.shortuuid("tts_"), sample_rate=OUTPUT_HZ, num_channels=1, mime_type="audio/pcm"
        )
        with api_errors("speaking"), self._owner.lanes.open() as lane:
            await _Speech(self._owner, lane, output_emitter, lambda: None).speak(_once(self.input_text))


class _Growing(TextStream):
    def __init__(self, owner: TTS, *, conn_options: APIConnectOptions) -> None:
        self._owner = owner
        super().__init__(owner, conn_options=conn_options)

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        request = utils.shortuuid("tts_")
        output_emitter.initialize(
            request_id=request, sample_rate=OUTPUT_HZ, num_channels=1, mime_type="audio/pcm", stream=True
        )
        output_emitter.start_segment(segment_id=request)
        with api_errors("speaking"), self._owner.lanes.open() as lane:
            await _Speech(self._owner, lane, output_emitter, self.begun).speak(self.pieces())


async def _once(text: str) -> AsyncIterator[str | None]:
    yield text


class _Speech:
    """One text on its way into an emitter."""

    def __init__(self, owner: TTS, lane: Lane, emitter: tts.AudioEmitter, begun: Callable[[], None]) -> None:
        self._owner, self._lane, self._emitter, self._begun = owner, lane, emitter, begun
        self._loop = asyncio.get_running_loop()
        self._silent = True

    async def speak(self, pieces: AsyncIterator[str | None]) -> None:
        """Speak the pieces as they come; ``None`` among them ends a clause."""
        clauses, speaker = await self._lane.run(self._prepared, LOADING_S)
        words = False
        async for piece in pieces:
            words = words or bool(piece and piece.strip())
            cut = clauses.finish if piece is None else partial(clauses.feed, piece)
            await self._say(cut, speaker)
        await self._say(clauses.finish, speaker)
        if words and self._silent:
            self._emitter.push(_NOTHING)

    def _prepared(self) -> tuple[Clauses, Speaker]:
        from .speaking import Clauses, Speaker, clause_options

        book, settings = self._owner.parts.voices(), self._owner.parts.settings()
        return Clauses(self._owner.language, clause_options(settings)), Speaker(book, self._owner.voice)

    async def _say(self, cut: Callable[[], list[Clause]], speaker: Speaker) -> None:
        for clause in await self._lane.run(cut, _CLAUSE_S):
            self._begun()
            await self._lane.run(partial(self._voice, speaker, clause), _CLAUSE_S)
            self._emitter.flush()

    def _voice(self, speaker: Speaker, clause: Clause) -> None:
        for pcm in speaker.speak(clause):
            if self._lane.left:
                return
            self._silent = False
            self._loop.call_soon_threadsafe(self._emitter.push, pcm.tobytes())
