"""Features: of a recording, and of a stream against the same computed from the whole buffer every time."""

from __future__ import annotations

import re

import numpy as np
import pytest
from realtime_venus.engines.base import INPUT_HZ, EngineError, FloatPcm
from realtime_venus.engines.omni.mel import PIECE, Floor, Mel, MelFront, log_mel, offline_mel, pieces, stack

from tests.kit import golden
from tests.kit.omni_ears import config, noise

TOLERANCE = 1e-4


def mels() -> int:
    audio = config().audio
    assert audio is not None
    return audio.num_mel_bins


def shown(mel: Mel) -> np.ndarray:
    return mel.frames[:, 2:] if mel.first else mel.frames


def test_the_stream_is_that_of_the_published_front_end() -> None:
    recorded = golden.stage("audio_mel_stream")
    microphone = golden.microphone()
    front = MelFront(mels())
    columns = list(recorded["info_columns"])
    filled = np.pad(microphone, (int(recorded["need_samples"][0]) + 80 - INPUT_HZ, 0))
    consumed = 0
    for unit in recorded["units"]:
        samples = microphone[unit * INPUT_HZ : (unit + 1) * INPUT_HZ]
        assert front.enough(len(samples))
        mel = front.push(samples)
        assert mel is not None
        frames = shown(mel)
        info = dict(zip(columns, recorded["info"][unit].tolist(), strict=True))
        assert mel.first == (unit == 0)
        assert front.carry == recorded["buffer_after"][unit]
        assert frames.shape[1] == recorded["mel_frames"][unit] == info["emitted_frames"]
        chunk = filled[consumed : consumed + recorded["chunk_len"][unit]]
        consumed += len(chunk)
        assert len(chunk) == recorded["need_samples"][unit]
        assert chunk.sum(dtype=np.float64) == pytest.approx(recorded["chunk_sum_f64"][unit], abs=1e-6)

        state = front.snapshot()
        assert state["samples"] == consumed
        assert state["samples"] - info["left_samples_dropped"] == info["buffer_len_samples"]
        assert state["dropped"] * 10 * INPUT_HZ == info["left_samples_dropped"]
        assert state["stable"] == info["base_T"] + info["stable_T"]
        assert info["T_full"] == info["buffer_len_samples"] // 160
        assert (info["core_start"], info["core_end"]) == (100 * (front.units - 1), 100 * front.units)

        statistics = [frames.min(), frames.max(), frames.mean(), frames.std()]
        expected = [recorded[f"mel_{name}"][unit] for name in ("min", "max", "mean", "std")]
        np.testing.assert_allclose(statistics, expected, atol=TOLERANCE)
        if unit in recorded["sel"]:
            np.testing.assert_allclose(frames, recorded[f"mel_{unit:02d}"][0], atol=TOLERANCE)


class Brute:
    """The definition: keep the buffer, featurise all of it for every unit."""

    def __init__(self) -> None:
        self.pending = np.zeros(0, np.float32)
        self.buffer = np.zeros(0, np.float32)
        self.base = 0
        self.units = 0

    def push(self, samples: FloatPcm) -> np.ndarray | None:
        self.pending = np.concatenate([self.pending, samples])
        if self.units == 0 and 0 < len(self.pending) < 16_560:
            self.pending = np.concatenate([np.zeros(16_560 - len(self.pending), np.float32), self.pending])
        need = 16_000 if self.units else 16_480
        if len(self.pending) < need:
            return None
        self.buffer = np.concatenate([self.buffer, self.pending[:need]])
        self.pending = self.pending[need:]
        if len(self.buffer) >= 480_000:
            self.buffer = self.buffer[160_000:]
            self.base += 1000
        floor = Floor.LOUDEST if len(self.buffer) >= 80_000 else Floor.FIXED
        features = log_mel(self.buffer, 80, floor)
        first = max(0, 100 * self.units - 2) - self.base
        self.units += 1
        return features[:, first : 100 * self.units + 2 - self.base]


