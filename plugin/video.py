"""A video file as a room hears and sees it: its sound at 16 kHz, and the newest picture of each unit.

Sound and pictures are placed by their own time stamps.  What cannot be decoded is left out and counted: a broken
picture is one picture less, and a gap in the sound is silence.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.container import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame

from ..engines.base import INPUT_HZ, FloatPcm, Frame, RgbImage
from .converse import LONGEST_S, BadAudio

_SLACK: Final = INPUT_HZ // 20
"""Samples by which a time stamp may differ from where the sound is, before it counts as a gap."""
_MOST_PIXELS: Final = 64_000_000
_SHORT_S: Final = 600
_BYTES_PER_S: Final = 250
"""Silence that a file can ask for: ten minutes, and as much as it would hold of the thinnest of videos.  Time stamps
and lengths are only claims, and silence takes memory."""


class BadVideo(BadAudio):
    """A file is no usable video; the message says why."""


@dataclass(frozen=True, slots=True)
class VideoFile:
    """``audio`` is mono float32 at 16 kHz, as long as the video.  ``broken`` counts packets of sound that were lost."""

    path: Path
    audio: FloatPcm
    has_sound: bool
    has_pictures: bool
    broken: int

    def frames(self, every_ms: int) -> Generator[Frame]:
        """The newest picture of every span of ``every_ms`` that has one, decoded as it is asked for."""
        if not self.has_pictures:
            return
        held: tuple[int, VideoFrame] | None = None
        with _opened(self.path) as container:
            for at_ms, picture in _pictures(container):
                if held is not None and held[0] // every_ms != at_ms // every_ms:
                    yield Frame(_rgb(held[1]), float(held[0]))
                held = at_ms, picture
            if held is not None:
                yield Frame(_rgb(held[1]), float(held[0]))


class Ahead(Iterator[Frame]):
    """Pictures decoded one ahead on a thread of their own, so that whoever takes them rarely waits."""

    def __init__(self, frames: Generator[Frame]) -> None:
        self._frames = frames
        self._pool = ThreadPoolExecutor(1, "venus-video")
        self._coming = self._pool.submit(next, frames, None)

    def __next__(self) -> Frame:
        frame = self._coming.result()
        if frame is None:
            raise StopIteration
        self._coming = self._pool.submit(next, self._frames, None)
        return frame

    def close(self) -> None:
        """Stop decoding."""
        self._pool.shutdown()
        self._frames.close()


def read_video(path: Path) -> VideoFile:
    """Open a video and read its sound.  Raises :class:`BadVideo`."""
    if not path.is_file():
        raise BadVideo(f"{path} is no file.")
    with _opened(path) as container:
        length_s = (container.duration or 0) / 1_000_000  # in the container's own microseconds
        sounds, pictures = bool(container.streams.audio), bool(container.streams.video)
        if not sounds and not pictures:
            raise BadVideo(f"{path} holds neither sound nor pictures.")
        if length_s > LONGEST_S:
            raise BadVideo(f"{path} lasts {length_s / 3600:.1f} hours; cut it into parts of {LONGEST_S // 3600} hours.")
        most = _most_samples(path)
        samples, broken = _sound(container, most) if sounds else (np.zeros(0, np.float32), 0)
    video = VideoFile(path, samples, sounds, pictures, broken)
    seen = next(video.frames(1000), None) is not None
    if not seen and not len(samples):
        raise BadVideo(f"{path} holds nothing that can be decoded. It may be cut off or of an unknown kind.")
    if seen:
        wanted = min(round((_shown_s(path) or length_s) * INPUT_HZ), most)
        if len(samples) < wanted:  # there is no sound, or the pictures go on
            samples = np.concatenate([samples, np.zeros(wanted - len(samples), np.float32)])
    if not len(samples):
        raise BadVideo(f"{path} does not say how long it is, and has no sound. Copy it into an mp4 file.")
    return replace(video, audio=samples)


def _most_samples(path: Path) -> int:
    """Up to where silence is put into the sound of a file."""
    return min(_SHORT_S + path.stat().st_size // _BYTES_PER_S, LONGEST_S) * INPUT_HZ


def _shown_s(path: Path) -> float:
    """When the last picture ends, by the time stamps of what is there; nothing is decoded."""
    with _opened(path) as container:
        start_s, end_s = _start_s(container), 0.0
        for packet in _packets(container, container.streams.video[0]):
            if packet.pts is not None:
                end_s = max(end_s, float((packet.pts + (packet.duration or 0)) * packet.time_base) - start_s)
    return end_s


def _sound(container: InputContainer, most: int) -> tuple[FloatPcm, int]:
    """The sound of a video, and how many packets of it could not be decoded."""
    start_s, sound, broken = _start_s(container), _Sound(most), 0
    for decoded in _decoded(container, container.streams.audio[0]):
        if sound.full:
            break
        broken += decoded is None
        for frame in decoded or ():
            if isinstance(frame, AudioFrame):
                sound.add(frame, start_s)
    return sound.all(), broken


def _pictures(container: InputContainer) -> Iterator[tuple[int, VideoFrame]]:
    """The pictures that can be decoded, each with its time in milliseconds from the file's beginning."""
    start_s = _start_s(container)
    for decoded in _decoded(container, container.streams.video[0]):
        for frame in decoded or ():
            if isinstance(frame, VideoFrame) and frame.pts is not None and frame.width * frame.height <= _MOST_PIXELS:
                yield max(0, round((frame.time - start_s) * 1000)), frame


