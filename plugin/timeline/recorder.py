"""A session as a folder: ``timeline.jsonl``, ``user.wav`` and ``agent.wav`` on one clock.

Every timeline line is handed to the operating system at once and audio at least once a second, so a killed process
loses at most its last second of audio and no event.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from ...engines.base import INPUT_HZ, OUTPUT_HZ, FloatPcm, Int16Pcm
from .codec import Entry, from_line, to_line
from .wav import WavWriter, read_wav, to_int16

TIMELINE_FILE = "timeline.jsonl"
USER_FILE = "user.wav"
AGENT_FILE = "agent.wav"
_FLUSH_SAMPLES = OUTPUT_HZ


@dataclass(frozen=True, slots=True)
class Recording:
    """A folder read back.  ``cut`` says that the last timeline line was incomplete (a crash) and was left out."""

    entries: tuple[Entry, ...]
    user: Int16Pcm
    """``int16[n]`` at 16 kHz."""
    agent: Int16Pcm
    """``int16[n]`` at 24 kHz; sample 0 is the session's beginning, as in :attr:`user`."""
    cut: bool


class Recorder:
    """Writes one session into ``folder``, which must be new or empty.

    Raises ``FileExistsError`` when something is recorded there already, ``OSError`` when the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        with ExitStack() as opened:
            self._lines = opened.enter_context((folder / TIMELINE_FILE).open("x", encoding="utf-8"))
            self._user = opened.enter_context(closing(WavWriter(folder / USER_FILE, INPUT_HZ)))
            self._agent = WavWriter(folder / AGENT_FILE, OUTPUT_HZ)
            opened.pop_all()
        self._unflushed = 0

    def event(self, entry: Entry) -> None:
        """Write one line."""
        self._lines.write(to_line(entry) + "\n")
        self._lines.flush()

    def user_audio(self, samples: FloatPcm, position: int) -> None:
        """Write ``float32[n]`` whose first sample lies at ``position`` (16 kHz); holes become silence."""
        self._user.pad_to(position)
        self._user.write(to_int16(samples))
        self._count(len(samples))

    def agent_audio(self, pcm: Int16Pcm, at_ms: int) -> None:
        """Write a playout frame handed to the room at ``at_ms``.

        Frames follow each other without a seam; only when the room paused its pulling for more than 100 ms is the
        hole filled.
        """
        position = at_ms * OUTPUT_HZ // 1000
        if position - self._agent.samples > OUTPUT_HZ // 10:
            self._agent.pad_to(position)
        self._agent.write(pcm)
        self._count(len(pcm))

    def close(self) -> None:
        """Finish the files.  May be called repeatedly."""
        with closing(self._lines), closing(self._user), closing(self._agent):
            pass

    def _count(self, samples: int) -> None:
        self._unflushed += samples
        if self._unflushed >= _FLUSH_SAMPLES:
            self._unflushed = 0
            self._user.flush()
            self._agent.flush()


def read_recording(folder: Path) -> Recording:
    """Read a recorded session, also one whose process died.

    Raises ``FileNotFoundError`` when ``folder`` holds none, ``ValueError`` when a line other than the last is damaged.
    """
    lines = (folder / TIMELINE_FILE).read_bytes().split(b"\n")
    tail = lines.pop()
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(from_line(line.decode("utf-8")))
        except ValueError as error:
            raise ValueError(f"{TIMELINE_FILE}, line {number}: {error}") from error
    user, _ = read_wav(folder / USER_FILE)
    agent, _ = read_wav(folder / AGENT_FILE)
    return Recording(tuple(entries), user, agent, cut=bool(tail))


def recordings(root: Path) -> tuple[Path, ...]:
    """The recorded sessions below ``root``, by name."""
    if not root.is_dir():
        return ()
    return tuple(sorted(path for path in root.iterdir() if path.is_dir() and (path / TIMELINE_FILE).is_file()))


def delete_recording(folder: Path) -> None:
    """Delete one recorded session.  Raises ``FileNotFoundError`` (and deletes nothing) when ``folder`` is none."""
    if not (folder / TIMELINE_FILE).is_file():
        raise FileNotFoundError(f"{folder} holds no recording")
    shutil.rmtree(folder)
