"""The choice of the language model by free memory."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from realtime_venus.engines.base import NotEnoughMemory
from realtime_venus.engines.cascade.model_size import LARGE, SMALL, choose_model, needed_files
from realtime_venus.engines.store import ModelsSettings, Store

NEEDED = LARGE.needed_bytes
NEEDED_SMALL = SMALL.needed_bytes


def test_the_large_model_when_it_fits() -> None:
    assert choose_model(NEEDED) is LARGE


def test_the_small_one_with_a_warning_when_memory_is_short(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert choose_model(NEEDED - 1) is SMALL
    assert "weak in Chinese" in caplog.text


def test_a_model_asked_for_is_not_exchanged() -> None:
    assert choose_model(NEEDED, "0.5b") is SMALL
    with pytest.raises(NotEnoughMemory, match="MiB of free memory"):
        choose_model(NEEDED - 1, "1.5b")


def test_too_little_memory_is_an_error_before_loading() -> None:
    with pytest.raises(NotEnoughMemory, match="MiB of free memory"):
        choose_model(NEEDED_SMALL - 1)


def test_unknown_models_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown language model '7b'"):
        choose_model(NEEDED, "7b")


def test_only_the_language_model_that_fits_is_pulled(tmp_path: Path) -> None:
    store = Store(ModelsSettings(cache_dir=tmp_path))
    plenty, short = needed_files(store, LARGE.needed_bytes), needed_files(store, SMALL.needed_bytes)
    assert LARGE.file in plenty
    assert SMALL.file not in plenty
    assert set(short) ^ set(plenty) == {LARGE.file, SMALL.file}
    assert "whisper-base/model.bin" in short
    assert needed_files(store, LARGE.needed_bytes, "0.5b") == short
    assert needed_files(store, 0) == plenty
