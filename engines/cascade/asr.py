"""Speech to text by Whisper base (MIT), int8, through CTranslate2.

The model was made for windows of 30 s, but its encoder takes shorter ones: a window of the speech and two seconds more
(six or eight at least) costs a quarter and hears as well.  Too short a window makes it repeat itself; that is cut off
where it is plain, else recognised again in the full window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np

from ..base import INPUT_HZ, EngineError, FloatPcm, Language, MissingExtra
from .asr_text import chinese_punctuation, clean, hurried, is_speech, without_loop, without_restart
from .mel import HOP, log_mel
from .parts import Transcript

try:
    import ctranslate2
    from opencc import OpenCC
    from tokenizers import Tokenizer
except ImportError as error:
    raise MissingExtra(__name__, "local") from error

_FULL_S: Final = 30.0
_MARGIN_S: Final = 2.0
_MOST_S: Final = _FULL_S - _MARGIN_S
"""Without silence behind it, half a minute of talk comes back with whole sentences missing."""
_WINDOW_S: Final = {Language.EN: 6.0, Language.ZH: 8.0, None: 8.0}
"""Shortest window by the language known.  Of 233 stems English had 3.4 % errors at 6 s and 3.6 % at 8 s, Mandarin 8.8 %
and 8.2 %; 6 s takes a quarter less time."""
_SHORT_S: Final = 2.0
"""Below this length a first guess of the language is often wrong."""
_FILES: Final = ("model.bin", "config.json", "tokenizer.json")
_TOKENS_PER_S: Final = {Language.EN: 4, Language.ZH: 8}
_TOKENS: Final = 8
_MOST_TOKENS: Final = 220
"""Half of the decoder's positions, as Whisper itself has it."""
_SILENCE: Final = 1e-3
"""Level of the loudest 20 ms (root mean square) below which there is nothing to hear: -60 dB of full scale."""
_CERTAIN: Final = 0.9
_POOR: Final = -1.0
"""A mean log probability below this is worth a second look."""


class _Generated(Protocol):
    sequences_ids: list[list[int]]
    scores: list[float]
    no_speech_prob: float


class _Whisper(Protocol):
    """What is used of ``ctranslate2.models.Whisper``."""

    def encode(self, features: object) -> object: ...

    def detect_language(self, features: object) -> list[list[tuple[str, float]]]: ...

    def generate(
        self,
        features: object,
        prompts: Sequence[Sequence[int]],
        *,
        beam_size: int,
        max_length: int,
        return_scores: bool,
        return_no_speech_prob: bool,
    ) -> list[_Generated]: ...


class _Convert(Protocol):
    def convert(self, text: str) -> str: ...


_LIBRARY: Final = cast(Any, ctranslate2)


@dataclass(frozen=True, slots=True)
class _Reading:
    text: str
    score: float
    no_speech: float
    repeats: bool
    """It ran out of its token budget or is faster than anybody speaks; else a repetition is the speaker's own."""


