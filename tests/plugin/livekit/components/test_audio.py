from __future__ import annotations

import numpy as np
import pytest
from livekit import rtc
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.livekit.components.audio import Mono16k, cut_at_pauses, frame_of, joined, mono


def tone(hz: float, seconds: float, rate_hz: int) -> FloatPcm:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def frame(samples: FloatPcm, rate_hz: int, channels: int = 1) -> rtc.AudioFrame:
    data = np.repeat((samples * 32767).astype(np.int16), channels)
    return rtc.AudioFrame(data.tobytes(), rate_hz, channels, samples.size)


def pitch(samples: FloatPcm, rate_hz: int = 16_000) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(samples.size)))
    return float(np.argmax(spectrum)) * rate_hz / samples.size


def test_channels_are_mixed_evenly() -> None:
    data = np.array([[1000, 3000], [-2000, 0]], np.int16)
    assert mono(rtc.AudioFrame(data.tobytes(), 48_000, 2, 2)) == pytest.approx(np.array([2000, -1000]) / 32768)


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_any_rate_becomes_16_khz(rate_hz: int, channels: int) -> None:
    sound = joined(frame(tone(440, 1.0, rate_hz), rate_hz, channels))
    assert sound.dtype == np.float32
    assert abs(sound.size - 16_000) <= 1
    assert pitch(sound) == pytest.approx(440, abs=2)


def test_frames_of_several_rates_are_joined() -> None:
    frames = [frame(tone(440, 0.5, 48_000), 48_000), frame(tone(440, 0.5, 8000), 8000)]
    assert abs(joined(frames).size - 16_000) <= 2
    assert joined([]).size == 0


def test_a_stream_of_short_frames_keeps_its_time_and_survives_a_change_of_rate() -> None:
    stream, parts = Mono16k(), list[FloatPcm]()
    for rate_hz in (44_100, 16_000, 48_000):
        whole = tone(440, 2.0, rate_hz)
        step = rate_hz // 50
        parts += [stream.push(frame(whole[at : at + step], rate_hz)) for at in range(0, whole.size, step)]
    sound = np.concatenate(parts)
    # A resampler keeps some milliseconds to itself.
    assert 6 * 16_000 - sound.size < 0.15 * 16_000
    assert pitch(sound[:16_000]) == pytest.approx(440, abs=2)
    assert pitch(sound[-16_000:]) == pytest.approx(440, abs=2)


def test_a_frame_of_samples_is_16_khz_mono_and_never_wraps() -> None:
    made = frame_of(np.array([0.0, 1.5, -1.5], np.float32))
    assert (made.sample_rate, made.num_channels, made.samples_per_channel) == (16_000, 1, 3)
    assert list(made.data) == [0, 32767, -32767]


def test_long_audio_is_cut_where_it_is_quiet_and_nothing_is_lost() -> None:
    audio = tone(440, 60.0, 16_000)
    pauses = (24.0, 48.0)
    for at in pauses:
        audio[int(at * 16_000) : int((at + 0.3) * 16_000)] = 0
    pieces = cut_at_pauses(audio, 28.0)
    assert np.array_equal(np.concatenate(pieces), audio)
    assert all(piece.size <= 28 * 16_000 for piece in pieces)
    ends = np.cumsum([piece.size for piece in pieces])[:-1] / 16_000
    assert all(at <= end <= at + 0.3 for at, end in zip(pauses, ends, strict=True))


def test_short_audio_stays_whole() -> None:
    audio = tone(440, 1.0, 16_000)
    assert [piece.size for piece in cut_at_pauses(audio, 28.0)] == [16_000]
