"""What ``benchmarks/beside.py`` counts as measured; what is measured is no matter of tests."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..kit.repository import ROOT

CHILD = """
import sys, os, time
def played(name):
    print(f"12:00:00 {name} 12.0s", flush=True)
"""


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The module, whose rows are names and whose children do as a test tells them."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    made = importlib.import_module("beside")  # a script, beside the others that it imports
    monkeypatch.setattr(made, "OUT", tmp_path)
    monkeypatch.setattr(made, "START_S", 5.0)
    monkeypatch.setattr(made, "SAMPLE_S", 0.0)
    monkeypatch.setattr(made, "asdict", list[object])
    monkeypatch.setattr(made, "row_of", named)
    yield made
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(ROOT / "benchmarks")):
            del sys.modules[name]


def named(_system: str, folder: Path, tries: int) -> tuple[str, int]:
    """A row."""
    return folder.name, tries


def played(beside: Any, monkeypatch: pytest.MonkeyPatch, script: str) -> list[tuple[str, int]]:
    """The rows of a batch of three that ``script`` plays."""

    def command(*_: object) -> list[str]:
        return [sys.executable, "-c", CHILD + script]

    monkeypatch.setattr(beside, "command", command)
    options = beside.Options(("ours",), ("en",), 3, 0, None, 0.0, False, None)
    folders = [Path("question") / name for name in ("one", "two", "three")]
    return list(beside.play("ours", folders, options))


def test_every_sample_is_counted_once_with_its_tries(beside: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "played('one'); played('two'); played('two'); played('three')"
    assert played(beside, monkeypatch, script) == [("one", 1), ("two", 2), ("three", 1)]


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os.abort()", "sys.exit(1)"])
def test_the_last_sample_of_one_that_broke_is_not_counted(
    beside: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], end: str
) -> None:
    assert played(beside, monkeypatch, f"played('one'); played('two'); {end}") == [("one", 1)]
    assert "its last sample is not counted" in capfd.readouterr().out


@pytest.mark.parametrize("hang", ["time.sleep(600)", "os.close(1); time.sleep(600)"])
def test_one_that_hangs_is_ended_though_it_said_its_last_and_is_not_counted(
    beside: Any, monkeypatch: pytest.MonkeyPatch, hang: str
) -> None:
    monkeypatch.setattr(beside, "START_S", 1.0)
    assert played(beside, monkeypatch, f"played('one'); played('two'); {hang}") == [("one", 1)]


@pytest.mark.parametrize(("rows", "status"), [(3, None), (2, 1)])
def test_fewer_samples_than_planned_are_said_and_a_failure(
    beside: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    rows: int,
    status: int | None,
) -> None:
    names = ("one", "two", "three")
    report = sys.modules["beside_report"]

    def measure(_options: object) -> dict[str, list[tuple[str, str]]]:
        row = {"kind": "question", "language": "en", "system": "ours", "tries": 1, "own_cores": 0.5, "at": "12:00:00"}
        row |= {"companions_cores": 0.0, "rss_mb": 1.0}
        lines = [json.dumps({**row, "id": name, "others_cores": 0.2 * (n >= rows)}) for n, name in enumerate(names)]
        (tmp_path / "ours.jsonl").write_text("\n".join(lines), encoding="utf-8")
        plan = {"ours": [("question", name) for name in names]}
        report.write_plan(tmp_path, plan)
        return plan

    monkeypatch.setattr(beside, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["beside.py"])
    if status is None:
        beside.main()
    else:
        with pytest.raises(SystemExit) as ended:
            beside.main()
        assert ended.value.code == status
    assert f"ours: measured {rows} of planned 3" in capsys.readouterr().out
    text = report.write_report(tmp_path, tmp_path / "beside.md", ("ours",))
    assert f"ours, at the room's edge: {rows} of planned 3" in text
