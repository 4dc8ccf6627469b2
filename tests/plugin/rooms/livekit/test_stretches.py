from __future__ import annotations

import numpy as np
from realtime_venus.plugin.rooms.base import PlayoutFrame
from realtime_venus.plugin.rooms.livekit.stretches import Stretches

PCM = np.zeros(480, dtype=np.int16)


def told(stretches: Stretches, pattern: str, first: int = 0) -> list[int | None]:
    """``#`` sounds, ``.`` is silent."""
    return [
        stretches.note(PlayoutFrame(first + number, PCM, silent=sign == ".")) for number, sign in enumerate(pattern)
    ]


def test_every_run_of_sound_is_a_stretch_that_is_told_once() -> None:
    stretches = Stretches()
    assert told(stretches, "..###.##") == [None, None, 0, None, None, None, 1, None]


def test_milliseconds_of_a_stretch_are_frames() -> None:
    stretches = Stretches()
    told(stretches, "..###.##")
    assert [stretches.played(0, ms) for ms in (0, 19, 20, 45, 60, 1e12)] == [1, 1, 2, 3, 4, 4]
    assert stretches.played(1, 40) == 7


def test_numbers_that_were_never_told_mean_nothing() -> None:
    stretches = Stretches()
    assert stretches.played(0, 20) is None
    told(stretches, "#")
    assert stretches.played(1, 20) is None


def test_frames_of_another_session_begin_another_stretch() -> None:
    stretches = Stretches()
    told(stretches, "##", first=100)
    assert told(stretches, "##") == [1, None]
    assert stretches.played(1, 40) == 1


def test_only_the_last_stretches_are_remembered() -> None:
    stretches = Stretches()
    told(stretches, "#." * 100)
    assert stretches.played(0, 20) is None
    assert stretches.played(99, 20) == 198