def bursts(seconds: int, seed: int) -> FloatPcm:
    """Noise with loud clicks, some of them where the buffer is cut or mirrored."""
    random = np.random.RandomState(seed)
    wave = noise(seconds, seed, 0.003)
    edges = [10 * 16_000 - 560, 20 * 16_000 - 560, 16_480 + 16_000 * 7]
    places = [*random.randint(0, len(wave), 12), *(edge + random.randint(-400, 400) for edge in edges)]
    for place in places:
        if 0 <= place < len(wave) - 50:
            wave[place : place + 50] += random.standard_normal(50).astype(np.float32) * random.uniform(0.1, 20)
    return wave


@pytest.mark.parametrize("seed", range(6))
def test_incremental_features_are_those_of_the_whole_buffer(seed: int) -> None:
    random = np.random.RandomState(100 + seed)
    wave = bursts(44, seed)
    front, brute = MelFront(), Brute()
    position = units = 0
    while position < len(wave):
        # Whole seconds mostly, for a long stream; else whatever comes.
        length = 16_000 if random.uniform() < 0.7 else int(random.choice([1, 79, 80, 3_000, 15_919, 15_920, 33_333]))
        chunk = wave[position : position + length]
        position += length
        foreseen = front.enough(len(chunk))
        mel, expected = front.push(chunk), brute.push(chunk)
        assert (mel is not None) == (expected is not None) == foreseen
        assert front.carry == len(brute.pending)
        if mel is not None and expected is not None:
            units += 1
            np.testing.assert_allclose(shown(mel), expected, atol=2e-6)
    assert units > 20


def test_a_click_at_the_slide_is_weighed_as_the_buffers_mirrored_beginning() -> None:
    # The only loud sound lies just before the first slide, within half a window of it: after the slide it counts
    # only through the first two frames, which no longer see it but their own mirror image.
    wave = noise(32, 3, 1e-4)
    wave[10 * 16_000 - 560 - 150 : 10 * 16_000 - 560 - 100] = 0.9
    front, brute = MelFront(), Brute()
    for second in range(32):
        chunk = wave[second * 16_000 : (second + 1) * 16_000]
        mel, expected = front.push(chunk), brute.push(chunk)
        assert mel is not None
        assert expected is not None
        np.testing.assert_allclose(shown(mel), expected, atol=2e-6)


def test_a_unit_that_is_too_short_is_foreseen_and_its_samples_are_kept() -> None:
    front = MelFront()
    assert not front.enough(0)
    assert front.push(np.zeros(0, np.float32)) is None
    assert front.push(noise(0.5, 1)) is not None
    assert not front.enough(15_919)
    assert front.enough(15_920)
    assert front.push(noise(0.9, 2)) is None
    assert front.carry == 80 + 14_400
    assert front.push(noise(0.095, 3)) is not None
    assert front.carry == 0


def test_the_floor_is_fixed_until_five_seconds_have_been_heard() -> None:
    front = MelFront()
    floors: list[Floor] = []
    for second in range(7):
        assert front.push(noise(1, second)) is not None
        floors.append(front.floor)
    assert floors == [Floor.FIXED] * 4 + [Floor.LOUDEST] * 3


def test_digital_silence_lies_at_the_fixed_floor() -> None:
    front = MelFront()
    mel = front.push(np.zeros(16_000, np.float32))
    assert mel is not None
    np.testing.assert_allclose(shown(mel), -1.5)
    assert not mel.frames[:, :2].any()


