"""The samples of ``beside.py``: questions of twelve seconds, and the interruptions of the kit.

Written as folders with ``input.wav`` and ``metadata.json``, the format of the kit's ``mix.py`` and of the harness.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import soundfile as sf
from latency import KIT, NOISE_DBFS
from realtime_venus.engines.base import INPUT_HZ, FloatPcm

END_S = 6.0
"""When the last speech of a question ends.  The harness plays six seconds more."""
TOTAL_S = 12.0
LONGEST_S = 5.6
QUESTIONS = 24
INTERRUPTIONS = {"en": 12, "zh": 6}

Json = dict[str, Any]


def samples(language: str) -> list[Json]:
    """What the kit says of its samples, in the order of their names."""
    paths = sorted((KIT / "samples").glob(f"{language}_*.json"))
    return [cast(Json, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def chosen(language: str, count: int = QUESTIONS) -> list[Json]:
    """A fixed choice of first questions, in turn from every scenario, none twice and none too long."""
    scenarios: dict[str, list[Json]] = {}
    texts: set[str] = set()
    for sample in samples(language):
        question = sample["events"][0]
        length = float(question["speech_end_s"]) - float(question["speech_start_s"])
        if length <= LONGEST_S and question["text"] not in texts:
            texts.add(question["text"])
            scenarios.setdefault(str(sample["scenario"]), []).append(sample)
    found: list[Json] = []
    while len(found) < count and any(scenarios.values()):
        found.extend(waiting.pop(0) for _, waiting in sorted(scenarios.items()) if waiting)
    return found[:count]


def write_question(folder: Path, sample: Json) -> Path:
    """Silence, the question at the kit's level so that its speech ends at :data:`END_S`, silence."""
    event = sample["events"][0]
    stem = cast(FloatPcm, sf.read(KIT / event["stem"], dtype="float32")[0])
    gain = 10 ** ((float(sample["question_level_dbfs"]) + float(event["rel_db"]) - float(event["level_dbfs"])) / 20)
    noise = np.random.default_rng(0).normal(0, 10 ** (NOISE_DBFS / 20), int(TOTAL_S * INPUT_HZ))
    whole = noise.astype(np.float32)
    begin = round((END_S - float(event["speech_end_s"])) * INPUT_HZ)
    cut = stem[max(0, -begin) :]
    begin = max(0, begin)
    whole[begin : begin + len(cut)] += cut * np.float32(gain)
    span = [round(END_S - float(event["speech_end_s"]) + float(event["speech_start_s"]), 3), END_S]
    about = {
        "id": sample["id"],
        "language": sample["language"],
        "scenario": "question",
        "subclass": sample["scenario"],
        "expected_keywords": sample["expected_keywords"],
        "context_text": event["text"],
        "context_timestamp": span,
        "timestamp": span,
        "events": [{"role": "question", "speaker": "user", "text": event["text"], "timestamp": span}],
        "total_s": TOTAL_S,
    }
    target = folder / "question" / str(sample["id"])
    target.mkdir(parents=True, exist_ok=True)
    sf.write(target / "input.wav", np.clip(whole, -1, 1), INPUT_HZ, subtype="PCM_16")
    (target / "metadata.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
    return target


def questions(folder: Path, language: str, count: int) -> list[Path]:
    """The folders of the questions."""
    return [write_question(folder, sample) for sample in chosen(language, count)]


def interruptions(folder: Path, language: str, count: int) -> list[Path]:
    """The folders of the interruptions, rendered by the kit's own ``mix.py``."""
    script = [sys.executable, str(KIT / "mix.py"), "--out", str(folder), "--scenario", "user_interruption"]
    subprocess.run([*script, "--language", language], check=True, stdout=subprocess.DEVNULL)
    return sorted((folder / "user_interruption").glob(f"{language}_*"))[: min(count, INTERRUPTIONS[language])]
