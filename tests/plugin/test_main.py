"""The command line as a whole: collected from parts, errors in one line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil
import pytest
import soundfile
import typer
from realtime_venus.engines.base import EngineError, MissingExtra
from realtime_venus.plugin.main import GROUP, LazySettings, build, main, run


def part() -> typer.Typer:
    """One part with a command, a group, and two commands that fail."""
    app = typer.Typer()
    things = typer.Typer()
    app.add_typer(things, name="things")

    @app.command()
    def greet(context: typer.Context, name: str) -> None:
        assert isinstance(context.obj, LazySettings)
        typer.echo(f"hello {name}")

    @things.command("list")
    def list_things() -> None:
        typer.echo("a thing")

    @app.command()
    def fail() -> None:
        raise EngineError("the [engine] is [bold]out[/bold] of oil; " + "add some " * 40)

    @app.command()
    def leave() -> None:
        raise typer.Exit(3)

    assert all((greet, list_things, fail, leave))
    return app


def entry(name: str, value: str) -> metadata.EntryPoint:
    return metadata.EntryPoint(name, value, GROUP)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[metadata.EntryPoint]:
    """Parts one of which needs an extra that is not there, and one of which does not exist."""
    good = ModuleType("made_up_part")
    good.__dict__["app"] = part()
    good.__dict__["number"] = 5
    monkeypatch.setitem(sys.modules, "made_up_part", good)

    class Refuses(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise MissingExtra("made_up_extra", "local")

    monkeypatch.setitem(sys.modules, "made_up_extra", Refuses("made_up_extra"))
    return [
        entry("good", "made_up_part:app"),
        entry("extra", "made_up_extra:app"),
        entry("gone", "nobody_has_this:app"),
    ]


def test_commands_and_groups_of_the_parts_stand_at_the_top(
    parts: list[metadata.EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["greet", "you"], parts) == 0
    assert run(["things", "list"], parts) == 0
    assert run(["version"], parts) == 0
    assert capsys.readouterr().out == f"hello you\na thing\n{metadata.version('realtime-venus')}\n"


def test_an_error_is_one_line_on_the_error_stream(
    parts: list[metadata.EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fail"], parts) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: the [engine] is [bold]out[/bold] of oil; add some")
    assert shown.err.count("\n") == 1


def test_debug_shows_where_it_came_from(parts: list[metadata.EntryPoint]) -> None:
    with pytest.raises(EngineError, match="out"):
        run(["--debug", "fail"], parts)


def test_a_commands_own_exit_code_is_kept(parts: list[metadata.EntryPoint]) -> None:
    assert run(["leave"], parts) == 3


def test_an_unknown_command_names_the_nearest_and_the_parts_that_are_not_available(
    parts: list[metadata.EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["gret"], parts) == 2
    shown = capsys.readouterr().err
    assert "Did you mean 'greet'?" in shown
    assert "The commands of gone are not available: No module named 'nobody_has_this'" in shown
    assert "pip install 'realtime-venus[local]'" in shown


def test_the_help_names_commands_and_what_is_not_available(
    parts: list[metadata.EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    run(["--help"], parts)
    shown = capsys.readouterr().out
    for word in ("greet", "things", "version", "commands of extra"):
        assert word in shown


def test_a_part_that_is_no_command_line_is_an_error(parts: list[metadata.EntryPoint]) -> None:
    assert run(["version"], [*parts, entry("odd", "made_up_part:number")]) == 1


def test_a_wrong_setting_stops_a_command_that_reads_settings_and_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VENUS_MODELS__PARALEL", "2")
    assert run(["models", "list"]) == 1
    assert "did you mean VENUS_MODELS__PARALLEL?" in capsys.readouterr().err
    assert run(["version"]) == 0


def test_too_little_memory_is_one_line_that_says_how_much_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    @dataclass
    class Memory:
        available: int = 100 * 2**20

    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    soundfile.write(tmp_path / "question.wav", np.zeros(1600), 16_000)
    out = tmp_path / "out"
    assert run(["converse", "--audio", str(tmp_path / "question.wav"), "--out", str(out), "--fast"]) == 1
    *_, said = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ")
    assert "MiB of free memory and 100 MiB are free" in said
    assert not out.exists()


def test_the_script_ends_with_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["venus", "version"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert capsys.readouterr().out.strip() == metadata.version("realtime-venus")


def test_the_registered_commands_are_there() -> None:
    root, _ = build(LazySettings())
    names = {group.name for group in root.registered_groups} | {
        command.name or getattr(command.callback, "__name__", "") for command in root.registered_commands
    }
    assert {"models", "doctor", "version"} <= names
