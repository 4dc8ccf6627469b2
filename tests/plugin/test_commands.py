from __future__ import annotations

from pathlib import Path

import pytest
from realtime_venus.engines.base import VenusError
from realtime_venus.plugin.commands import app
from realtime_venus.plugin.session import SessionSettings
from realtime_venus.plugin.timeline import Recorder
from typer.testing import CliRunner


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
