"""Loading says what is missing before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from realtime_venus.engines.base import NotEnoughMemory
from realtime_venus.engines.cascade import loading
from realtime_venus.engines.cascade.loading import load, threads_for
from realtime_venus.engines.cascade.model_size import LARGE, MIB, OTHER_MODELS_MIB, SMALL
from realtime_venus.engines.cascade.settings import CascadeSettings
from realtime_venus.engines.store import ModelsSettings, Store
from realtime_venus.engines.store.errors import ModelCorrupt, ModelMissing


@dataclass
class Memory:
    """What psutil says of the machine's memory."""

    available: int


def free(monkeypatch: pytest.MonkeyPatch, mib: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(mib * MIB))


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    """A store into which nothing was fetched."""
    return Store(ModelsSettings(cache_dir=tmp_path))


@pytest.mark.parametrize(("wanted", "cores", "threads"), [(0, 1, 1), (0, 2, 2), (0, 64, 2), (5, 2, 5)])
def test_threads_are_a_setting_or_the_cores_two_at_most(
    monkeypatch: pytest.MonkeyPatch, wanted: int, cores: int, threads: int
) -> None:
    monkeypatch.setattr(loading, "usable_cores", lambda: cores)
    assert threads_for(CascadeSettings(threads=wanted)) == threads


def test_too_little_memory_is_told_before_any_file_is_looked_for(monkeypatch: pytest.MonkeyPatch, empty: Store) -> None:
    free(monkeypatch, SMALL.resident_mib + OTHER_MODELS_MIB - 1)
    with pytest.raises(NotEnoughMemory, match="need 1600 MiB of free memory and 1599 MiB are free"):
        load(CascadeSettings(), empty)


def test_a_model_asked_for_must_fit(monkeypatch: pytest.MonkeyPatch, empty: Store) -> None:
    free(monkeypatch, LARGE.resident_mib + OTHER_MODELS_MIB - 1)
    with pytest.raises(NotEnoughMemory):
        load(CascadeSettings(model="1.5b"), empty)


def test_a_file_that_is_not_there_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, empty: Store) -> None:
    free(monkeypatch, 100_000)
    with pytest.raises(ModelMissing, match=r"qwen2\.5-coder-1\.5b.*is not there; run: venus models pull$"):
        load(CascadeSettings(), empty)


def test_a_damaged_file_is_named_with_what_to_do_and_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty: Store
) -> None:
    free(monkeypatch, 100_000)
    (tmp_path / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf").write_bytes(b"GGUF" + bytes(1000))
    with pytest.raises(ModelCorrupt, match=r"qwen2\.5-coder-1\.5b.*venus models"):
        load(CascadeSettings(), empty)


@pytest.mark.parametrize("wanted", ["auto", "0.5b"])
def test_the_small_model_is_named_when_it_is_the_one_needed(
    monkeypatch: pytest.MonkeyPatch, empty: Store, wanted: str
) -> None:
    free(monkeypatch, SMALL.resident_mib + OTHER_MODELS_MIB)
    with pytest.raises(ModelMissing, match=r"run: venus models pull qwen2\.5-coder-0\.5b"):
        load(CascadeSettings.model_validate({"model": wanted}), empty)
