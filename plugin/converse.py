"""A recording through the whole runtime: what the agent says to it, when, and what of it was heard."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
import soundfile
import soxr

from ..engines.base import INPUT_HZ, OUTPUT_HZ, Engine, FloatPcm, Frame, Int16Pcm, SessionOptions, VenusError
from .rooms.memory import MemoryRoom, MemoryRoomOptions
from .session import Session, SessionSettings
from .session.words import join_words
from .timeline import Timeline, TimelineEvent, events, to_line
from .timeline.wav import WavWriter

AGENT_FILE = "agent.wav"
TIMELINE_FILE = "timeline.jsonl"
TRANSCRIPT_FILE = "transcript.json"
FILES = (AGENT_FILE, TIMELINE_FILE, TRANSCRIPT_FILE)
_ACK_EVERY_MS = 40
LONGEST_S: Final = 4 * 3600
"""Longest recording or video that is taken; its sound is held in memory."""
RATES_HZ: Final = (4_000, 384_000)
MOST_CHANNELS: Final = 64
_BLOCK: Final = 1 << 16
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)
"""What programs that stream a WAV write where its length belongs."""


class BadAudio(VenusError):
    """A file is no usable recording; the message says why."""


class _Resampler(Protocol):
    def resample_chunk(self, x: FloatPcm, last: bool) -> FloatPcm: ...


class _File(Protocol):
    """What is used of ``soundfile.SoundFile``."""

    samplerate: int
    channels: int
    frames: int

    def read(self, frames: int, *, dtype: str, always_2d: bool) -> FloatPcm: ...
    def close(self) -> None: ...


_open = cast("Callable[[str], _File]", soundfile.SoundFile)
_resampler = cast("Callable[[float, float, int, str], _Resampler]", soxr.ResampleStream)


def read_audio(path: Path) -> FloatPcm:
    """Read any file that libsndfile can, as mono float32 at 16 kHz in [-1, 1].

    Raises :class:`BadAudio`, before anything is decoded for a file that is longer than :data:`LONGEST_S`, or whose rate
    or number of channels no recording has: a small file can stand for gigabytes of sound.
    """
    if not path.is_file():
        raise BadAudio(f"{path} is no file.")
    if path.stat().st_size == 0:
        raise BadAudio(f"{path} is empty.")
    if _is_truncated_riff(path):
        raise BadAudio(f"{path} is cut off: it is shorter than its own header says. Copy it again.")
    try:
        with closing(_open(str(path))) as file:
            mono = _mono(path, file)
    except soundfile.LibsndfileError as error:
        reason = str(error).rstrip(".")
        raise BadAudio(f"{path} cannot be read as audio: {reason}. It may be cut off or of an unknown kind.") from error
    if len(mono) == 0:
        raise BadAudio(f"{path} holds no audio.")
    if not np.isfinite(mono).all():  # of numbers so large that their mean is none
        raise BadAudio(f"{path} holds values that are no numbers.")
    return np.clip(mono, -1.0, 1.0, out=mono)


def _mono(path: Path, file: _File) -> FloatPcm:
    """All channels of ``file`` in one, at 16 kHz, block by block."""
    rate_hz, (slowest, fastest) = file.samplerate, RATES_HZ
    if not slowest <= rate_hz <= fastest:
        raise BadAudio(f"{path} has {rate_hz} samples a second; {slowest} to {fastest} can be read.")
    if file.channels > MOST_CHANNELS:
        raise BadAudio(f"{path} has {file.channels} channels; up to {MOST_CHANNELS} can be read.")
    if file.frames > LONGEST_S * rate_hz:
        hours = LONGEST_S // 3600
        raise BadAudio(f"{path} lasts {file.frames / rate_hz / 3600:.1f} hours; cut it into parts of {hours} hours.")
    resampler = None if rate_hz == INPUT_HZ else _resampler(rate_hz, INPUT_HZ, 1, "float32")
    parts: list[FloatPcm] = []
    last = False
    while not last:
        block = file.read(_BLOCK, dtype="float32", always_2d=True)
        last = len(block) < _BLOCK
        if not np.isfinite(block).all():
            raise BadAudio(f"{path} holds values that are no numbers.")
        mono = block.mean(axis=1, dtype=np.float32)
        parts.append(mono if resampler is None else resampler.resample_chunk(mono, last))
    return np.concatenate(parts)


def _is_truncated_riff(path: Path) -> bool:
    """libsndfile reads a cut WAV without a word, so its header is compared with the file here."""
    with path.open("rb") as file:
        head = file.read(8)
    if len(head) < 8 or head[:4] != b"RIFF":
        return False
    said = int.from_bytes(head[4:], "little")
    return said not in _UNKNOWN_SIZES and said + 8 > path.stat().st_size


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a conversation with a recording gave.  ``agent`` is ``int16[n]`` at 24 kHz on the recording's clock."""

    agent: Int16Pcm
    timeline: Timeline
    transcript: dict[str, Any]


