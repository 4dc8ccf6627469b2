from __future__ import annotations

import asyncio
from typing import Protocol, cast

import numpy as np
import pytest
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame, CodecContext
from av.packet import Packet
from realtime_venus.engines.base import Int16Pcm
from realtime_venus.plugin.rooms.base import PlayoutFrame
from realtime_venus.plugin.rooms.webrtc.output import RTP_PER_FRAME, AgentTrack, VoiceEncoder

from ....kit.virtual_time import run_virtual
from .page import loudest_hz

SILENCE: Int16Pcm = np.zeros(480, dtype=np.int16)


class _Decoder(Protocol):
    def decode(self, packet: object) -> list[AudioFrame]: ...


class Source:
    def __init__(self) -> None:
        self.pulled: list[float] = []

    def pull(self) -> PlayoutFrame:
        self.pulled.append(asyncio.get_running_loop().time())
        return PlayoutFrame(len(self.pulled) - 1, SILENCE, silent=True)


def decode(packets: list[bytes]) -> Int16Pcm:
    codec = CodecContext.create("libopus", "r")
    codec.format = "s16"
    codec.layout = "mono"
    codec.sample_rate = 48_000
    decoder = cast(_Decoder, codec)
    frames = [frame for packet in packets for frame in decoder.decode(Packet(packet))]
    return np.concatenate([cast(Int16Pcm, frame.to_ndarray()).reshape(-1) for frame in frames])


def tone(number: int) -> Int16Pcm:
    time = (np.arange(480) + number * 480) / 24_000
    return (9000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16)


def test_a_tone_is_the_same_tone_after_decoding() -> None:
    encoder = VoiceEncoder()
    sound = decode([encoder.encode(tone(number), silent=False) for number in range(50)])
    assert sound.size == 48_000
    assert loudest_hz(sound[9600:], 48_000) == pytest.approx(440, abs=3)


def test_long_silence_is_encoded_once_and_stays_silent() -> None:
    encoder = VoiceEncoder()
    packets = [encoder.encode(tone(number), silent=False) for number in range(10)]
    packets += [encoder.encode(SILENCE, silent=True) for _ in range(500)]
    assert encoder.encoded < 40
    assert np.abs(decode(packets)[-400 * 960 :]).max() < 50


def test_speech_after_silence_is_whole() -> None:
    encoder = VoiceEncoder()
    packets = [encoder.encode(SILENCE, silent=True) for _ in range(100)]
    packets += [encoder.encode(tone(number), silent=False) for number in range(50)]
    sound = decode(packets)
    assert np.abs(sound[100 * 960 + 1200 : 100 * 960 + 2400]).max() > 4000
    assert loudest_hz(sound[-38_400:], 48_000) == pytest.approx(440, abs=3)


def test_frames_leave_every_20_ms_of_the_loops_clock() -> None:
    async def main() -> None:
        source = Source()
        track = AgentTrack(source, late_ms=200)
        packets = [await track.recv() for _ in range(5)]
        assert [round(at, 3) for at in source.pulled] == [0.0, 0.02, 0.04, 0.06, 0.08]
        assert [packet.pts for packet in packets] == [n * RTP_PER_FRAME for n in range(5)]

    run_virtual(main())


def test_a_little_lateness_is_caught_up() -> None:
    async def main() -> None:
        source = Source()
        track = AgentTrack(source, late_ms=200)
        await track.recv()
        await asyncio.sleep(0.1)
        pts = [(await track.recv()).pts for _ in range(6)]
        assert pts == [n * RTP_PER_FRAME for n in range(1, 7)]
        assert track.counters.skipped == 0

    run_virtual(main())


def test_a_long_stall_is_skipped_and_loses_no_speech() -> None:
    async def main() -> None:
        source = Source()
        track = AgentTrack(source, late_ms=200)
        await track.recv()
        await asyncio.sleep(1.0)
        pts = [(await track.recv()).pts for _ in range(3)]
        assert pts == [n * RTP_PER_FRAME for n in (50, 51, 52)]
        assert track.counters.skipped == 49
        assert len(source.pulled) == 4
        assert [round(b - a, 3) for a, b in zip(source.pulled[1:], source.pulled[2:], strict=False)] == [0.02, 0.02]

    run_virtual(main())


def test_acknowledged_times_name_frames_even_across_the_wrap() -> None:
    async def main() -> None:
        origin = 2**32 - 3 * RTP_PER_FRAME
        track = AgentTrack(Source(), late_ms=200)
        sent: list[int] = []
        track.bind(lambda: (origin + sent[-1]) % 2**32)
        for _ in range(10):
            packet = await track.recv()
            assert packet.pts is not None
            sent.append(packet.pts)
        for number in range(10):
            rtp = (origin + number * RTP_PER_FRAME) % 2**32
            assert track.rtp_of(number) == rtp
            assert track.frame_played(rtp) == number
            assert track.frame_played((rtp + 500) % 2**32) == (number if number < 9 else None)
        assert track.rtp_of(10) is None

    run_virtual(main())


def test_times_that_were_never_sent_name_nothing() -> None:
    async def main() -> None:
        track = AgentTrack(Source(), late_ms=200)
        assert track.frame_played(0) is None
        track.bind(lambda: 1000)
        await track.recv()
        assert track.frame_played(1000) is None
        await track.recv()
        assert track.frame_played(1000) == 0
        assert track.frame_played(1000 + 5 * RTP_PER_FRAME) is None
        assert track.frame_played(1000 - RTP_PER_FRAME) is None
        assert track.frame_played(2**31 + 7) is None

    run_virtual(main())


async def test_a_stopped_track_gives_nothing() -> None:
    track = AgentTrack(Source(), late_ms=200)
    track.stop()
    with pytest.raises(MediaStreamError):
        await track.recv()
