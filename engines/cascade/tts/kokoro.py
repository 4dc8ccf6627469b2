"""Speech by Kokoro-82M (Apache-2.0), Mandarin and English, in pieces.

The graph is cut in two.  The text half gives features, pitch and energy for the whole clause in some tens of
milliseconds; the vocoder, slower than anything else in the cascade, then runs over a few frames at a time and never
over silence.  A frame is 25 ms: 600 samples, one column of features, two values of pitch and of energy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from threading import Lock
from typing import Final, cast

import numpy as np

from ...base import EngineError, FloatPcm, Language
from ...onnx_session import OnnxSession, Tensor
from ..parts import Voiced
from .g2p import MandarinPhonemes, Phonemes
from .pcm import ms, sentences, to_int16, with_tail, without_lead
from .vocoder import FRAME, TEXT_OUTPUTS, Features, Norms, Vocoder, frames_of

_AUDIBLE: Final = -7.0
"""Energy (natural logarithm, as predicted) from which a half frame is sounding."""
_BEFORE: Final = 1
_AFTER: Final = 2
"""Frames vocoded before the first and after the last sounding one.  Sound was found from 1 to 3 frames after the one
and until 2 before the other."""
_MOST_PHONEMES: Final = 508
_STYLE: Final = 256
_JOIN: Final = ms(10)
_SHIFT: Final = ms(6)
_SPOKEN: Final = re.compile(r"\w")
_LANGUAGES: Final = {"a": Language.EN, "b": Language.EN, "z": Language.ZH}
"""By the first letter of a voice's name."""


_ROW: Final = 40
"""The row of the style that the vocoder always gets: that of a clause of ten characters or so."""
_MEASURED_ON: Final = {
    Language.EN: "The weather is lovely today, good for a walk. Which step would you like to begin with?",
    Language.ZH: "今天的天气非常不错，适合出门散步。你想先从哪一步开始？",
}


@dataclass(frozen=True, slots=True)
class PieceSizes:
    """Frames (25 ms) per run of the vocoder: ``frames`` of each piece in turn, the last size for all that follow.

    ``context`` frames on either side are vocoded with each piece and thrown away; a remainder shorter than ``rest``
    joins the piece before it.  With the sizes as they are, and 16 ms of work for each frame (two Intel cores), every
    piece is ready before those before it have been played.
    """

    frames: tuple[int, ...] = (12, 9, 10, 11, 12, 14, 17, 21, 27, 32)
    context: int = 2
    rest: int = 4


@dataclass(frozen=True, slots=True)
class _Style:
    language: Language
    rows: Tensor
    """``float32[510, 256]``: the acoustic half, then the prosodic one, by the number of phonemes."""


