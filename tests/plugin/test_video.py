"""Video files as a room takes them: whole, silent, without pictures, broken, and no video at all."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame
from realtime_venus.engines.base import FloatPcm, Frame, MediaUnit, SessionOptions
from realtime_venus.plugin.converse import converse
from realtime_venus.plugin.session import SessionSettings
from realtime_venus.plugin.video import Ahead, BadVideo, read_video

from ..kit.fake_engine import FakeEngine, FakeSession
from ..kit.virtual_time import run_virtual

RATE = 44_100


def tone(seconds: float, hz: float = 440) -> FloatPcm:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(int(RATE * seconds)) / RATE)).astype(np.float32)


def grey(number: int) -> int:
    """How bright the picture of that number is."""
    return 20 + number % 10 * 20


def record(
    path: Path, pictures: int = 0, sound: FloatPcm | None = None, *, fps: int = 5, sound_from_s: float = 0.0
) -> Path:
    """A video whose pictures are of one grey each, with sound that may begin later."""
    with av.open(str(path), "w") as opened:
        container: Any = opened  # its stubs leave the kind of packets open
        video = container.add_stream("mpeg4", rate=fps) if pictures else None
        audio = None
        if sound is not None:
            audio = container.add_stream("aac", rate=RATE)
            audio.layout = "mono"
        if video is not None:
            video.width, video.height, video.pix_fmt, video.gop_size = 96, 64, "yuv420p", 1
            for number in range(pictures):
                image = np.full((64, 96, 3), grey(number), np.uint8)
                frame = VideoFrame.from_ndarray(image, format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, fps)
                container.mux(video.encode(frame))
            container.mux(video.encode())
        if audio is not None and sound is not None:
            for first in range(0, len(sound), 1024):
                part = AudioFrame.from_ndarray(sound[None, first : first + 1024], format="fltp", layout="mono")
                part.sample_rate, part.pts = RATE, first + round(sound_from_s * RATE)
                part.time_base = Fraction(1, RATE)
                container.mux(audio.encode(part))
            container.mux(audio.encode())
    return path


def brightness(frames: Sequence[Frame]) -> list[int]:
    return [round(float(frame.image.mean()) / 20) - 1 for frame in frames]


def peak_hz(audio: FloatPcm) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(audio)))) * 16_000 / len(audio)


@pytest.mark.parametrize("kind", ["mp4", "mkv", "mov"])
def test_sound_comes_at_16_khz_and_the_newest_picture_of_each_second(tmp_path: Path, kind: str) -> None:
    video = read_video(record(tmp_path / f"a.{kind}", pictures=15, sound=tone(3)))
    assert (video.has_sound, video.has_pictures, video.broken) == (True, True, 0)
    assert video.audio.dtype == np.float32
    assert len(video.audio) == pytest.approx(48_000, abs=2500)
    assert peak_hz(video.audio) == pytest.approx(440, abs=2)
    frames = list(video.frames(1000))
    assert brightness(frames) == [4, 9, 4]
    assert [frame.captured_ms for frame in frames] == pytest.approx([800, 1800, 2800], abs=60)
    assert frames[0].image.shape == (64, 96, 3)
    assert frames[0].image.dtype == np.uint8
    assert len(list(video.frames(200))) == 15


def test_a_video_without_sound_is_silence_as_long_as_its_pictures(tmp_path: Path) -> None:
    video = read_video(record(tmp_path / "a.mp4", pictures=20))
    assert (video.has_sound, video.has_pictures) == (False, True)
    assert len(video.audio) == pytest.approx(64_000, abs=3500)
    assert not video.audio.any()


def test_a_video_without_pictures_is_its_sound(tmp_path: Path) -> None:
    video = read_video(record(tmp_path / "a.mp4", sound=tone(2)))
    assert (video.has_sound, video.has_pictures) == (True, False)
    assert list(video.frames(1000)) == []
    assert peak_hz(video.audio) == pytest.approx(440, abs=2)


def test_sound_that_begins_later_is_put_where_it_belongs(tmp_path: Path) -> None:
    video = read_video(record(tmp_path / "a.mkv", pictures=15, sound=tone(1), sound_from_s=1.5))
    loud = np.flatnonzero(np.abs(video.audio) > 0.1)
    assert loud[0] / 16_000 == pytest.approx(1.5, abs=0.08)
    assert loud[-1] / 16_000 == pytest.approx(2.5, abs=0.12)


def broken(path: Path, packet: int) -> Path:
    """Overwrite the data of one picture; its frame in the file stays as it is."""
    with av.open(str(path)) as container:
        packets = [one for one in container.demux(video=0) if one.size]
        content = bytes(packets[packet])
    whole = path.read_bytes()
    assert whole.count(content) == 1
    path.write_bytes(whole.replace(content, b"\xff" * len(content)))
    return path


def test_a_broken_picture_is_one_picture_less(tmp_path: Path) -> None:
    path = broken(record(tmp_path / "a.mp4", pictures=15, sound=tone(3)), 9)
    video = read_video(path)
    frames = list(video.frames(1000))
    assert len(frames) == 3
    assert brightness([frames[0], frames[2]]) == [4, 4]
    assert peak_hz(video.audio) == pytest.approx(440, abs=2)


def test_a_file_that_is_cut_off_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    path = record(tmp_path / "a.mkv", pictures=40, sound=tone(8))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    frames = list(read_video(path).frames(1000))
    assert 2 <= len(frames) < 8


def test_what_is_no_video_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BadVideo, match="is no file"):
        read_video(tmp_path / "nothing.mp4")
    for content in (b"", b"hello " * 1000, b"\0" * 5000):
        (tmp_path / "a.mp4").write_bytes(content)
        with pytest.raises(BadVideo, match="cannot be read as a video"):
            read_video(tmp_path / "a.mp4")
    path = record(tmp_path / "b.mp4", pictures=5)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])  # what an mp4 is made of stands at its end
    with pytest.raises(BadVideo):
        read_video(path)


def test_a_length_that_is_only_claimed_takes_no_memory(tmp_path: Path) -> None:
    """A file of kilobytes that says it lasts almost four hours."""
    path = record(tmp_path / "a.mkv", pictures=10)
    whole, head = path.read_bytes(), b"\x44\x89\x88"  # the element that holds the length, in milliseconds
    assert whole.count(head) == 1
    at = whole.index(head) + len(head)
    path.write_bytes(whole[:at] + struct.pack(">d", 3.9 * 3_600_000) + whole[at + 8 :])
    with av.open(str(path)) as container:
        assert (container.duration or 0) > 3.8 * 3600 * 1_000_000
    assert len(read_video(path).audio) / 16_000 == pytest.approx(2, abs=0.3)


def test_silence_before_late_sound_is_bounded_by_the_size_of_the_file(tmp_path: Path) -> None:
    path = record(tmp_path / "a.mkv", pictures=5, sound=tone(1), sound_from_s=3 * 3600)
    video = read_video(path)
    most_s = 600 + path.stat().st_size / 250
    assert most_s < 1200
    assert most_s - 2 < len(video.audio) / 16_000 < most_s + 2
    assert peak_hz(video.audio[-12_000:]) == pytest.approx(440, abs=3)


def test_a_file_leads_to_nothing_but_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record(Path("a.mkv"), pictures=10).rename("concat:b.mkv")  # which means another file to FFmpeg
    asked: list[object] = []
    opens = cast("Callable[..., object]", av.open)

    def noted(file: str, **options: Any) -> object:
        asked.append(options["container_options"])
        return opens(file, **options)

    monkeypatch.setattr(av, "open", noted)
    assert len(list(read_video(Path("concat:b.mkv")).frames(1000))) == 2
    assert asked
    assert all(one == {"protocol_whitelist": "file"} for one in asked)


def test_pictures_are_decoded_ahead_and_closing_ends_it(tmp_path: Path) -> None:
    video = read_video(record(tmp_path / "a.mp4", pictures=15))
    whole = Ahead(video.frames(1000))
    assert brightness(list(whole)) == [4, 9, 4]
    whole.close()
    cut = Ahead(video.frames(1000))
    next(cut)
    cut.close()


@pytest.mark.parametrize("fast", [False, True])
def test_in_a_conversation_every_unit_has_the_newest_picture_of_its_time(tmp_path: Path, fast: bool) -> None:
    video = read_video(record(tmp_path / "a.mp4", pictures=15, sound=tone(3)))
    seen: list[tuple[int, list[int]]] = []

    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        seen.append((unit.index, brightness(unit.frames)))

    engine = FakeEngine(on_unit, unit_ms=1000)
    frames = Ahead(video.frames(engine.unit_ms))
    run_virtual(converse(video.audio, engine, SessionOptions(fast=fast), SessionSettings(), tail_s=0, frames=frames))
    frames.close()
    assert seen[:2] == [(0, [4]), (1, [9])]
