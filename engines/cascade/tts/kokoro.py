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
from pathlib import Path
from typing import Final, cast

import numpy as np

from ...base import EngineError, FloatPcm, Language
from ...onnx_session import OnnxSession, Tensor
from ..parts import Voiced
from .g2p import MandarinPhonemes, Phonemes
from .pcm import ms, sentences, to_int16, with_tail, without_lead

TEXT_OUTPUTS: Final = ("/encoder/MatMul_1_output_0", "/encoder/Reshape_output_0", "/encoder/Reshape_1_output_0")
"""Where the graph is cut: text features, F0, energy."""

_FRAME: Final = 600
_AUDIBLE: Final = -7.0
"""Energy (natural logarithm, as predicted) from which a half frame is sounding."""
_BEFORE: Final = 4
_AFTER: Final = 3
"""Frames vocoded before the first and after the last sounding one: soft consonants begin early."""
_MOST_PHONEMES: Final = 508
_STYLE: Final = 256
_JOIN: Final = ms(10)
_SHIFT: Final = ms(6)
_SPOKEN: Final = re.compile(r"\w")
_LANGUAGES: Final = {"a": Language.EN, "b": Language.EN, "z": Language.ZH}
"""By the first letter of a voice's name."""


@dataclass(frozen=True, slots=True)
class PieceSizes:
    """Frames (25 ms) per run of the vocoder: of the first piece, of each following one, and of context on each side."""

    first: int = 14
    next: int = 32
    context: int = 6


class KokoroVoice:
    """A :class:`~..parts.Voice`; ``names`` are the styles given that speak Mandarin, then those that speak English.

    ``text_graph`` and ``vocoder_graph`` are the halves of the graph, ``vocab`` the JSON file of its phonemes,
    ``styles`` the voices' files by name, ``english`` English text to phonemes (:meth:`~.hibari.HibariVoice.phonemes`).
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
        threads: int = 2,
        pieces: PieceSizes | None = None,
    ) -> None:
        self._english = english
        self._mandarin = MandarinPhonemes(english)
        self._pieces = pieces or PieceSizes()
        self._vocab = _load_vocab(vocab)
        self._styles = {name: _load_style(path) for name, path in styles.items() if name[:1] in _LANGUAGES}
        self.names = tuple(sorted(self._styles, key=_default_first))
        self.languages = tuple(language for language in Language if self.names_of(language))
        if not self.names:
            raise EngineError("No Kokoro voice for English or Mandarin was given: run 'venus models pull'")
        self._text = OnnxSession(text_graph, threads)
        self._vocoder = OnnxSession(vocoder_graph, threads)

    def names_of(self, language: Language) -> tuple[str, ...]:
        """The voices that speak ``language``, the default first."""
        return tuple(name for name in self.names if _LANGUAGES[name[0]] is language)

    def warm(self) -> None:
        """Load the dictionaries (most of a second, once) and run both graphs."""
        for language, text in ((Language.ZH, "你好。"), (Language.EN, "Hello.")):
            if self.names_of(language):
                for _ in self.synthesize(text, language=language):
                    pass

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
        style = self._styles.get(name)
        if style is None:
            raise ValueError(f"unknown voice {name!r}: Kokoro has {', '.join(self.names)}")
        return self._speak(text, style, _LANGUAGES[name[0]])

    def _speak(self, text: str, style: Tensor, language: Language) -> Iterator[Voiced]:
        silence = np.zeros(0, np.int16)
        clauses = [
            (clause, ids[start : start + _MOST_PHONEMES])
            for clause in sentences(text, 80 if language is Language.ZH else 200)
            for ids in [self._ids(clause, language)]
            for start in range(0, len(ids), _MOST_PHONEMES)
        ]
        for index, (clause, ids) in enumerate(clauses):
            for piece, last in self._vocode(ids, style[min(len(ids), len(style) - 1)][None]):
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

    def _vocode(self, ids: list[int], style: Tensor) -> Iterator[tuple[FloatPcm, bool]]:
        """The clause's audio, from 10 ms before its first sound, and whether each piece is the last one.

        Joins are blended where the waves agree best.
        """
        feeds = {"tokens": np.array([[0, *ids, 0]], np.int64), "style": style, "speed": np.ones(1, np.float32)}
        features, pitch, energy = self._text.run(feeds, TEXT_OUTPUTS)
        sounding = np.flatnonzero(np.ravel(energy) > _AUDIBLE)
        if not len(sounding):
            yield np.zeros(0, np.float32), True
            return
        begin = max(0, int(sounding[0]) // 2 - _BEFORE)
        end = min(features.shape[2], int(sounding[-1]) // 2 + 2 * _AFTER)
        at, size = begin, self._pieces.first
        tail: FloatPcm | None = None
        while at < end:
            stop = end if end - at < size + self._pieces.first // 2 else at + size
            since, until = max(begin, at - self._pieces.context), min(end, stop + self._pieces.context)
            halves = slice(2 * since, 2 * until)
            inputs = (features[:, :, since:until], pitch[:, halves], energy[:, halves])
            (output,) = self._vocoder.run({**dict(zip(TEXT_OUTPUTS, inputs, strict=True)), "style": style})
            audio = cast(FloatPcm, np.ravel(output))
            start = (at - since) * _FRAME
            if tail is None:
                piece = without_lead(audio[: (stop - since) * _FRAME])
            else:
                start = _best_join(audio, start, tail)
                piece = audio[start : (stop - since) * _FRAME].copy()
                fade = np.linspace(0, 1, len(tail), dtype=np.float32)
                piece[: len(tail)] = piece[: len(tail)] * fade + tail * (1 - fade)
            tail = audio[(stop - since) * _FRAME :][:_JOIN]
            if len(piece) or stop == end:
                yield piece, stop == end
            at, size = stop, self._pieces.next


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