def _decoded(container: InputContainer, stream: Stream) -> Iterator[list[AudioFrame | VideoFrame] | None]:
    """What each packet of a stream gives; ``None`` for one that is broken."""
    for packet in _packets(container, stream):
        try:
            yield cast("list[AudioFrame | VideoFrame]", packet.decode())
        except FFmpegError:
            yield None


class _Sound:
    """Sound put where its time stamps say it belongs, with silence up to ``most`` samples."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._resampler = AudioResampler("flt", "mono", INPUT_HZ)
        self._parts: list[FloatPcm] = []
        self._length = 0

    @property
    def full(self) -> bool:
        """Whether it is as long as any file may be."""
        return self._length >= LONGEST_S * INPUT_HZ

    def add(self, frame: AudioFrame, start_s: float) -> None:
        """Append a decoded frame; what overlaps earlier sound is joined to its end."""
        if frame.time is not None:
            at = round((frame.time - start_s) * INPUT_HZ)
            gap = min(at, self._most) - self._length
            if gap > _SLACK:
                self._put(np.zeros(gap, np.float32))
        frame.pts = None  # the resampler would refuse time stamps that jump
        for part in self._resampler.resample(frame):
            self._put(cast("FloatPcm", part.to_ndarray()).reshape(-1).astype(np.float32))

    def all(self) -> FloatPcm:
        """Everything, in [-1, 1]; what is no number is silence."""
        for part in self._resampler.resample(None) if self._parts else ():
            self._put(cast("FloatPcm", part.to_ndarray()).reshape(-1).astype(np.float32))
        whole = np.concatenate(self._parts) if self._parts else np.zeros(0, np.float32)
        return np.clip(np.nan_to_num(whole, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0).astype(np.float32)

    def _put(self, samples: FloatPcm) -> None:
        self._parts.append(samples)
        self._length += len(samples)


def _opened(path: Path) -> InputContainer:
    try:
        # named as a file, and nothing but files is followed: neither its name nor its content leads elsewhere
        return av.open(f"file:{path}", metadata_errors="replace", container_options={"protocol_whitelist": "file"})
    except (FFmpegError, OSError) as error:
        reason = error.strerror or str(error)
        raise BadVideo(f"{path} cannot be read as a video: {reason}. It may be cut off, or no video.") from error


def _packets(container: InputContainer, stream: Stream) -> Iterator[Packet[Stream]]:
    """The packets of a stream, as far as the file can be read."""
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except FFmpegError:
            return  # the file is cut off: what came before counts
        if packet is None:
            return
        yield packet


def _start_s(container: InputContainer) -> float:
    return (container.start_time or 0) / 1_000_000


def _rgb(frame: VideoFrame) -> RgbImage:
    return cast("RgbImage", frame.to_ndarray(format="rgb24"))
