"""The two released graphs that a reference voice goes through: the S3 speech tokenizer and the CAM++ speaker model.

They are run as they come, on the CPU: what their inputs are called is read from the graphs.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base import EngineError, FloatPcm
from ..onnx_session import OnnxSession
from .fbank import kaldi_fbank
from .mel import log_mel

TOKENIZER: Final = "speech_tokenizer_v2_25hz.onnx"
SPEAKER: Final = "campplus.onnx"

_TOKENIZER_MELS: Final = 128
_INTEGERS: Final[dict[str, type[np.signedinteger[Any]]]] = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}
_FLOATS: Final = "tensor(float)"


def speech_codes(wave: FloatPcm, assets: Path) -> npt.NDArray[np.int64]:
    """25 codes a second of ``float32[n]`` at 16 kHz: ``int64[codes]``."""
    session = OnnxSession(assets / TOKENIZER)
    features = [name for name, kind in session.inputs.items() if kind == _FLOATS]
    lengths = [name for name, kind in session.inputs.items() if kind in _INTEGERS]
    if len(features) != 1 or len(lengths) != 1:
        raise EngineError(f"{assets / TOKENIZER} is not a speech tokenizer: fetch the model's files again")
    mel = log_mel(wave, _TOKENIZER_MELS)
    length = np.array([mel.shape[1]], _INTEGERS[session.inputs[lengths[0]]])
    codes = session.run({features[0]: mel[None], lengths[0]: length})[0]
    return np.ravel(codes).astype(np.int64)


def speaker_vector(wave: FloatPcm, assets: Path) -> npt.NDArray[np.float32]:
    """Who speaks in ``float32[n]`` at 16 kHz: ``float32[192]``, not normalised."""
    session = OnnxSession(assets / SPEAKER)
    if list(session.inputs.values()) != [_FLOATS]:
        raise EngineError(f"{assets / SPEAKER} is not a speaker model: fetch the model's files again")
    features = kaldi_fbank(wave)
    centred = features - features.mean(axis=0, keepdims=True)
    (name,) = session.inputs
    return np.ravel(session.run({name: centred[None]})[0]).astype(np.float32)


def digest(assets: Path) -> str:
    """A hash of both graphs, hexadecimal.  Raises :class:`EngineError` if one is missing."""
    hashes: list[str] = []
    for name in (TOKENIZER, SPEAKER):
        path = assets / name
        if not path.is_file():
            raise EngineError(f"The voice asset {path} is missing: fetch the model's files with 'venus models pull'")
        status = path.stat()
        hashes.append(_file_digest(path, status.st_size, status.st_mtime_ns))
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


@lru_cache(maxsize=8)
def _file_digest(path: Path, size: int, changed: int) -> str:
    """Of a file in the state that its size and time of change stand for: half a gigabyte is read only once."""
    del size, changed
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