async def converse(
    audio: FloatPcm,
    engine: Engine,
    options: SessionOptions,
    settings: SessionSettings,
    *,
    tail_s: float = 15.0,
    frames: Iterator[Frame] | None = None,
) -> Outcome:
    """Feed ``audio`` (mono float32, 16 kHz) to a session with a loaded ``engine``, in real time unless ``fast``.

    ``frames`` are the pictures that go with it, in the order of their time.  A session that failed on the way gives
    what there is; see :func:`failure`.
    """
    behaviour = MemoryRoomOptions(fast=options.fast, ack_every_ms=_ACK_EVERY_MS, tail_s=tail_s)
    room = MemoryRoom(audio, options=behaviour, frames=frames)
    session = Session(room, engine, options, settings)
    await session.run()
    return Outcome(room.agent_audio, session.timeline, transcript(session.timeline.events))


def check_folder(folder: Path) -> None:
    """See whether :func:`write` could write there, and leave nothing behind.  Raises ``OSError``."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    with tempfile.TemporaryFile(dir=there):
        pass
    for file in (folder / name for name in FILES):
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))


def write(outcome: Outcome, folder: Path) -> None:
    """Write ``agent.wav``, ``timeline.jsonl`` and ``transcript.json``, replacing older ones.  Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    wav = WavWriter(folder / AGENT_FILE, OUTPUT_HZ)
    try:
        wav.write(outcome.agent)
    finally:
        wav.close()
    lines = (to_line(entry) + "\n" for entry in outcome.timeline.entries)
    (folder / TIMELINE_FILE).write_text("".join(lines), encoding="utf-8")
    text = json.dumps(outcome.transcript, ensure_ascii=False, indent=1)
    (folder / TRANSCRIPT_FILE).write_text(text + "\n", encoding="utf-8")


def failure(outcome: Outcome) -> str | None:
    """Why the conversation could not be finished, or ``None``."""
    fatal = [item for item in outcome.timeline.events if isinstance(item, events.TroubleEvent) and item.fatal]
    return fatal[-1].message if fatal else None


@dataclass(slots=True)
class _Said:
    text: str = ""
    start_ms: int | None = None
    latency: events.Latency | None = None
    pieces: list[str] = field(default_factory=list[str])


def transcript(happened: Sequence[TimelineEvent]) -> dict[str, Any]:
    """The turns of both sides in order of their beginning, with what was said, what of it was heard, and when.

    Final words with the ``start_ms`` of earlier ones replace them: the user had gone on.  Latencies are there only
    where the timeline has them (never in fast mode).
    """
    turns: list[dict[str, Any]] = []
    spoken: dict[tuple[str, int], dict[str, Any]] = {}
    said: dict[str, _Said] = {}
    for item in happened:
        match item:
            case events.UserText(final=True):
                turn = {"speaker": item.speaker, "start_ms": item.start_ms, "end_ms": item.end_ms, "text": item.text}
                turn |= {"language": item.language, "typed": item.typed}
                earlier = None if item.typed else spoken.get((item.speaker, item.start_ms))
                if earlier is not None:
                    earlier.update(turn)
                    continue
                if not item.typed:
                    spoken[item.speaker, item.start_ms] = turn
                turns.append(turn)
            case events.AgentText():
                said.setdefault(item.utterance_id, _Said()).pieces.append(item.text)
            case events.Playout(state="sent"):
                utterance = said.setdefault(item.utterance_id, _Said())
                utterance.start_ms = item.at_ms if utterance.start_ms is None else utterance.start_ms
            case events.Latency():
                said.setdefault(item.utterance_id, _Said()).latency = item
            case events.UtteranceEnded():
                turns.append(_agent_turn(item, said.pop(item.utterance_id, _Said())))
            case _:
                pass
    turns.sort(key=lambda turn: int(turn["start_ms"]))
    return {"turns": turns}


def _agent_turn(ended: events.UtteranceEnded, said: _Said) -> dict[str, Any]:
    turn: dict[str, Any] = {
        "speaker": "agent",
        "start_ms": ended.at_ms if said.start_ms is None else said.start_ms,
        "end_ms": ended.at_ms,
        "text": join_words(said.pieces).strip(),
        "heard": ended.heard_text,
        "heard_ms": ended.heard_samples * 1000 // OUTPUT_HZ,
        "interrupted": ended.interrupted,
    }
    if said.latency is not None:
        turn["latency_ms"] = said.latency.edge_ms
        if said.latency.opener_ms is not None:
            turn["opener_ms"] = said.latency.opener_ms
    return turn
