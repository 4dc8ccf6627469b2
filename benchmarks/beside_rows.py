"""What a played sample says, by one definition for every system: from the recorded track, never from what it claims.

A question: last user sound (the kit's) → first 20 ms of the agent's track above the level; a start before the last
sound is a false start.  An interruption, where the agent was speaking at its onset: onset → silence (half a second of
it) and, by the system's own events, onset → hold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import soundfile as sf
from latency import FRAME, LEVEL, first_sound_s
from machine_load import cores
from realtime_venus.engines.base import OUTPUT_HZ, Int16Pcm

QUIET_CORES = 0.15
FRAME_S = 0.02
GAP_S = 0.5
"""Less silence than this is inside a sentence."""
SENTENCE_GAP_S = 1.5
"""Less silence than this is between sentences of one turn, unless the agent was cut there."""
START_SLACK_S = 0.3
"""A turn that begins so soon after the onset was on its way: it counts as speaking, as in ``peers/score.py``."""
AFTER_S = 1.0
"""An agent that speaks for so long after the interruption's end has gone on."""
BEFORE_S, SLACK_S = 0.1, 0.15
"""How far a cut may lie before the onset and after the silence it made."""
HOLDS = {"hold", "playback_paused"}
CUTS = HOLDS | {"yield", "playback_cleared", "interruption"}
RESUMED = {"go_on", "playback_resumed"}

Json = dict[str, Any]


@dataclass(slots=True)
class Row:
    """One sample of one system.

    ``outcome`` is of interruptions: ``stopped``, ``went_on``, ``own_end`` (had finished by itself), ``not_speaking``.
    """

    system: str
    kind: str
    id: str
    language: str
    tries: int
    others_cores: float
    own_cores: float
    companions_cores: float
    rss_mb: float
    at: str
    latency_s: float | None = None
    false_start: bool = False
    outcome: str = ""
    hold_s: float | None = None
    silence_s: float | None = None
    resumed: bool = False
    heard: str = ""
    said: str = ""

    @property
    def disturbed(self) -> bool:
        """Others were at work: not a figure."""
        return self.others_cores >= QUIET_CORES


def segments(track: Int16Pcm) -> list[tuple[float, float]]:
    """The agent's speech as (start, end) in seconds."""
    frames = track[: len(track) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float32) / 32768
    found: list[tuple[float, float]] = []
    for index in np.flatnonzero(np.sqrt(np.mean(frames**2, axis=1)) > LEVEL):
        start, end = float(index) * FRAME_S, float(index + 1) * FRAME_S
        if found and start - found[-1][1] < GAP_S:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def turns(spoken: list[tuple[float, float]], cuts: list[float]) -> list[tuple[float, float]]:
    """The agent's turns, as ``peers/score.py`` joins them."""
    found: list[tuple[float, float]] = []
    for start, end in spoken:
        last = found[-1] if found else None
        joined = last is not None and start - last[1] < SENTENCE_GAP_S
        if last is not None and joined and not any(last[1] - BEFORE_S <= at <= start for at in cuts):
            found[-1] = (last[0], end)
        else:
            found.append((start, end))
    return found


def times(events: list[Json], kinds: set[str]) -> list[float]:
    """When events of these kinds happened, but not pauses of a playback that plays nothing."""
    return [float(event["t"]) for event in events if event["type"] in kinds and event.get("open", True)]


def judge(row: Row, track: Int16Pcm, about: Json, events: list[Json]) -> None:
    """Fill in what an interruption did, by the rules of ``peers/score.py``."""
    onset, end = (float(value) for value in about["timestamp"])
    cuts = times(events, CUTS)
    active = next(((a, b) for a, b in turns(segments(track), cuts) if a <= onset + START_SLACK_S and b > onset), None)
    if active is None:
        row.outcome = "not_speaking"
        return
    holds = [at for at in times(events, HOLDS) if onset - BEFORE_S <= at <= end + AFTER_S]
    row.hold_s = round(holds[0] - onset, 3) if holds else None
    if active[1] > end + AFTER_S:
        row.outcome = "went_on"
    elif not any(onset - BEFORE_S <= at <= active[1] + SLACK_S for at in cuts):
        row.outcome, row.hold_s = "own_end", None
    else:
        row.outcome = "stopped"
        row.silence_s = round(active[1] - onset, 3)
        row.resumed = any(active[1] <= at <= end + AFTER_S for at in times(events, RESUMED))


def row_of(system: str, folder: Path, tries: int) -> Row:
    """Read a sample's folder as the harness writes it."""
    about = cast(Json, json.loads((folder / "metadata.json").read_text(encoding="utf-8")))
    report = cast(Json, json.loads((folder / "events.json").read_text(encoding="utf-8")))
    audio, hz = cast(tuple[Int16Pcm, int], sf.read(folder / "output.wav", dtype="int16"))
    assert hz == OUTPUT_HZ
    events: list[Json] = report["events"]
    load = cores(report["load"])
    row = Row(
        system,
        str(about["scenario"]),
        str(about["id"]),
        str(about["language"]),
        tries,
        load.others,
        load.own,
        load.companions,
        float(report["rss_mb"]),
        str(report["at"]),
        heard=" | ".join(str(event["text"]) for event in events if event["type"] == "transcript"),
        said=" ".join(str(event["text"]).strip() for event in events if event["type"] == "agent_text"),
    )
    asked = float(about["context_timestamp"][1])
    first, later = first_sound_s(audio), first_sound_s(audio, asked)
    row.false_start = first is not None and first < asked
    if row.kind == "question":
        row.latency_s = None if later is None else round(later - asked, 3)
    else:
        judge(row, audio, about, events)
    return row