class WhisperRecogniser:
    """A :class:`~.parts.Recogniser`.

    ``folder`` holds ``model.bin``, ``config.json``, ``tokenizer.json`` and the vocabulary.  ``threads`` is the number
    of cores one call may use, ``workers`` the number of calls that run side by side.
    Raises :class:`~..base.EngineError` for missing or damaged files.
    """

    def __init__(self, folder: Path, *, threads: int = 1, workers: int = 2) -> None:
        missing = [name for name in _FILES if not (folder / name).is_file()]
        if missing:
            raise EngineError(
                f"The recogniser's files {', '.join(missing)} are not in {folder}: run 'venus models pull'"
            )
        try:
            self._model = cast(
                _Whisper,
                _LIBRARY.models.Whisper(
                    str(folder), device="cpu", compute_type="int8", intra_threads=threads, inter_threads=workers
                ),
            )
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # The tokenizer's loader raises the bare Exception class.
        except Exception as error:
            raise EngineError(f"The recogniser in {folder} is damaged: run 'venus models verify' ({error})") from error
        self._simplify = cast(_Convert, OpenCC("t2s"))
        self._prompts: Mapping[Language, list[int]] = {language: self._prompt(language) for language in Language}
        self._first_special = self._token("<|endoftext|>")

    def _token(self, name: str) -> int:
        token = self._tokenizer.token_to_id(name)
        if token is None:
            raise EngineError(f"The recogniser's tokenizer lacks {name}: this is not a multilingual Whisper model")
        return token

    def _prompt(self, language: Language) -> list[int]:
        names = ("<|startoftranscript|>", f"<|{language}|>", "<|transcribe|>", "<|notimestamps|>")
        return [self._token(name) for name in names]

    def warm(self) -> None:
        """Run every stage once, so that the first real call is not the slow one."""
        for language in Language:
            self._read(self._encode(np.zeros(INPUT_HZ, np.float32), _WINDOW_S[language]), language, 0.5)

    def transcribe(
        self, audio: FloatPcm, language: Language | None = None, stale: Callable[[], bool] | None = None
    ) -> Transcript | None:
        """Transcribe mono 16 kHz audio, the newest 28 s of it; see :class:`~.parts.Recogniser`.

        Below 2 s a ``language`` asked for is a strong hint: only clear evidence for the other one overrules it.
        """
        audio = audio[-int(_MOST_S * INPUT_HZ) :]
        if not np.isfinite(audio).all():
            audio = np.nan_to_num(audio, posinf=1, neginf=-1)
        if _loudest(audio) < _SILENCE:
            return Transcript("", language or Language.EN, 0.0)
        seconds = len(audio) / INPUT_HZ
        encoded = self._encode(audio, min(_FULL_S, max(_WINDOW_S[language], seconds + _MARGIN_S)))
        if stale is not None and stale():
            return None
        if language is None or seconds < _SHORT_S:
            language = self._detect(encoded, language)
        reading = self._read(encoded, language, seconds)
        if reading.repeats and without_restart(reading.text) != reading.text:
            reading = replace(reading, text=without_restart(reading.text), repeats=False)
        elif _doubtful(reading, seconds):
            if stale is not None and stale():
                return None
            again = self._read(self._encode(audio, _FULL_S), language, seconds)
            if (_loops(again), -again.score) < (_loops(reading), -reading.score):
                reading = again
        if _loops(reading):
            reading = replace(reading, text=without_loop(reading.text))
        return self._transcript(reading, language)

    def _transcript(self, reading: _Reading, language: Language) -> Transcript:
        text = clean(reading.text)
        if not is_speech(text, reading.score, reading.no_speech):
            return Transcript("", language, 0.0)
        if language is Language.ZH:
            text = chinese_punctuation(self._simplify.convert(text))
        return Transcript(text, language, min(1.0, math.exp(reading.score)))

    def _encode(self, audio: FloatPcm, window_s: float) -> object:
        window = np.zeros(int(window_s * INPUT_HZ) // HOP * HOP, np.float32)
        used = min(len(audio), len(window))
        window[:used] = audio[:used]
        return self._model.encode(_LIBRARY.StorageView.from_array(log_mel(window, 0, used)[None]))

    def _detect(self, encoded: object, hint: Language | None) -> Language:
        heard = dict(self._model.detect_language(encoded)[0])
        en, zh = heard["<|en|>"], heard["<|zh|>"]
        certainty = zh / (en + zh + 1e-9)
        if hint is not None:
            other = certainty if hint is Language.EN else 1 - certainty
            if other < _CERTAIN:
                return hint
        return Language.ZH if certainty > 0.5 else Language.EN

    def _read(self, encoded: object, language: Language, seconds: float) -> _Reading:
        budget = min(_MOST_TOKENS, int(_TOKENS + seconds * _TOKENS_PER_S[language]))
        reading = self._decode(encoded, language, budget)
        if reading.repeats and reading.text == without_restart(without_loop(reading.text)):
            reading = self._decode(encoded, language, min(_MOST_TOKENS, 2 * budget))  # a fast speaker
        return reading if reading.repeats else replace(reading, repeats=hurried(reading.text, seconds, language))

    def _decode(self, encoded: object, language: Language, budget: int) -> _Reading:
        result = self._model.generate(
            encoded,
            [self._prompts[language]],
            beam_size=1,
            max_length=2 * budget,  # CTranslate2 stops Whisper at half of what it is given
            return_scores=True,
            return_no_speech_prob=True,
        )[0]
        tokens = [token for token in result.sequences_ids[0] if token < self._first_special]
        text = self._tokenizer.decode(tokens, skip_special_tokens=True).strip()
        return _Reading(text, result.scores[0], result.no_speech_prob, len(tokens) >= budget)


def _loudest(audio: FloatPcm) -> float:
    """Level (root mean square) of the loudest 20 ms."""
    frame = INPUT_HZ // 50
    frames = audio[: len(audio) // frame * frame].reshape(-1, frame)
    return float(np.sqrt(np.max(np.mean(frames * frames, axis=1)))) if len(frames) else 0.0


def _loops(reading: _Reading) -> bool:
    return reading.repeats and without_loop(reading.text) != reading.text


def _doubtful(reading: _Reading, seconds: float) -> bool:
    """Whether the full window, four times the work, may give something better."""
    if _loops(reading):
        return True
    return seconds >= 1 and reading.score < _POOR and is_speech(clean(reading.text), reading.score, reading.no_speech)
