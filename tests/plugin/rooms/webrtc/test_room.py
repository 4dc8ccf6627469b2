"""The room with a page made of aiortc on the other end, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from aiortc import RTCPeerConnection
from av import VideoFrame
from realtime_venus.engines.base import FloatPcm
from realtime_venus.plugin.rooms.base import Acknowledge, AudioChunk, Command, Interrupt, TypeText
from realtime_venus.plugin.rooms.webrtc import (
    AlreadyConnected,
    OfferRefused,
    RoomClosed,
    WebRtcOptions,
    WebRtcRoom,
)
from realtime_venus.plugin.rooms.webrtc.peer import PeerState

from ....demo_room.scripted import Tone
from ....kit.virtual_time import run_virtual
from .page import ToneMicrophone, loudest_hz, page, until

QUICK = WebRtcOptions(join_s=0.5, grace_s=0.5, heartbeat_s=0.2, silence_s=1.0, media_deadline_s=1.0)


class Guest:
    """Reads what a session would read."""

    def __init__(self, room: WebRtcRoom) -> None:
        self.room = room
        self.chunks: list[AudioChunk] = []
        self.commands: list[Command] = []

    async def listen(self) -> None:
        async for chunk in self.room.audio():
            self.chunks.append(chunk)

    async def obey(self) -> None:
        async for command in self.room.commands():
            self.commands.append(command)

    def sound(self) -> FloatPcm:
        """Everything heard, at its place, holes being zeros."""
        end = max((c.position + c.samples.size for c in self.chunks), default=0)
        out = np.zeros(end, dtype=np.float32)
        for chunk in self.chunks:
            out[chunk.position : chunk.position + chunk.samples.size] = chunk.samples
        return out


@asynccontextmanager
async def inhabited(options: WebRtcOptions | None = None) -> AsyncGenerator[Guest]:
    room = WebRtcRoom(options)
    guest = Guest(room)
    room.play(Tone(660))
    async with asyncio.TaskGroup() as group:
        group.create_task(guest.listen())
        group.create_task(guest.obey())
        try:
            yield guest
        finally:
            await room.close()


_SEND = "_send_rtp"
"""Where every packet of aiortc's DTLS transport passes on its way out; see tests/contract/test_aiortc.py."""


class LossyLine:
    """Stands between a page's tracks and the network: loses packets by chance, or all of them."""

    def __init__(self, connection: RTCPeerConnection, loss: float, seed: int) -> None:
        self._chance = random.Random(seed)
        self._loss = loss
        self.cut = False
        self.lost = 0
        transport = connection.getSenders()[0].transport
        send = cast(Callable[[bytes], Awaitable[None]], getattr(transport, _SEND))

        async def maybe(data: bytes) -> None:
            rtcp = 64 <= data[1] & 0x7F <= 95
            if not rtcp and (self.cut or self._chance.random() < self._loss):
                self.lost += 1
                return
            await send(data)

        setattr(transport, _SEND, maybe)


async def test_sound_goes_both_ways() -> None:
    async with inhabited() as guest, page(ToneMicrophone(440)) as browser:
        await browser.join(guest.room)
        await until(lambda: guest.sound().size > 24_000 and len(browser.heard) > 75, "sound both ways")
        assert loudest_hz((guest.sound()[8000:] * 20_000).astype(np.int16), 16_000) == pytest.approx(440, abs=4)
        assert loudest_hz(np.concatenate(browser.heard[25:75]), 48_000) == pytest.approx(660, abs=4)
        assert [c.position for c in guest.chunks[:4]] == [0, 320, 640, 960]
        assert guest.room.input_counters.holes == 0


@pytest.mark.parametrize(("channels", "rate"), [(2, 48_000), (1, 44_100)])
async def test_every_kind_of_source_is_heard_as_16_khz_mono(channels: int, rate: int) -> None:
    async with inhabited() as guest, page(ToneMicrophone(500, channels, rate)) as browser:
        await browser.join(guest.room)
        await until(lambda: guest.sound().size > 16_000, "sound")
        assert loudest_hz((guest.sound()[4000:] * 20_000).astype(np.int16), 16_000) == pytest.approx(500, abs=5)


