"""The recorded scenarios under tests/kits, rendered as the user's microphone would hear them."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
import soundfile
from realtime_venus.engines.base import FloatPcm

DUPLEX_KIT = Path(__file__).resolve().parents[1] / "kits" / "duplex"
KIT_HZ = 16_000

Json = dict[str, Any]


class _Mixer(Protocol):
    """What is used of the kit's own script, ``mix.py``."""

    def render(
        self,
        root: Path,
        sample: Json,
        length_s: float | None = None,
        overlap_offset: float | None = None,
        with_floor: bool = True,
    ) -> tuple[FloatPcm, FloatPcm, Json]: ...


@dataclass(frozen=True, slots=True)
class Rendered:
    """A sample as audio: ``audio`` and ``clean`` are mono float32 at 16 kHz, ``clean`` without what overlaps.

    ``metadata`` holds texts and times in seconds, as the kit's README describes them.
    """

    audio: FloatPcm
    clean: FloatPcm
    metadata: Json


@lru_cache(maxsize=1)
def _mixer() -> _Mixer:
    spec = importlib.util.spec_from_file_location("duplex_kit_mix", DUPLEX_KIT / "mix.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(DUPLEX_KIT / "mix.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return cast(_Mixer, module)


def sample_ids(scenario: str | None = None, language: str | None = None) -> Sequence[str]:
    """Ids of the samples of a scenario and a language (``en``, ``zh``), in name order; ``None`` means all."""
    lines = (DUPLEX_KIT / "index.jsonl").read_text(encoding="utf-8").splitlines()
    entries: list[Json] = [json.loads(line) for line in lines]
    return tuple(
        sorted(
            str(entry["id"])
            for entry in entries
            if scenario in (None, entry["scenario"]) and language in (None, entry["language"])
        )
    )


def sample(sample_id: str) -> Json:
    """The description of a sample.  Raises ``KeyError`` for an unknown id."""
    path = DUPLEX_KIT / "samples" / f"{sample_id}.json"
    if not path.is_file():
        raise KeyError(sample_id)
    return cast(Json, json.loads(path.read_text(encoding="utf-8")))


def render(sample_id: str, *, length_s: float | None = None, overlap_offset_s: float | None = None) -> Rendered:
    """Mix a sample: ``length_s`` of audio (its own length by default), the overlap moved by ``overlap_offset_s``."""
    audio, clean, metadata = _mixer().render(DUPLEX_KIT, sample(sample_id), length_s, overlap_offset_s)
    return Rendered(audio, clean, metadata)


def stem(sample_id: str, role: str = "question") -> FloatPcm:
    """The dry recording of the first event with ``role`` (``question``, ``overlap``, ``noise``), mono 16 kHz."""
    for event in sample(sample_id)["events"]:
        if event["role"] == role:
            audio, rate = soundfile.read(DUPLEX_KIT / event["stem"], dtype="float32")
            if rate != KIT_HZ:
                raise ValueError(f"{event['stem']} is at {rate} Hz")
            return cast(FloatPcm, audio)
    raise KeyError(f"{sample_id} has no event with the role {role}")


@pytest.fixture(scope="session")
def duplex_kit() -> Path:
    """The folder of the duplex kit."""
    return DUPLEX_KIT
