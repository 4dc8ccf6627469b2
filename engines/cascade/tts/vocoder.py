"""Kokoro's vocoder, run over a few frames at a time as if it saw the whole clause.

Its 54 layers of instance normalisation take mean and variance over the time they are shown, so that a short piece
comes out in another timbre than the clause it belongs to (of 116 Mandarin syllables 17 were misheard).  Here the
statistics are measured once per voice on a sentence or two, and every piece is normalised by these: the pieces then fit
together, need little context, and none of 72 syllables was misheard.  For the same reason the acoustic half of the
style, which in Kokoro depends on the length of the text, is held at one row.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import numpy as np

from ...base import EngineError, FloatPcm
from ...onnx_session import OnnxSession, Tensor

TEXT_OUTPUTS: Final = ("/encoder/MatMul_1_output_0", "/encoder/Reshape_output_0", "/encoder/Reshape_1_output_0")
"""Where the whole graph is cut: text features ``float32[1, 512, frames]``, F0 and energy ``float32[1, 2 * frames]``."""
FRAME: Final = 600
"""Samples per frame: 25 ms."""

_RECIPE: Final = 1
"""Goes up when what is kept in the cache must be made anew."""
_INPUTS: Final = (*TEXT_OUTPUTS, "style")

_log = logging.getLogger(__name__)

Features = tuple[Tensor, Tensor, Tensor]
"""Text features, F0 and energy of some frames."""
Norms = Mapping[str, Tensor]
"""Means and variances, ``float32[1, channels, 1]``, by the name of the tensor in the graph."""


def frames_of(features: Features, first: int, end: int) -> Features:
    """The frames ``[first, end)``."""
    text, pitch, energy = features
    return text[:, :, first:end], pitch[:, 2 * first : 2 * end], energy[:, 2 * first : 2 * end]


class Vocoder:
    """``graph`` is the vocoder half of Kokoro as it is; what is made of it is kept in the folder ``cache``.

    Raises :class:`~...base.EngineError` for a missing or damaged graph.
    """

    def __init__(self, graph: Path, cache: Path, threads: int) -> None:
        if not graph.is_file():
            raise EngineError(f"The model file {graph} does not exist: run 'venus models pull'")
        self._graph, self._cache, self._threads = graph, cache, threads
        self._key = f"{_RECIPE}-{hashlib.sha256(graph.read_bytes()).hexdigest()[:12]}"
        still = cache / f"kokoro-still-{self._key}.onnx"
        if not still.is_file():
            # Needs a large library, which is imported only where something must be made.
            from .vocoder_graph import with_statistics_given

            made = with_statistics_given(graph, _INPUTS)
            self._session = OnnxSession(made if not _keep(still, made) else still, threads)
        else:
            self._session = OnnxSession(still, threads)

    def run(self, features: Features, style: Tensor, norms: Norms) -> FloatPcm:
        """The wave of some frames, ``float32[frames * 600]``; ``style`` is ``float32[1, 256]``."""
        (audio,) = self._session.run({**_feeds(features, style), **norms})
        return np.ravel(audio)

    def norms(self, voice: str, style: Tensor, measured_on: Callable[[], Features]) -> Norms:
        """The statistics of a voice: from the cache, else measured (two seconds of both cores)."""
        digest = hashlib.sha256(style.tobytes()).hexdigest()[:12]
        kept = self._cache / f"kokoro-norms-{self._key}-{voice}-{digest}.npz"
        try:
            with np.load(kept, allow_pickle=False) as file:
                return {name.replace("|", "/"): file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile):
            pass  # not there, or not what was written
        from .vocoder_graph import with_statistics_shown

        shown, names = with_statistics_shown(self._graph)
        measured = OnnxSession(shown, self._threads).run(_feeds(measured_on(), style), names)
        norms = dict(zip(names, measured, strict=True))
        buffer = io.BytesIO()
        save = cast(Callable[..., None], np.savez)  # its stub takes the arrays' names for options
        save(buffer, **{name.replace("/", "|"): norm for name, norm in norms.items()})
        _keep(kept, buffer.getvalue())
        return norms


def _feeds(features: Features, style: Tensor) -> dict[str, Tensor]:
    return {**dict(zip(TEXT_OUTPUTS, features, strict=True)), "style": style}


def _keep(path: Path, content: bytes) -> bool:
    """Write a file of the cache in one step; without room or rights for it, it is made again next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(content)
                file.close()
                os.replace(file.name, path)
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        _log.warning("a file of the voice cache could not be kept", extra={"file": path.name, "reason": str(error)})
        return False
    return True
