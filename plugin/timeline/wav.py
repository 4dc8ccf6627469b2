"""A mono 16-bit WAV file that is valid after every flush, so that a crash costs nothing already flushed."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import numpy as np

from ...engines.base import FloatPcm, Int16Pcm

_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
_MAX_DATA_BYTES = 2**32 - 1 - 36


def to_int16(samples: FloatPcm) -> Int16Pcm:
    """Float samples in [-1, 1] as 16-bit ones; what lies outside is clipped, what is no number becomes silence."""
    bounded = np.clip(np.nan_to_num(samples, nan=0.0), -1.0, 1.0)
    return np.rint(bounded * 32767.0).astype(np.int16)


class WavWriter:
    """Writes ``path`` as mono 16-bit PCM.  Raises ``OSError`` as files do.

    Past the format's 4 GiB limit samples are refused and counted in :attr:`refused_samples`.
    """

    def __init__(self, path: Path, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._samples = 0
        self.refused_samples = 0
        self._file = path.open("wb")
        try:
            self._write_header()
        except OSError:
            with suppress(OSError):  # closing writes what is buffered, in vain
                self._file.close()
            raise

    @property
    def samples(self) -> int:
        """Samples written so far."""
        return self._samples

    def write(self, pcm: Int16Pcm) -> None:
        """Append ``int16[n]``."""
        if (self._samples + len(pcm)) * 2 > _MAX_DATA_BYTES:
            self.refused_samples += len(pcm)
            return
        self._file.write(pcm.astype("<i2", copy=False).tobytes())
        self._samples += len(pcm)

    def pad_to(self, samples: int) -> None:
        """Append silence until the file has ``samples`` samples."""
        while self._samples + self.refused_samples < samples:
            missing = samples - self._samples - self.refused_samples
            self.write(np.zeros(min(missing, self._rate_hz), dtype=np.int16))

    def flush(self) -> None:
        """Make the file on disk valid up to here."""
        self._write_header()
        self._file.flush()

    def close(self) -> None:
        """Flush and close.  May be called repeatedly."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                self._file.close()

    def _write_header(self) -> None:
        data = self._samples * 2
        header = _HEADER.pack(
            b"RIFF", 36 + data, b"WAVE", b"fmt ", 16, 1, 1, self._rate_hz, self._rate_hz * 2, 2, 16, b"data", data
        )
        self._file.seek(0)
        self._file.write(header)
        self._file.seek(0, 2)


def read_wav(path: Path) -> tuple[Int16Pcm, int]:
    """Read what :class:`WavWriter` wrote, also when its last flush came before its last samples.

    Returns ``int16[n]`` and the rate in Hz.  Raises ``ValueError`` for another format.
    """
    raw = path.read_bytes()
    if len(raw) < _HEADER.size:
        raise ValueError(f"{path.name} is not a recording: too short")
    riff, _, wave, fmt, size, coding, channels, rate_hz, _, _, bits, data, _ = _HEADER.unpack_from(raw)
    if (riff, wave, fmt, size, coding, channels, bits, data) != (b"RIFF", b"WAVE", b"fmt ", 16, 1, 1, 16, b"data"):
        raise ValueError(f"{path.name} is not a mono 16-bit recording")
    whole = (len(raw) - _HEADER.size) // 2
    return np.frombuffer(raw, dtype="<i2", count=whole, offset=_HEADER.size).astype(np.int16), int(rate_hz)
