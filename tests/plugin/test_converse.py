from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from realtime_venus.engines.base import FloatPcm, MediaUnit, SessionOptions, Trouble
from realtime_venus.plugin.converse import FILES, BadAudio, Outcome, converse, failure, read_audio, write
from realtime_venus.plugin.session import SessionSettings
from realtime_venus.plugin.timeline import from_line

from ..kit.fake_engine import FakeEngine, FakeSession, coded_voice
from ..kit.kits import render, stem
from ..kit.virtual_time import run_virtual


def tone(rate_hz: int, seconds: float = 1.0, level: float = 0.3) -> FloatPcm:
    return (level * np.sin(2 * np.pi * 440 * np.arange(int(rate_hz * seconds)) / rate_hz)).astype(np.float32)


def peak_hz(audio: FloatPcm) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(audio)))) * 16000 / len(audio)


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate_hz", "channels"), [(44100, 1), (48000, 2), (16000, 1), (8000, 1)])
@pytest.mark.parametrize("kind", ["wav", "flac", "ogg"])
def test_any_rate_and_kind_becomes_mono_16_khz(tmp_path: Path, kind: str, rate_hz: int, channels: int) -> None:
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, np.stack([tone(rate_hz)] * channels, axis=1), rate_hz)
    audio = read_audio(path)
    assert audio.dtype == np.float32
    assert len(audio) == pytest.approx(16000, abs=20)
    assert peak_hz(audio) == pytest.approx(440, abs=2)


def test_clipped_and_silent_audio_is_taken(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "loud.wav", np.clip(tone(48000, level=30.0), -1, 1), 48000)
    assert np.abs(read_audio(tmp_path / "loud.wav")).max() <= 1.0
    soundfile.write(tmp_path / "silent.wav", np.zeros(16000), 16000)
    assert not read_audio(tmp_path / "silent.wav").any()


def test_opposite_channels_cancel_rather_than_break(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack([tone(16000), -tone(16000)], axis=1), 16000)
    assert np.abs(read_audio(tmp_path / "a.wav")).max() < 1e-3


def test_what_is_no_recording_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BadAudio, match="is no file"):
        read_audio(tmp_path / "nothing.wav")
    (tmp_path / "empty.wav").touch()
    with pytest.raises(BadAudio, match="is empty"):
        read_audio(tmp_path / "empty.wav")
    (tmp_path / "text.wav").write_text("hello " * 100)
    with pytest.raises(BadAudio, match="cannot be read"):
        read_audio(tmp_path / "text.wav")
    soundfile.write(tmp_path / "none.wav", np.zeros(0), 16000)
    with pytest.raises(BadAudio, match="holds no audio"):
        read_audio(tmp_path / "none.wav")
    soundfile.write(tmp_path / "nan.wav", np.array([0.0, np.nan]), 16000, subtype="FLOAT")
    with pytest.raises(BadAudio, match="no numbers"):
        read_audio(tmp_path / "nan.wav")


@pytest.mark.parametrize(
    ("rate_hz", "channels", "frames", "words"),
    [
        (1, 1, 1000, "has 1 samples a second; 4000 to 384000"),
        (500_000, 1, 1000, "has 500000 samples a second"),
        (16_000, 65, 10, "has 65 channels; up to 64"),
        (4_000, 1, 4_000 * 4 * 3600 + 1, "lasts 4.0 hours; cut it into parts of 4 hours"),
    ],
)
def test_a_small_file_that_stands_for_gigabytes_is_refused_unread(
    tmp_path: Path, rate_hz: int, channels: int, frames: int, words: str
) -> None:
    path = tmp_path / "a.wav"
    with soundfile.SoundFile(path, "w", rate_hz, channels, subtype="PCM_U8") as file:
        for _ in range(0, frames, 1 << 20):
            file.write(np.zeros((min(frames, 1 << 20), channels), np.int16))
    with pytest.raises(BadAudio, match=words):
        read_audio(path)


