from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from realtime_venus.engines.base import OUTPUT_HZ, Int16Pcm
from realtime_venus.plugin.playback import LedgerState, Moved, Playback, Resolved
from realtime_venus.plugin.rooms.base import PLAYOUT_SAMPLES, PlayoutFrame

from ..kit.fake_engine import coded_voice

FRAME = PLAYOUT_SAMPLES


@dataclass
class Bench:
    """A playback with its listener, and a second ledger kept from what is reported."""

    acknowledges: bool = True
    delay_ms: int = 0
    kept_pause_ms: int = 120
    max_queued_ms: int = 300_000
    frames: list[PlayoutFrame] = field(default_factory=list[PlayoutFrame])
    states: dict[str, dict[int, LedgerState]] = field(default_factory=dict[str, dict[int, LedgerState]])
    resolved: dict[str, Resolved] = field(default_factory=dict[str, Resolved])
    moves: list[Moved] = field(default_factory=list[Moved])

    def __post_init__(self) -> None:
        self.playback = Playback(
            lambda: len(self.frames) * 20,
            acknowledges=self.acknowledges,
            delay_ms=self.delay_ms,
            kept_pause_ms=self.kept_pause_ms,
            max_queued_ms=self.max_queued_ms,
        )

    def say(self, utterance_id: str, samples: int, first: int = 0) -> None:
        self.playback.enqueue(utterance_id, first, coded_voice(samples, first))

    def whole(self, utterance_id: str, samples: int) -> None:
        self.say(utterance_id, samples)
        self.playback.end(utterance_id, samples)

    def pull(self, frames: int = 1, *, ack: bool = False) -> Int16Pcm:
        start = len(self.frames)
        for _ in range(frames):
            self.frames.append(self.playback.pull())
            if ack:
                self.playback.acknowledge(len(self.frames) - 1)
        return np.concatenate([frame.pcm for frame in self.frames[start:]])

    def drain(self) -> Sequence[Moved | Resolved]:
        news = self.playback.drain()
        for item in news:
            if isinstance(item, Resolved):
                assert item.utterance_id not in self.resolved
                self.resolved[item.utterance_id] = item
                continue
            self.moves.append(item)
            states = self.states.setdefault(item.utterance_id, {})
            for sample in range(-(-item.first // 10) * 10, item.end, 10):
                before = states.get(sample)
                assert before not in (LedgerState.HEARD, LedgerState.DISCARDED), "final states are final"
                states[sample] = item.state
        return news


def voiced_ms(pcm: Int16Pcm) -> float:
    return float(np.count_nonzero(np.abs(pcm.astype(np.int32)) > 500)) / OUTPUT_HZ * 1000


# -- pulling ---------------------------------------------------------------------------------------------------------


def test_idle_frames_share_one_buffer_and_are_numbered() -> None:
    bench = Bench()
    bench.pull(3)
    assert [frame.number for frame in bench.frames] == [0, 1, 2]
    assert all(frame.silent and not frame.pcm.any() for frame in bench.frames)
    assert len({id(frame.pcm) for frame in bench.frames}) == 1
    assert not bench.frames[0].pcm.flags.writeable
    assert bench.drain() == []


def test_speech_comes_out_sample_for_sample_in_order() -> None:
    bench = Bench()
    bench.say("a", 700)
    bench.say("a", 500, first=700)
    bench.playback.end("a", 1200)
    bench.whole("b", 900)
    out = bench.pull(5, ack=True)
    assert np.array_equal(out[:1200], coded_voice(1200))
    assert np.array_equal(out[1200:2100], coded_voice(900))
    assert not out[2100:].any()
    bench.drain()
    assert list(bench.resolved) == ["a", "b"]
    assert bench.resolved["a"].heard == bench.resolved["a"].total == 1200
    assert not bench.resolved["a"].flushed


def test_repeated_speech_is_skipped_and_a_hole_refused() -> None:
    bench = Bench()
    bench.say("a", 960)
    bench.playback.enqueue("a", 480, coded_voice(960, 480))
    assert np.array_equal(bench.pull(3), coded_voice(1440))
    with pytest.raises(ValueError, match="expected"):
        bench.say("a", 10, first=2000)
    with pytest.raises(ValueError, match="expected"):
        bench.say("b", 10, first=1)
    assert bench.playback.current == ("a",)
    bench.playback.end("a", 1440)
    with pytest.raises(ValueError, match="ended"):
        bench.say("a", 10, first=1440)


def test_an_utterance_without_a_sound_ends() -> None:
    bench = Bench()
    bench.playback.end("a", 0)
    bench.drain()
    assert bench.resolved["a"].total == 0


def test_more_than_fits_is_refused_and_discarded() -> None:
    bench = Bench(max_queued_ms=100)
    bench.say("a", 2400)
    bench.say("a", 480, first=2400)
    bench.playback.end("a", 2880)
    assert bench.playback.refused_samples == 480
    bench.pull(7, ack=True)
    bench.drain()
    assert bench.resolved["a"].heard == 2400
    assert bench.states["a"][2400] is LedgerState.DISCARDED


# -- duck, hold, go on ---------------------------------------------------------------------------------------------


def test_duck_is_twelve_decibels_without_a_click() -> None:
    bench = Bench()
    bench.say("a", 48000)
    loud = bench.pull(5)
    bench.playback.duck(on=True)
    ramp = bench.pull(1)
    quiet = bench.pull(5)
    level = np.sqrt(np.mean(np.square(quiet.astype(float)))) / np.sqrt(np.mean(np.square(loud.astype(float))))
    assert 20 * np.log10(level) == pytest.approx(-12.0, abs=0.2)
    steps = np.abs(np.diff(np.concatenate([loud, ramp, quiet]).astype(int)))
    assert steps.max() <= 1.05 * np.abs(np.diff(loud.astype(int))).max()
    bench.playback.duck(on=False)
    bench.pull(1)
    assert np.array_equal(bench.pull(1), coded_voice(480, 12 * 480))


def test_hold_pauses_at_the_next_frame_and_loses_nothing() -> None:
    bench = Bench()
    bench.whole("a", 24000)
    heard = bench.pull(10, ack=True)
    bench.playback.hold()
    dying = bench.pull(1, ack=True)
    assert voiced_ms(dying) < 6
    assert not dying[-300:].any()
    assert not bench.pull(20, ack=True).any()
    assert bench.playback.queued_samples == 24000 - 4800
    bench.playback.go_on()
    rest = bench.pull(60, ack=True)
    bench.drain()
    assert bench.resolved["a"].heard == 24000
    assert set(bench.states["a"].values()) == {LedgerState.HEARD}
    assert np.array_equal(heard, coded_voice(4800))
    assert np.array_equal(np.trim_zeros(rest)[-2400:], coded_voice(2400, 24000 - 2400)[:2400])


def test_what_was_sent_but_not_played_is_sent_again() -> None:
    bench = Bench()
    bench.whole("a", 24000)
    bench.pull(20)
    bench.playback.acknowledge(9)
    bench.playback.hold()
    bench.pull(3)
    bench.drain()
    assert bench.playback.queued_samples == 24000 - 20 * FRAME
    bench.playback.go_on()
    news = [item for item in bench.drain() if isinstance(item, Moved)]
    assert [(item.state, item.first, item.end) for item in news] == [(LedgerState.QUEUED, 10 * FRAME, 20 * FRAME)]
    assert bench.playback.queued_samples == 24000 - 10 * FRAME
    bench.playback.acknowledge(19)  # late: these frames are not on their way any more
    assert bench.playback.heard_samples("a") == 10 * FRAME
    bench.pull(60, ack=True)
    bench.drain()
    assert bench.resolved["a"].heard == 24000


def words(*spans_ms: tuple[int, int], total_ms: int) -> Int16Pcm:
    """Tone where there are words, silence between them."""
    pcm = coded_voice(total_ms * 24)
    mask = np.zeros(total_ms * 24, dtype=bool)
    for start, end in spans_ms:
        mask[start * 24 : end * 24] = True
    return np.where(mask, pcm, 0).astype(np.int16)


def test_speech_goes_on_from_the_cut_word() -> None:
    bench = Bench()
    pcm = words((0, 300), (400, 900), total_ms=1000)
    bench.playback.enqueue("a", 0, pcm)
    bench.playback.end("a", len(pcm))
    bench.pull(30, ack=True)  # 600 ms: in the second word
    bench.playback.hold()
    bench.pull(10, ack=True)
    bench.playback.go_on()
    again = bench.pull(40, ack=True)
    start = int(np.flatnonzero(again)[0])
    assert start <= 24 * 20  # one block of the pause, then the word
    assert abs(voiced_ms(again) - voiced_ms(words((0, 500), total_ms=500))) < 12  # all of the second word again
    bench.drain()
    assert bench.resolved["a"].heard == len(pcm)


def test_a_cut_in_a_pause_repeats_nothing() -> None:
    bench = Bench()
    pcm = words((0, 300), (400, 900), total_ms=1000)
    bench.playback.enqueue("a", 0, pcm)
    bench.pull(19, ack=True)  # 380 ms
    bench.playback.hold()
    bench.pull(2, ack=True)
    bench.playback.go_on()
    assert voiced_ms(bench.pull(40, ack=True)) == pytest.approx(voiced_ms(pcm[400 * 24 :]), abs=1)


def test_a_word_cut_at_the_very_beginning_is_said_from_there() -> None:
    bench = Bench()
    bench.whole("a", 24000)
    bench.pull(5, ack=True)
    bench.playback.hold()
    bench.pull(5, ack=True)
    bench.playback.go_on()
    assert voiced_ms(bench.pull(60, ack=True)) == pytest.approx(voiced_ms(coded_voice(24000)), abs=6)


def test_lag_is_won_back_in_pauses() -> None:
    bench = Bench(kept_pause_ms=100)
    pcm = words((0, 300), (800, 1100), (1500, 1800), total_ms=2000)
    bench.playback.enqueue("a", 0, pcm)
    bench.playback.end("a", len(pcm))
    bench.pull(10, ack=True)
    bench.playback.hold()
    bench.pull(20, ack=True)  # 400 ms behind, and what is said again on top
    bench.playback.go_on()
    assert bench.playback.lag_ms >= 400
    rest = bench.pull(120, ack=True)
    bench.drain()
    spoken = np.flatnonzero(rest)
    assert bench.playback.lag_ms == 0
    assert voiced_ms(rest) == pytest.approx(voiced_ms(pcm), abs=12)  # no word is lost, the first said again
    assert (spoken[-1] - spoken[0]) / 24 < 1800 - 400
    assert LedgerState.DISCARDED in bench.states["a"].values()
    assert bench.resolved["a"].heard == len(pcm)


def test_without_lag_pauses_stay_as_they_are() -> None:
    bench = Bench()
    pcm = words((0, 300), (1300, 1500), total_ms=1600)
    bench.playback.enqueue("a", 0, pcm)
    assert np.array_equal(bench.pull(80), pcm)


def test_go_on_without_a_hold_changes_nothing() -> None:
    bench = Bench()
    bench.say("a", 4800)
    bench.pull(2)
    bench.playback.go_on()
    assert np.array_equal(bench.pull(1), coded_voice(480, 960))


# -- flush and acknowledgements ------------------------------------------------------------------------------------


@pytest.mark.parametrize("heard_frames", [0, 1, 7, 19, 20, 25])
def test_truncation_at_any_point(heard_frames: int) -> None:
    bench = Bench()
    bench.whole("a", 20 * FRAME)
    bench.pull(25)
    if heard_frames:
        bench.playback.acknowledge(heard_frames - 1)
    bench.playback.flush("a")
    bench.playback.flush("a")
    bench.drain()
    expected = min(heard_frames, 20) * FRAME
    assert bench.resolved["a"].heard == expected
    assert bench.resolved["a"].flushed == (heard_frames < 20)
    states = bench.states["a"]
    assert all(states[s] is (LedgerState.HEARD if s < expected else LedgerState.DISCARDED) for s in states)


def test_flush_silences_the_next_frame() -> None:
    bench = Bench()
    bench.say("a", 48000)
    bench.pull(10)
    bench.playback.flush()
    assert voiced_ms(bench.pull(1)) < 6
    assert not bench.pull(5).any()
    assert bench.playback.current == ()


def test_flush_of_one_leaves_the_other() -> None:
    bench = Bench()
    bench.whole("a", 4800)
    bench.whole("b", 4800)
    bench.pull(3)
    bench.playback.flush("a")
    bench.pull(1)
    assert np.array_equal(bench.pull(10), coded_voice(4800))


def test_flush_ends_the_hold() -> None:
    bench = Bench()
    bench.say("a", 4800)
    bench.pull(2)
    bench.playback.hold()
    bench.pull(3)
    bench.playback.flush("a")
    bench.whole("b", 960)
    assert np.array_equal(bench.pull(2), coded_voice(960))


def test_a_late_report_of_something_old_changes_nothing() -> None:
    bench = Bench()
    bench.whole("old", 20 * FRAME)
    bench.pull(20)
    bench.playback.flush("old")
    bench.whole("new", 20 * FRAME)
    bench.pull(1)
    bench.drain()
    bench.playback.acknowledge(15)
    bench.playback.acknowledge(3)
    bench.playback.acknowledge(-1)
    bench.playback.acknowledge(10_000)
    assert bench.drain() == []
    assert bench.playback.heard_samples("old") == 0
    assert bench.playback.heard_samples("new") == 0


def test_without_reports_for_a_second_hearing_is_estimated() -> None:
    bench = Bench(delay_ms=100)
    bench.say("a", 24000 * 3)
    bench.pull(10)
    bench.playback.acknowledge(8)
    bench.pull(48)
    assert bench.playback.heard_samples("a") == 9 * FRAME
    bench.pull(4)
    assert bench.playback.heard_samples("a") == (62 - 5) * FRAME
    bench.pull(10)
    assert bench.playback.heard_samples("a") == (72 - 5) * FRAME
    bench.playback.acknowledge(70)  # it is back
    bench.pull(10)
    assert bench.playback.heard_samples("a") == 71 * FRAME
    bench.drain()
    assert {item.estimated for item in bench.moves if item.state is LedgerState.HEARD} == {False, True}


def test_a_listener_that_never_reports_is_estimated_from_the_start() -> None:
    bench = Bench(acknowledges=False, delay_ms=60)
    bench.say("a", 24000)
    bench.pull(10)
    assert bench.playback.heard_samples("a") == 7 * FRAME
    bench.drain()
    assert all(item.estimated for item in bench.moves if item.state is LedgerState.HEARD)


def test_when_only_a_telephone_is_left_hearing_is_estimated_at_once() -> None:
    bench = Bench(delay_ms=60)
    bench.say("a", 24000)
    bench.pull(10, ack=True)
    bench.playback.expect_reports(False)
    bench.pull(10)
    assert bench.playback.heard_samples("a") == 17 * FRAME


def test_when_a_page_joins_its_reports_are_waited_for_and_for_a_second_only() -> None:
    bench = Bench(acknowledges=False, delay_ms=60)
    bench.say("a", 24000 * 3)
    bench.pull(10)
    bench.playback.expect_reports(True)
    bench.pull(10)
    assert bench.playback.heard_samples("a") == 7 * FRAME
    bench.playback.acknowledge(14)
    assert bench.playback.heard_samples("a") == 15 * FRAME
    for _ in range(60):
        bench.playback.expect_reports(True)  # nothing has changed
        bench.pull()
    assert bench.playback.heard_samples("a") == 77 * FRAME


def test_bursts_and_gaps_keep_order_and_count_underruns() -> None:
    bench = Bench()
    burst = OUTPUT_HZ // 2
    out: list[Int16Pcm] = []
    for index in range(6):
        bench.say("a", burst, first=index * burst)
        out.append(bench.pull(60, ack=True))  # 500 ms of speech, 1200 ms of time
    bench.playback.end("a", 6 * burst)
    bench.pull(1, ack=True)
    bench.drain()
    assert bench.playback.underruns == 6
    assert bench.resolved["a"].heard == 6 * burst
    for index, part in enumerate(out):
        inner = slice(200, burst - 200)  # the edges are faded
        assert np.array_equal(part[inner], coded_voice(burst, index * burst)[inner])
        assert not part[burst:].any()


# -- whatever happens ----------------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("say"), st.integers(1, 3000)),
    st.tuples(st.just("pause"), st.integers(1, 9000)),
    st.tuples(st.just("end"), st.just(0)),
    st.tuples(st.just("pull"), st.integers(1, 60)),
    st.tuples(st.just("ack"), st.integers(-3, 80)),
    st.tuples(st.just("hold"), st.just(0)),
    st.tuples(st.just("go_on"), st.just(0)),
    st.tuples(st.just("duck"), st.integers(0, 1)),
    st.tuples(st.just("flush"), st.integers(0, 1)),
)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=40), acknowledges=st.booleans(), delay_ms=st.sampled_from([0, 100]))
def test_every_sample_is_heard_or_discarded_exactly_once(
    steps: list[tuple[str, int]], acknowledges: bool, delay_ms: int
) -> None:
    bench = Bench(acknowledges=acknowledges, delay_ms=delay_ms)
    playback = bench.playback
    received: dict[str, int] = {}
    number = 0
    over = False
    for step, value in [*steps, ("end", 0), ("go_on", 0), ("pull", 400), ("ack", 0), ("pull", 60)]:
        name = f"u{number}"
        if step in ("say", "pause") and not over:
            pcm = coded_voice(value, received.get(name, 0)) if step == "say" else np.zeros(value, np.int16)
            playback.enqueue(name, received.get(name, 0), pcm)
            received[name] = received.get(name, 0) + value
        elif step == "end" and name in received:
            playback.end(name, received[name])
            number += 1
        elif step == "pull":
            bench.pull(value)
        elif step == "ack":
            playback.acknowledge(len(bench.frames) - 1 - value)
        elif step == "hold":
            playback.hold()
        elif step == "go_on":
            playback.go_on()
        elif step == "duck":
            playback.duck(on=bool(value))
        elif step == "flush":
            playback.flush(name if value else None)
            number += name in received
        bench.drain()
        assert playback.queued_samples >= 0
    bench.pull(800, ack=True)
    bench.drain()
    assert {name: item.total for name, item in bench.resolved.items()} == received
    sent = [item.utterance_id for item in bench.moves if item.state is LedgerState.SENT]
    # A hold takes back the end of several utterances at once, which are then sent again: the last sending counts.
    order = list(dict.fromkeys(reversed(sent)))[::-1]
    assert order == sorted(order, key=lambda name: int(name[1:]))
    for name, total in received.items():
        states = bench.states[name]
        assert set(states.values()) <= {LedgerState.HEARD, LedgerState.DISCARDED}
        covered = np.zeros(total, dtype=np.int8)
        for item in bench.moves:
            if item.utterance_id == name and item.state in (LedgerState.HEARD, LedgerState.DISCARDED):
                covered[item.first : item.end] += 1
        assert (covered == 1).all()
        heard = [item.end for item in bench.moves if item.utterance_id == name and item.state is LedgerState.HEARD]
        assert bench.resolved[name].heard == max(heard, default=0)