async def test_acknowledgements_name_frames() -> None:
    async with inhabited() as guest, page(ToneMicrophone()) as browser:
        await browser.join(guest.room)
        await until(lambda: len(browser.heard) > 20, "some sound")
        peer = guest.room.peer
        assert peer is not None
        sent = peer.track.counters.sent
        rtp = peer.track.rtp_of(sent - 5)
        assert rtp is not None
        browser.send({"type": "ack", "rtp": rtp})
        browser.send({"type": "ack", "rtp": (rtp - 960) % 2**32})
        browser.send({"type": "ack", "rtp": (rtp + 2**31) % 2**32})
        browser.send({"type": "interrupt"})
        await until(lambda: Interrupt() in guest.commands, "the commands")
        assert guest.commands == [Acknowledge(sent - 5), Interrupt()]
        assert peer.counters.foreign_acks == 1


async def test_events_reach_the_page_in_order_and_whole() -> None:
    async with inhabited() as guest, page(None) as browser:
        guest.room.publish({"type": "first", "seq": 0})
        await browser.join(guest.room)
        guest.room.publish({"type": "agent.text", "text": "很长" * 20_000, "seq": 1})
        guest.room.publish({"type": "last", "seq": 2})
        await until(lambda: any(m["type"] == "last" for m in browser.messages), "the events")
        kinds = [m["type"] for m in browser.messages if m["type"] != "ping"]
        assert kinds[0] == "first"
        assert set(kinds[1:-1]) == {"chunk"}


async def test_garbage_on_the_channel_is_counted_and_harms_nothing() -> None:
    async with inhabited() as guest, page(None) as browser:
        await browser.join(guest.room)
        for garbage in ("", "{", "\x00" * 100, '{"type": "ack", "rtp": 1e99}', "x" * 60_000):
            browser.channel.send(garbage)
        browser.channel.send(b"\xff\xfe")
        browser.send({"type": "type", "text": "still here"})
        await until(lambda: guest.commands == [TypeText("still here")], "the command")
        assert guest.room.peer is not None
        assert guest.room.peer.counters.bad_messages == 6


@pytest.mark.parametrize("loss", [0.05, 0.2])
async def test_lost_packets_leave_holes_and_no_lasting_delay(loss: float) -> None:
    async with inhabited() as guest, page(ToneMicrophone(440)) as browser:
        await browser.join(guest.room)
        line = LossyLine(browser.connection, loss, seed=7)
        await until(lambda: len(guest.chunks) > 150, "sound")
        counters = guest.room.input_counters
        assert counters.holes > 0
        assert line.lost > 0
        # What was lost is zeros at its place: the tone's phase goes on across every hole.
        sound = guest.sound()
        time = np.arange(sound.size) / 16_000
        heard = np.abs(sound) > 0
        phase = [
            np.angle(np.sum(sound[at : at + 1600] * np.exp(-2j * np.pi * 440 * time[at : at + 1600])))
            for at in range(4800, sound.size - 1600, 1600)
        ]
        assert np.abs(np.angle(np.exp(1j * (np.array(phase) - phase[0])))).max() < 0.8
        assert heard.mean() > 1 - loss - 0.15
        # Nothing but what the line lost is missing, and nothing is held back behind the losses.
        assert guest.room.peer is not None
        (order,) = guest.room.peer.counters.audio
        assert order.late == 0
        assert order.lost <= line.lost
        assert line.lost - order.lost <= 2 * WebRtcOptions().reorder_packets


