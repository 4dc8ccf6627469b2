from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image
from realtime_venus.engines.base import VenusError
from realtime_venus.plugin.commands import app
from realtime_venus.plugin.converse import FILES
from realtime_venus.plugin.main import run
from realtime_venus.plugin.session import SessionSettings
from realtime_venus.plugin.timeline import Recorder
from typer.testing import CliRunner

from ..kit import checkpoints, golden
from .test_video import record, tone


class Given:
    """Settings with the recordings in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.settings = SessionSettings(recordings_dir=folder)

    def section(self, model: type[SessionSettings]) -> SessionSettings:
        assert model is SessionSettings
        return self.settings


def venus(folder: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), obj=Given(folder), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    for name in ("one", "two", "three"):
        Recorder(tmp_path / name).close()
    (tmp_path / "mine").mkdir()
    return tmp_path


def test_recordings_are_listed(recorded: Path) -> None:
    assert venus(recorded, "recordings", "list").split()[-3:] == ["one", "three", "two"]


def test_one_or_all_are_deleted_and_nothing_else(recorded: Path) -> None:
    venus(recorded, "recordings", "delete", "two")
    assert sorted(path.name for path in recorded.iterdir()) == ["mine", "one", "three"]
    venus(recorded, "recordings", "delete", "--all")
    assert [path.name for path in recorded.iterdir()] == ["mine"]
    assert "0 recordings" in venus(recorded, "recordings", "delete", "--all")


@pytest.mark.parametrize("arguments", [("mine",), ("../x",), ("one", "four"), ()])
def test_what_is_no_recording_is_refused_and_nothing_deleted(recorded: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(VenusError, match="venus recordings list"):
        venus(recorded, "recordings", "delete", *arguments)
    assert len(list(recorded.iterdir())) == 4


def test_converse_says_what_is_wrong_with_a_file_before_any_model_loads(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    with pytest.raises(VenusError, match="is empty"):
        venus(tmp_path, "converse", "--audio", str(tmp_path / "empty.wav"))


def test_converse_says_that_it_cannot_write_before_any_model_loads(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(1600), 16_000)
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "agent.wav").mkdir(parents=True)
    for out, told in (("file", "Not a directory"), ("file/below", "Not a directory"), ("taken", "Is a directory")):
        with pytest.raises(VenusError, match=f"{out} cannot be written: {told}"):
            venus(tmp_path, "converse", "--audio", str(tmp_path / "a.wav"), "--out", str(tmp_path / out))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav", "file", "taken"]


# -- the omni engine -----------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options for the recorded checkpoint, with few tokens, since a random network always has something to say."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("POSITIONS", "2048"), ("FLOW_STEPS", "3"), ("DECODING__TOKENS_PER_UNIT", "6")):
        monkeypatch.setenv(f"VENUS_OMNI__{name}", value)
    monkeypatch.setenv("VENUS_MODELS__CACHE_DIR", str(tmp_path / "cache"))
    return ("--model", str(golden.model_dir()), "--device", "cpu", "--dtype", "float32")


def spoken(path: Path, seconds: int) -> Path:
    soundfile.write(path, golden.microphone()[: seconds * 16_000], 16_000)
    return path


def test_a_recording_through_the_omni_engine(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    audio = spoken(tmp_path / "a.wav", 4)
    assert run(["converse", "--engine", "omni", *tiny, "--audio", str(audio), "--fast", "--tail", "2"]) == 0
    out = tmp_path / "conversation"
    assert {path.name for path in out.iterdir()} == set(FILES)
    agent, rate = soundfile.read(out / "agent.wav", dtype="int16")
    assert rate == 24_000
    assert abs(agent).max() > 100
    timeline = [json.loads(line) for line in (out / "timeline.jsonl").read_text(encoding="utf-8").splitlines()]
    assert any('"omni"' in json.dumps(entry) for entry in timeline)
    assert (
        len([entry for entry in timeline if "unit.timed" in json.dumps(entry) or "timings" in json.dumps(entry)]) >= 4
    )


def test_a_video_through_the_omni_engine(
    tmp_path: Path, tiny: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    silent = record(tmp_path / "a.mp4", pictures=15)
    arguments = ["converse", "--engine", "omni", *tiny, "--fast", "--tail", "0"]
    assert run([*arguments, "--video", str(silent), "--out", str(tmp_path / "seen")]) == 0
    assert "has no sound: silence is heard" in capsys.readouterr().err
    soundfile.write(tmp_path / "silence.wav", np.zeros(48_000), 16_000)
    assert run([*arguments, "--audio", str(tmp_path / "silence.wav"), "--out", str(tmp_path / "unseen")]) == 0
    seen, unseen = ((tmp_path / name / "agent.wav").read_bytes() for name in ("seen", "unseen"))
    assert seen != unseen


def test_a_question_about_a_recording_a_picture_and_a_video(
    tmp_path: Path, tiny: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    audio = spoken(tmp_path / "a.wav", 2)
    image = tmp_path / "large.jpg"
    Image.linear_gradient("L").resize((5472, 3648)).save(image)
    video = record(tmp_path / "a.mp4", pictures=10, sound=tone(2))
    answers: list[str] = []
    for about in (("--audio", audio), ("--image", image), ("--video", video), ("--image", image, "--audio", audio)):
        assert run(["ask", "What is it?", *map(str, about), *tiny, "--max-tokens", "5"]) == 0
        answers.append(capsys.readouterr().out)
    assert all(answer.endswith("\n") for answer in answers)
    assert len(set(answers)) > 1


def test_a_checkpoint_without_eyes_is_told_what_is_heard_in_a_video_and_says_so(
    tmp_path: Path, tiny: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    def blind(changed: dict[str, Any]) -> None:
        changed["init_vision"] = False

    model = str(checkpoints.copy(tmp_path / "model", config=blind))
    question = ["ask", "What is it?", "--model", model, *tiny[2:], "--max-tokens", "5"]
    video = record(tmp_path / "a.mp4", pictures=10, sound=tone(2))
    assert run([*question, "--video", str(video)]) == 0
    assert "sees nothing: it is told what is heard in the video" in capsys.readouterr().err
    silent, picture = record(tmp_path / "b.mp4", pictures=10), tmp_path / "a.png"
    Image.linear_gradient("L").save(picture)
    for about, told in ((("--video", silent), "has no sound"), (("--image", picture), "ask about a sound")):
        assert run([*question, *map(str, about)]) != 0
        err = capsys.readouterr().err
        assert "sees nothing" in err
        assert told in err.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("converse",), "either --audio or --video"),
        (("converse", "--audio", "a", "--video", "b"), "either --audio or --video"),
        (("converse", "--audio", "a.wav", "--model", "x"), "for --engine omni"),
        (("converse", "--audio", "a.wav", "--engine", "omni", "--model", "nowhere"), "no config.json"),
        (("converse", "--audio", "a.wav", "--engine", "omni"), "venus models pull omni"),
        (("converse", "--audio", "a.wav", "--engine", "omni", "--dtype", "int3"), "dtype: Input should be"),
        (("converse", "--video", "a.wav", "--engine", "oracle"), "unknown engine"),
        (("ask", "What?", "--video", "a.mp4", "--image", "b.png"), "--video alone"),
        (("ask", "What?", "--image", "a.wav"), "of no known kind"),
        (("ask", "What?", "--audio", "a.wav", "--device", "tpu"), "device: Input should be"),
        (("ask", "What?"), "venus models pull omni"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENUS_MODELS__CACHE_DIR", str(tmp_path / "cache"))
    spoken(tmp_path / "a.wav", 1)
    assert run(arguments) == 1
    shown = capsys.readouterr().err
    assert told in shown
    assert "Traceback" not in shown