def test_a_restored_front_end_goes_on_as_if_nothing_had_happened() -> None:
    wave = bursts(40, 9)
    seconds = [wave[start : start + 16_000] for start in range(0, len(wave), 16_000)]
    whole = MelFront()
    expected = [whole.push(second) for second in seconds]
    for cut in (0, 1, 4, 10, 29, 31):
        front = MelFront()
        for second in seconds[:cut]:
            front.push(second)
        snapshot = front.snapshot()
        for second in seconds[cut : cut + 2]:
            front.push(second)
        for continued in (front, MelFront()):
            continued.restore(snapshot)
            for second, mel in zip(seconds[cut:], expected[cut:], strict=True):
                again = continued.push(second)
                assert mel is not None
                assert again is not None
                np.testing.assert_array_equal(again.frames, mel.frames)


def test_a_reset_front_end_is_a_new_one() -> None:
    used, new = MelFront(), MelFront()
    for second in range(7):
        used.push(noise(1, second))
    used.reset()
    first, again = new.push(noise(1, 50)), used.push(noise(1, 50))
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first.frames, again.frames)
    assert again.first


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_refused_and_change_nothing(bad: float) -> None:
    front, clean = MelFront(), MelFront()
    chunk = noise(1, 4)
    broken = chunk.copy()
    broken[77] = bad
    with pytest.raises(EngineError, match="not numbers"):
        front.push(broken)
    with pytest.raises(EngineError, match="not numbers"):
        offline_mel(broken)
    first, second = front.push(chunk), clean.push(chunk)
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.frames, second.frames)


def test_units_are_stacked_with_a_mask_of_what_is_there() -> None:
    begun, new = MelFront(), MelFront()
    begun.push(noise(1, 1))
    later, first = begun.push(noise(1, 2)), new.push(noise(1, 3))
    assert later is not None
    assert first is not None
    frames, present = stack([later, first])
    assert frames.shape == (2, 80, 104)
    assert present[0].all()
    assert present[1, 0].tolist() == [0, 0] + [1] * 102


def test_recordings_are_featurised_as_published() -> None:
    recorded = golden.stage("audio_offline")
    microphone = golden.microphone()
    voice = golden.wave(golden.voice())
    short = microphone[slice(*recorded["short_range"])]
    assert [offline_mel(voice, mels()).shape[1]] == recorded["ref_lens"].tolist()
    assert [offline_mel(short, mels()).shape[1]] == recorded["short_lens"].tolist()
    long = microphone[: int(recorded["long_samples"][0])]
    assert [offline_mel(piece, mels()).shape[1] for piece in pieces(long)] == recorded["long_lens"].tolist()
    np.testing.assert_allclose(offline_mel(voice, mels()), recorded["ref_mel"][0], atol=TOLERANCE)
    np.testing.assert_allclose(offline_mel(short, mels()), recorded["short_mel"][0], atol=TOLERANCE)
    clip = microphone[slice(*recorded["stale_range"])]
    stale = {name: each for name, each in recorded.items() if name.startswith("stale_mel_")}
    assert len(stale) > 1
    for name, expected in stale.items():
        after = re.fullmatch(r"stale_mel_(?:fresh|after_(\d+)s_session)", name)
        assert after is not None
        # A session of less than 5 s leaves its floor behind.
        floor = Floor.FIXED if after[1] is not None and int(after[1]) < 5 else Floor.LOUDEST
        np.testing.assert_allclose(offline_mel(clip, mels(), floor), expected[0], atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("samples", [1, 159, 160, 161, 401, 16_000, PIECE - 700, PIECE - 100, PIECE - 1, PIECE])
def test_a_piece_is_featurised_as_if_silence_followed_up_to_thirty_seconds(samples: int) -> None:
    wave = noise(30, 8)[-samples:]
    padded = log_mel(np.pad(wave, (0, PIECE - samples)))
    np.testing.assert_allclose(offline_mel(wave), padded[:, : -(-samples // 160)], atol=2e-6)


@pytest.mark.parametrize("samples", [0, PIECE + 1])
def test_a_piece_is_neither_empty_nor_too_long(samples: int) -> None:
    with pytest.raises(EngineError, match="samples"):
        offline_mel(np.zeros(samples, np.float32))