async def test_a_network_gap_of_five_seconds_ends_nothing() -> None:
    async with inhabited() as guest, page(ToneMicrophone(440)) as browser:
        await browser.join(guest.room)
        line = LossyLine(browser.connection, 0.0, seed=1)
        await until(lambda: guest.sound().size > 8000, "sound")
        before = guest.sound().size
        line.cut = True
        await until(lambda: guest.sound().size > before + 5 * 16_000, "time to go on")
        line.cut = False
        at = guest.room.input_counters.received
        await until(lambda: guest.room.input_counters.received > at + 50, "sound again")
        sound = guest.sound()
        assert not sound[before + 16_000 : before + 4 * 16_000].any()
        assert np.abs(sound[-4000:]).max() > 0.05
        assert guest.room.connected


async def test_without_a_microphone_time_goes_on() -> None:
    async with inhabited() as guest, page(None) as browser:
        await browser.join(guest.room)
        await until(lambda: guest.sound().size > 16_000, "silence")
        assert not guest.sound().any()
        positions = [(c.position, c.samples.size) for c in guest.chunks]
        assert all(a + n == b for (a, n), (b, _) in pairwise(positions))


def test_a_camera_that_sends_nothing_is_forgotten_within_two_seconds() -> None:
    async def main() -> list[int | None]:
        room = WebRtcRoom()
        now_s = asyncio.get_running_loop().time
        seen: list[int | None] = []
        for step in range(61):  # 10 pictures a second for a second, nothing for three, and again
            if not 10 <= step < 40:
                room.picture(
                    VideoFrame.from_ndarray(np.full((48, 64, 3), step, dtype=np.uint8), format="rgb24"), now_s()
                )
            frame = room.latest_frame()
            seen.append(None if frame is None else int(frame.image[0, 0, 0]))
            await asyncio.sleep(0.1)
        await room.close()
        return seen

    seen = run_virtual(main())
    assert seen[:10] == [0] * 5 + [5] * 5
    assert seen[30:40] == [None] * 10
    assert seen[40:60] == [*[40] * 5, *[45] * 5, *[50] * 5, *[55] * 5]


def test_whoever_looks_is_no_sign_of_the_user() -> None:
    async def main() -> None:
        room = WebRtcRoom()
        await asyncio.sleep(5)
        assert room.latest_frame() is None
        await asyncio.sleep(5)
        room.picture(VideoFrame.from_ndarray(np.zeros((48, 64, 3), dtype=np.uint8), format="rgb24"), 10.0)
        frame = room.latest_frame()
        assert frame is not None
        assert frame.captured_ms == 0
        await room.close()

    run_virtual(main())


async def test_a_second_page_is_refused_and_the_first_one_stays() -> None:
    async with inhabited() as guest, page(ToneMicrophone()) as browser, page(ToneMicrophone()) as other:
        await browser.join(guest.room)
        with pytest.raises(AlreadyConnected):
            await guest.room.accept(await other.offer())
        with pytest.raises(AlreadyConnected):
            await guest.room.accept(await other.offer(), "guessed")
        heard = len(browser.heard)
        await until(lambda: len(browser.heard) > heard + 20, "the first page's sound")


async def test_the_same_page_may_replace_its_connection() -> None:
    async with inhabited() as guest, page(ToneMicrophone(440)) as browser, page(ToneMicrophone(440)) as again:
        answer = await browser.join(guest.room)
        await until(lambda: guest.sound().size > 8000, "sound")
        await again.join(guest.room, answer.resume)
        size = guest.sound().size
        await until(lambda: guest.sound().size > size + 16_000, "sound on the new connection")
        assert any(m["type"] == "closing" and m["reason"] == "replaced" for m in browser.messages)
        assert not guest.room.closed
        positions = [c.position for c in guest.chunks]
        assert positions == sorted(positions)


async def test_a_page_that_comes_back_in_time_finds_its_session_and_what_it_missed() -> None:
    async with inhabited(WebRtcOptions(grace_s=15)) as guest, page(ToneMicrophone()) as again:
        async with page(ToneMicrophone()) as browser:
            await browser.join(guest.room)
        await until(lambda: not guest.room.connected, "the loss")
        guest.room.publish({"type": "missed", "seq": 1})
        await again.join(guest.room)
        await until(lambda: any(m["type"] == "missed" for m in again.messages), "what it missed")
        assert not guest.room.closed


