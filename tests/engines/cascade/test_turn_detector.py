"""Smart Turn: its features as its makers compute them, and what it says of finished and unfinished speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.cascade.turn_detector import SmartTurn, features
from realtime_venus.engines.store import Store

from ...kit.kits import sample, sample_ids, stem


@pytest.fixture(scope="module")
def detector(models: Store) -> SmartTurn:
    return SmartTurn(models.path("smart-turn-v3.2-cpu.onnx"))


def test_features_are_those_the_model_was_trained_on() -> None:
    """Pinned against the feature extractor that comes with the model (pipecat-ai 1.14.0, float64)."""
    at = np.arange(16_000, dtype=np.float64) / 16_000
    made = features((0.25 * np.sin(2 * np.pi * 440 * at) * np.exp(-2 * at) + 0.01).astype(np.float32))

    assert made.shape == (80, 800)
    np.testing.assert_allclose(
        [made[0, 0], made[10, 705], made[30, 760], made[5, 799], made[79, 702]], PINNED, atol=1e-4
    )


PINNED = [0.90235, 1.92984, 0.03544, 0.68043, 0.03544]


def test_the_newest_eight_seconds_count() -> None:
    audio = np.random.default_rng(0).normal(0, 0.1, 12 * 16_000).astype(np.float32)

    np.testing.assert_array_equal(features(audio), features(audio[-8 * 16_000 :]))


@pytest.mark.parametrize("samples", [0, 1, 200, 16_000])
def test_any_length_gives_features(samples: int) -> None:
    assert np.isfinite(features(np.zeros(samples, np.float32))).all()
    assert np.isfinite(features(np.full(samples, np.nan, np.float32))).all()


@pytest.mark.models
def test_ends_of_turns_sound_more_finished_than_pauses(detector: SmartTurn) -> None:
    paused: list[float] = []
    ended: list[float] = []
    for name in sample_ids("pause_handling"):
        event, audio = sample(name)["events"][0], stem(name)
        upto = [int(16_000 * (pause["start_s"] + 0.2)) for pause in event["pauses"]]
        paused += [detector.probability(audio[:end]) for end in upto]
        end = int(16_000 * event["speech_end_s"])
        ended.append(detector.probability(np.concatenate([audio[:end], np.zeros(3200, np.float32)])))

    assert np.median(ended) > 0.9
    assert np.median(paused) < 0.5
    assert np.mean(ended) > np.mean(paused) + 0.25


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"turn\.onnx does not exist"):
        SmartTurn(tmp_path / "turn.onnx")