def test_a_recording_longer_than_a_block_is_read_whole(tmp_path: Path) -> None:
    whole = tone(48_000, seconds=7.0)
    soundfile.write(tmp_path / "a.wav", whole, 48_000)
    audio = read_audio(tmp_path / "a.wav")
    assert len(audio) == pytest.approx(7 * 16_000, abs=20)
    middle = audio[len(audio) // 2 - 16_000 : len(audio) // 2 + 16_000]
    assert np.abs(audio[1000:-1000] - tone(16_000, seconds=7.0)[1000 : len(audio) - 1000]).max() < 0.01
    assert peak_hz(middle) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("kind", ["wav", "flac"])
def test_a_cut_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, tone(16000), 16000)
    whole = path.read_bytes()
    for part in (len(whole) // 2, 60, 10):
        path.write_bytes(whole[:part])
        with pytest.raises(BadAudio, match=r"cut off|cannot be read"):
            read_audio(path)


# -- conversing ----------------------------------------------------------------------------------------------------


def answering(at_ms: int, seconds: float) -> FakeEngine:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.start_ms + session.engine.unit_ms == at_ms:
            session.hear("How are you?", start_ms=100)
            session.speak("u1", seconds, "Very well, thank you.")

    return FakeEngine(on_unit)


def talk(audio: FloatPcm, engine: FakeEngine, *, fast: bool, tail_s: float = 15.0) -> Outcome:
    return run_virtual(converse(audio, engine, SessionOptions(fast=fast), SessionSettings(), tail_s=tail_s))


@pytest.mark.parametrize("fast", [False, True])
def test_the_agents_track_has_the_clock_of_the_recording(fast: bool) -> None:
    audio = render("en_turn_taking_01", length_s=6.0).audio
    outcome = talk(audio, answering(5500, 3.0), fast=fast)
    begun = int(np.flatnonzero(outcome.agent)[0])
    assert begun == pytest.approx(5500 * 24, abs=960)
    assert len(outcome.agent) == pytest.approx((5.5 + 3.0 + 2.0) * 24000, abs=24 * 100)
    assert np.array_equal(outcome.agent[begun : begun + 1000], coded_voice(1001)[1:])
    (turn,) = [turn for turn in outcome.transcript["turns"] if turn["speaker"] == "agent"]
    assert turn["heard"] == turn["text"] == "Very well, thank you."
    assert turn["start_ms"] == pytest.approx(5500, abs=40)
    assert ("latency_ms" in turn) == (not fast)


def test_the_tail_is_limited() -> None:
    outcome = talk(stem("en_turn_taking_01"), answering(1000, 60.0), fast=True, tail_s=2.0)
    assert len(outcome.agent) == pytest.approx((len(stem("en_turn_taking_01")) / 16000 + 2.0) * 24000, abs=960)


def test_silence_gets_no_tail() -> None:
    outcome = talk(np.zeros(32000, np.float32), FakeEngine(), fast=True)
    assert len(outcome.agent) == 48000
    assert outcome.transcript == {"turns": []}
    assert failure(outcome) is None


def test_everything_is_written_and_can_be_read(tmp_path: Path) -> None:
    outcome = talk(render("en_turn_taking_01", length_s=6.0).audio, answering(5500, 1.0), fast=True)
    for _ in range(2):  # the second time over the first
        write(outcome, tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    agent, rate_hz = soundfile.read(folder / "agent.wav", dtype="int16")
    assert rate_hz == 24000
    assert np.array_equal(agent, outcome.agent)
    lines = (folder / "timeline.jsonl").read_text(encoding="utf-8").splitlines()
    assert tuple(from_line(line) for line in lines) == outcome.timeline.entries
    turns = json.loads((folder / "transcript.json").read_text(encoding="utf-8"))["turns"]
    assert [turn["speaker"] for turn in turns] == ["user", "agent"]


def test_words_that_went_on_replace_those_with_the_same_beginning() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.index == 5:
            session.hear("How are you", start_ms=100)
        if unit.index == 8:
            session.hear("How are you today?", start_ms=100)
        if unit.index == 12:
            session.hear("And yesterday?", start_ms=900)

    turns = talk(np.zeros(32000, np.float32), FakeEngine(on_unit), fast=True).transcript["turns"]
    assert [(turn["start_ms"], turn["text"]) for turn in turns] == [
        (100, "How are you today?"),
        (900, "And yesterday?"),
    ]


@pytest.mark.parametrize("level", [0.0, 30.0], ids=["silent", "clipped"])
def test_silent_and_clipped_recordings_reach_the_engine_whole_and_the_runtime_invents_nothing(
    tmp_path: Path, level: float
) -> None:
    soundfile.write(tmp_path / "a.wav", np.clip(tone(48000, 2.0, level), -1, 1), 48000, subtype="FLOAT")
    audio = read_audio(tmp_path / "a.wav")
    units: list[FloatPcm] = []

    def on_unit(_: FakeSession, unit: MediaUnit) -> None:
        units.append(unit.audio)

    outcome = talk(audio, FakeEngine(on_unit), fast=True)
    assert failure(outcome) is None
    assert np.array_equal(np.concatenate(units)[: len(audio)], audio)
    assert not outcome.agent.any()
    assert outcome.transcript == {"turns": []}


def test_a_failure_on_the_way_is_said_and_the_rest_kept() -> None:
    def on_unit(session: FakeSession, unit: MediaUnit) -> None:
        if unit.index == 10:
            session.emit(Trouble(1000, "gone", "The models are gone.", fatal=True))

    outcome = talk(np.zeros(32000, np.float32), FakeEngine(on_unit), fast=True)
    assert failure(outcome) == "The models are gone."
    assert 0 < len(outcome.agent) < 48000