async def test_a_page_that_does_not_come_back_ends_its_session_only() -> None:
    async with inhabited(QUICK) as guest, inhabited() as other, page(ToneMicrophone()) as stays:
        await stays.join(other.room)
        async with page(ToneMicrophone()) as browser:
            await browser.join(guest.room)
        await asyncio.wait_for(guest.room.wait_closed(), 20)
        assert guest.room.reason == "page_gone"
        assert other.room.connected
        with pytest.raises(RoomClosed):
            await guest.room.accept("v=0")


async def test_a_page_that_says_goodbye_ends_its_session_at_once() -> None:
    async with inhabited(WebRtcOptions(grace_s=3600)) as guest, page(None) as browser:
        await browser.join(guest.room)
        browser.send({"type": "bye"})
        await asyncio.wait_for(guest.room.wait_closed(), 20)
        assert guest.room.reason == "left"


async def test_a_page_that_goes_silent_is_lost() -> None:
    async with inhabited(QUICK) as guest, page(None) as browser:
        await browser.join(guest.room)
        browser.answers_pings = False
        await asyncio.wait_for(guest.room.wait_closed(), 20)
        assert guest.room.reason == "page_gone"
        assert any(m["type"] == "ping" for m in browser.messages)


async def test_a_page_that_answers_pings_stays() -> None:
    async with inhabited(QUICK) as guest, page(None) as browser:
        await browser.join(guest.room)
        await until(lambda: sum(m["type"] == "ping" for m in browser.messages) > 8, "pings")
        assert guest.room.connected


async def test_pings_are_not_answered_while_much_is_waiting_for_the_page() -> None:
    async with inhabited() as guest, page(None) as browser:
        await browser.join(guest.room)
        peer = guest.room.peer
        assert peer is not None
        for _ in range(20):
            guest.room.publish({"type": "long", "text": "x" * 200_000})

        def unanswered() -> bool:
            browser.send({"type": "ping"})
            return peer.counters.unanswered_pings > 0

        await until(unanswered, "an unanswered ping")

        def answered() -> bool:
            browser.send({"type": "ping"})
            return any(m["type"] == "pong" for m in browser.messages)

        await until(answered, "an answer afterwards")


async def test_a_connection_without_media_is_given_up() -> None:
    async with inhabited(QUICK) as guest, page(ToneMicrophone()) as browser:
        await guest.room.accept(await browser.offer())
        await asyncio.wait_for(guest.room.wait_closed(), 20)
        assert guest.room.reason == "no_page"


async def test_a_room_nobody_joins_closes() -> None:
    async with inhabited(WebRtcOptions(join_s=0.2)) as guest:
        await asyncio.wait_for(guest.room.wait_closed(), 20)
        assert guest.room.reason == "no_page"


async def test_a_page_whose_join_is_cut_short_leaves_the_room_to_others() -> None:
    async with inhabited(QUICK) as guest, page(ToneMicrophone()) as browser:
        accepting = asyncio.create_task(guest.room.accept(await browser.offer()))
        await asyncio.sleep(0)
        assert guest.room.connected
        accepting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await accepting
        assert not guest.room.connected
        await asyncio.wait_for(guest.room.wait_closed(), 20)
        assert guest.room.reason == "no_page"


async def test_a_page_cut_short_while_it_takes_the_place_of_another_leaves_nobody_behind() -> None:
    async with inhabited(QUICK) as guest, page(ToneMicrophone()) as browser, page(ToneMicrophone()) as again:
        answer = await browser.join(guest.room)
        before = guest.room.peer
        assert before is not None
        accepting = asyncio.create_task(guest.room.accept(await again.offer(), answer.resume))
        await asyncio.sleep(0)
        assert guest.room.peer is not before
        accepting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await accepting
        assert not guest.room.connected
        await until(lambda: before.state is PeerState.CLOSED, "the end of the first connection")
        await asyncio.wait_for(guest.room.wait_closed(), 20)
        assert guest.room.reason == "page_gone"