class KokoroVoice:
    """A :class:`~..parts.Voice`; ``names`` are the styles given that speak Mandarin, then those that speak English.

    ``text_graph`` and ``vocoder_graph`` are the halves of the graph, ``vocab`` the JSON file of its phonemes,
    ``styles`` the voices' files by name, ``english`` English text to phonemes (:meth:`~.hibari.HibariVoice.phonemes`).
    ``cache`` is a folder for what is made of the vocoder once (by default that of its graph).
    Safe from several threads, though two at once only slow each other down.  Raises :class:`~...base.EngineError`
    for missing or damaged files, and when there is no Mandarin G2P for this Python.
    """

    def __init__(
        self,
        text_graph: Path,
        vocoder_graph: Path,
        vocab: Path,
        styles: Mapping[str, Path],
        english: Phonemes,
        *,
        cache: Path | None = None,
        threads: int = 2,
        pieces: PieceSizes | None = None,
    ) -> None:
        self._english = english
        self._mandarin = MandarinPhonemes(english)
        self._pieces = pieces or PieceSizes()
        self._vocab = _load_vocab(vocab)
        self._styles = {
            name: _Style(_LANGUAGES[name[0]], _load_style(path))
            for name, path in styles.items()
            if name[:1] in _LANGUAGES
        }
        self.names = tuple(sorted(self._styles, key=_default_first))
        self.languages = tuple(language for language in Language if self.names_of(language))
        if not self.names:
            raise EngineError("No Kokoro voice for English or Mandarin was given: run 'venus models pull'")
        self._text = OnnxSession(text_graph, threads)
        self._vocoder = Vocoder(vocoder_graph, cache or vocoder_graph.parent, threads)
        self._norms: dict[str, Norms] = {}
        self._lock = Lock()

    def names_of(self, language: Language) -> tuple[str, ...]:
        """The voices that speak ``language``, the default first."""
        return tuple(name for name in self.names if _LANGUAGES[name[0]] is language)

    def warm(self) -> None:
        """Get the default voice ready: dictionaries, its statistics, one run of both graphs.

        A second when this machine has done it before, some seconds the first time.
        """
        language = self._styles[self.names[0]].language
        for _ in self.synthesize("你好。" if language is Language.ZH else "Hello."):
            pass

    def prepare(self, name: str) -> None:
        """Measure what a voice needs before its first word, once per machine (two seconds of both cores).

        Raises ``ValueError`` for an unknown voice.
        """
        self._known(name)
        self._norms_of(name)

    def phonemes(self, text: str, language: Language) -> str:
        """What is spoken for ``text``, in Kokoro's alphabet."""
        return self._mandarin(text) if language is Language.ZH else self._english(text)

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        """Speak a clause, the first piece within a fraction of its length; closing the iterator drops the rest.

        The voice decides the language when both are given.  Text without anything to say gives one empty piece.
        Raises ``ValueError`` for an unknown voice.
        """
        if name is None:
            known = self.names_of(language or Language.ZH) or self.names
            name = known[0]
        self._known(name)
        return self._speak(text, name)

    def _speak(self, text: str, name: str) -> Iterator[Voiced]:
        language = self._styles[name].language
        norms = self._norms_of(name)
        silence = np.zeros(0, np.int16)
        clauses = [
            (clause, ids[start : start + _MOST_PHONEMES])
            for clause in sentences(text, 80 if language is Language.ZH else 200)
            for ids in [self._ids(clause, language)]
            for start in range(0, len(ids), _MOST_PHONEMES)
        ]
        for index, (clause, ids) in enumerate(clauses):
            for piece, last in self._vocode(ids, self._styles[name].rows, norms):
                if last:
                    yield Voiced(to_int16(with_tail(piece, clause)), last=index == len(clauses) - 1)
                else:
                    yield Voiced(to_int16(piece), last=False)
        if not clauses:
            yield Voiced(silence, last=True)

    def _ids(self, text: str, language: Language) -> list[int]:
        phonemes = self.phonemes(text, language)
        if not _SPOKEN.search(phonemes):
            return []
        return [self._vocab[sign] for sign in phonemes if sign in self._vocab]

    def _known(self, name: str) -> None:
        if name not in self._styles:
            raise ValueError(f"unknown voice {name!r}: Kokoro has {', '.join(self.names)}")

    def _norms_of(self, name: str) -> Norms:
        with self._lock:
            norms = self._norms.get(name)
            if norms is None:
                style = self._styles[name]

                def measured_on() -> Features:
                    ids = self._ids(_MEASURED_ON[style.language], style.language)
                    features, first, end = self._features(ids, style.rows)
                    return frames_of(features, max(0, first - 3), end + 3)

                norms = self._norms[name] = self._vocoder.norms(name, style.rows[_ROW][None], measured_on)
        return norms

    def _features(self, ids: list[int], rows: Tensor) -> tuple[Features, int, int]:
        """What the vocoder needs for the phonemes, and which frames of it, ``[first, end)``: none for silence."""
        style = rows[min(len(ids), len(rows) - 1)][None]
        feeds = {"tokens": np.array([[0, *ids, 0]], np.int64), "style": style, "speed": np.ones(1, np.float32)}
        features, pitch, energy = self._text.run(feeds, TEXT_OUTPUTS)
        sounding = np.flatnonzero(np.ravel(energy) > _AUDIBLE)
        if not len(sounding):
            return (features, pitch, energy), 0, 0
        first = max(0, int(sounding[0]) // 2 - _BEFORE)
        return (features, pitch, energy), first, min(features.shape[2], int(sounding[-1]) // 2 + 1 + _AFTER)

    def _vocode(self, ids: list[int], rows: Tensor, norms: Norms) -> Iterator[tuple[FloatPcm, bool]]:
        """The clause's audio, from 10 ms before its first sound, and whether each piece is the last one.

        Joins are blended where the waves agree best.
        """
        features, begin, end = self._features(ids, rows)
        if begin == end:
            yield np.zeros(0, np.float32), True
            return
        sizes = chain(self._pieces.frames, repeat(self._pieces.frames[-1]))
        at = begin
        tail: FloatPcm | None = None
        while at < end:
            size = next(sizes)
            stop = end if end - at < size + self._pieces.rest else at + size
            since, until = max(begin, at - self._pieces.context), min(end, stop + self._pieces.context)
            audio = self._vocoder.run(frames_of(features, since, until), rows[_ROW][None], norms)
            start = (at - since) * FRAME
            if tail is None:
                piece = without_lead(audio[: (stop - since) * FRAME])
            else:
                start = _best_join(audio, start, tail)
                piece = audio[start : (stop - since) * FRAME].copy()
                fade = np.linspace(0, 1, len(tail), dtype=np.float32)
                piece[: len(tail)] = piece[: len(tail)] * fade + tail * (1 - fade)
            tail = audio[(stop - since) * FRAME :][:_JOIN]
            if len(piece) or stop == end:
                yield piece, stop == end
            at = stop


def _best_join(audio: FloatPcm, around: int, tail: FloatPcm) -> int:
    """Where in ``audio``, near ``around``, the wave is most like ``tail``.

    Pieces are vocoded with phases of their own; without this a voiced sound would dip at the join.
    """
    first = max(0, around - _SHIFT)
    windows = np.lib.stride_tricks.sliding_window_view(audio[first : around + _SHIFT + len(tail)], len(tail))
    norms = np.sqrt(np.sum(windows * windows, axis=1)) + np.float32(1e-3)
    return first + int(np.argmax(windows @ tail / norms))


def _default_first(name: str) -> tuple[bool, bool, str]:
    return (_LANGUAGES[name[0]] is not Language.ZH, name not in ("zf_xiaoxiao", "af_heart"), name)


def _load_vocab(path: Path) -> dict[str, int]:
    try:
        return cast(dict[str, int], json.loads(path.read_text(encoding="utf-8"))["vocab"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"Kokoro's alphabet {path} cannot be read: run 'venus models verify' ({error})") from error


def _load_style(path: Path) -> Tensor:
    try:
        style = np.fromfile(path, np.float32)
    except OSError as error:
        raise EngineError(f"The voice {path} cannot be read: run 'venus models pull' ({error})") from error
    if not len(style) or len(style) % _STYLE:
        raise EngineError(f"The voice {path} is damaged: run 'venus models verify'")
    return style.reshape(-1, _STYLE)
