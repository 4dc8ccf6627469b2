from __future__ import annotations

import numpy as np
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.rooms.input import InputClock
from realtime_venus.plugin.rooms.livekit.mixer import Block, Mixer


def level(value: float, frames: int = 1) -> FloatPcm:
    return np.full(320 * frames, value, dtype=np.float32)


class Table:
    """A mixer with the room's input behind it."""

    def __init__(self) -> None:
        self.clock = InputClock()
        self.clock.position(100.0)
        self.mixer = Mixer(self.clock, wait_ms=60)
        self.free = 0
        self.out: list[Block] = []

    def add(self, key: str, value: float, now_s: float, frames: int = 1) -> list[int]:
        return self._take(self.mixer.add(key, key, level(value, frames), now_s, self.free))

    def remove(self, key: str, now_s: float) -> list[int]:
        return self._take(self.mixer.remove(key, now_s))

    def _take(self, blocks: list[Block]) -> list[int]:
        for block in blocks:
            assert block.position >= self.free
            self.free = block.position + 320
        self.out += blocks
        return [block.position for block in blocks]


def test_one_alone_passes_at_once_at_the_present() -> None:
    table = Table()
    assert table.add("a", 0.1, 100.02) == [0]
    assert table.add("a", 0.1, 100.04) == [320]
    assert table.out[0].samples[0] == np.float32(0.1)


def test_frames_of_any_length_are_cut_into_blocks() -> None:
    table = Table()
    sizes: list[tuple[int, list[int]]] = [(160, []), (160, [0]), (480, [320]), (160, [640])]
    for size, positions in sizes:
        samples = np.zeros(size, dtype=np.float32)
        found = table.mixer.add("a", "a", samples, 100.02, table.free)
        assert [block.position for block in found] == positions


def test_two_are_added_up_and_never_exceed_full_scale() -> None:
    table = Table()
    table.add("a", 0.2, 100.02)
    assert table.add("b", 0.3, 100.04) == []
    assert table.add("a", 0.2, 100.04) == [320]
    np.testing.assert_allclose(table.out[-1].samples, 0.5, rtol=1e-6)
    assert table.out[-1].powers.keys() == {"a", "b"}
    table.add("b", 0.9, 100.06)
    table.add("a", 0.9, 100.06)
    assert table.out[-1].samples.max() == 1.0


def test_the_mix_waits_for_a_late_one_but_not_for_long() -> None:
    table = Table()
    table.add("a", 0.1, 100.02)
    table.add("b", 0.1, 100.04)
    table.add("a", 0.1, 100.04)
    assert table.add("a", 0.1, 100.06) == []
    assert table.add("a", 0.1, 100.08) == []
    assert table.add("a", 0.1, 100.121) == [640, 960, 1280]
    assert table.mixer.counters.waited_out >= 1
    assert table.add("b", 0.1, 100.122) == []
    assert table.mixer.counters.late == 1


def test_nobody_waits_for_one_who_has_gone() -> None:
    table = Table()
    table.add("a", 0.1, 100.02)
    table.add("b", 0.1, 100.04)
    table.add("a", 0.1, 100.04)
    assert table.add("a", 0.1, 100.06) == []
    assert table.remove("b", 100.07) == [640]
    assert table.add("a", 0.1, 100.08) == [960]
    assert table.mixer.sources == 1


def test_a_burst_after_a_stall_keeps_its_places() -> None:
    table = Table()
    table.add("a", 0.1, 100.02)
    table.add("b", 0.1, 100.04)
    table.add("a", 0.1, 100.04)
    assert table.add("a", 0.1, 100.44, frames=20) == []
    assert table.add("b", 0.2, 100.441, frames=20) == [640 + n * 320 for n in range(20)]
    assert all(len(block.powers) == 2 for block in table.out[-20:])
    assert (table.mixer.counters.late, table.mixer.counters.waited_out) == (0, 0)


def test_one_who_stays_behind_is_brought_up_to_the_present() -> None:
    table = Table()
    table.add("a", 0.1, 100.02)
    for number in range(40):
        table.add("a", 0.1, 103.0 + number * 0.02)
    assert table.mixer.counters.placed_anew == 1
    assert abs(table.free - (3.0 + 39 * 0.02) * 16_000) < 1000


def test_what_was_filled_in_the_meantime_is_not_overwritten() -> None:
    table = Table()
    table.add("a", 0.1, 100.02)
    table.free = 8000
    assert table.add("a", 0.1, 100.04) == []
    assert table.mixer.counters.late == 1
    assert table.add("b", 0.1, 100.04) == [8000]


def test_two_tracks_of_one_speaker_count_together() -> None:
    table = Table()
    table.mixer.add("t1", "alice", level(0.1), 100.02, 0)
    assert table.mixer.add("t2", "alice", level(0.1), 100.04, 320) == []
    (block,) = table.mixer.add("t1", "alice", level(0.1), 100.04, 320)
    assert block.powers.keys() == {"alice"}