async def test_a_key_that_is_no_text_is_no_key() -> None:
    async with inhabited() as guest, page(None) as browser, page(None) as other:
        await browser.join(guest.room)
        with pytest.raises(AlreadyConnected):
            await guest.room.accept(await other.offer(), "\ud800")


async def test_closing_is_done_once_by_whoever_asks() -> None:
    async with inhabited() as guest, page(ToneMicrophone()) as browser:
        await browser.join(guest.room)
        await asyncio.gather(guest.room.close(), guest.room.leave("shutdown"), guest.room.close())
        await guest.room.close()
        assert guest.room.reason == "closed"
        assert not guest.room.connected
        await until(lambda: any(m["type"] == "closing" for m in browser.messages), "the farewell")
        guest.room.publish({"type": "late"})


def only_pcmu(sdp: str) -> str:
    """The offer of a browser that knows no Opus."""
    lines = [
        line
        for line in sdp.splitlines()
        if not line.startswith(("a=rtpmap:", "a=fmtp:", "a=rtcp-fb:")) or line.startswith("a=rtpmap:0 ")
    ]
    return (
        "\r\n".join(" ".join(line.split()[:3]) + " 0" if line.startswith("m=audio") else line for line in lines)
        + "\r\n"
    )


async def test_an_offer_without_opus_is_refused_by_name() -> None:
    async with inhabited() as guest, page(ToneMicrophone()) as browser:
        with pytest.raises(OfferRefused, match="Opus") as refused:
            await guest.room.accept(only_pcmu(await browser.offer()))
        assert refused.value.code == "codec"
        await browser_can_still_join(guest)


async def browser_can_still_join(guest: Guest) -> None:
    async with page(ToneMicrophone()) as browser:
        await browser.join(guest.room)


def mangled(sdp: str) -> list[tuple[str, str]]:
    lines = sdp.splitlines()
    return [
        ("empty", ""),
        ("words", "this is no session description"),
        ("half", sdp[: len(sdp) // 2]),
        ("binary", "\x00\xff" * 500),
        ("no ice", "\r\n".join(line for line in lines if "ice-" not in line) + "\r\n"),
        ("no fingerprint", "\r\n".join(line for line in lines if "fingerprint" not in line) + "\r\n"),
        ("no audio", "\r\n".join(lines[:4]) + "\r\n"),
        ("two voices", sdp + sdp[sdp.index("m=audio") : sdp.index("m=application")].replace("a=mid:0", "a=mid:7")),
        ("bad candidate", sdp.replace("a=candidate:", "a=candidate:x y z ")),
        ("bad direction", sdp.replace("a=sendrecv", "a=sideways")),
    ]


@pytest.mark.parametrize("number", range(10))
async def test_malformed_descriptions_are_refused_and_the_room_lives_on(number: int) -> None:
    async with inhabited() as guest, page(ToneMicrophone()) as browser:
        _, sdp = mangled(await browser.offer())[number]
        with pytest.raises(OfferRefused):
            await guest.room.accept(sdp)
        await browser_can_still_join(guest)


async def test_commands_that_nobody_takes_are_bounded() -> None:
    room = WebRtcRoom()
    for number in range(1000):
        room.command(TypeText(str(number)))
    assert room.commands_dropped == 1000 - 64
    await room.close()
    left: list[Any] = [command async for command in room.commands()]
    assert len(left) == 64
    assert left[-1] == TypeText("999")


async def test_acknowledgements_give_way_to_what_the_user_wants() -> None:
    room = WebRtcRoom()
    for number in range(32):
        room.command(TypeText(str(number)))
        room.played(number)
    room.command(Interrupt())
    assert room.commands_dropped == 1
    await room.close()
    left: list[Any] = [command async for command in room.commands()]
    assert left[:3] == [TypeText("0"), TypeText("1"), Acknowledge(1)]
    assert left[-2:] == [Acknowledge(31), Interrupt()]
