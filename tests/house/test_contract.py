"""Every promise of docs/contract.md stands beside a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from ..kit.repository import ROOT

CONTRACT = ROOT / "docs" / "contract.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[tuple[str, str]]:
    """The table rows of the contract: the promise and the cell with its tests."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in CONTRACT.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    return [(row[0], row[-1]) for row in cells if row[0] != "promise" and not set(row[0]) <= {"-"}]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"), path)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


@pytest.mark.parametrize(("promise", "where"), rows())
def test_a_promise_stands_beside_its_test(promise: str, where: str) -> None:
    named: list[tuple[str, str]] = TEST.findall(where)
    assert named, f"no test locks: {promise}"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in names_in(path), f"{path} has no {name}"
