"""What a connection takes of a page's camera, over real sockets on loopback."""

from __future__ import annotations

import re

import pytest
from aiortc.mediastreams import VideoStreamTrack
from realtime_venus.plugin.rooms.webrtc import OfferRefused, WebRtcOptions

from .page import Page, ToneMicrophone, page, until
from .test_room import browser_can_still_join, inhabited

SEEING = WebRtcOptions(video_sections=1)


async def test_pictures_are_kept_for_whoever_asks() -> None:
    async with inhabited(SEEING) as guest, page(ToneMicrophone(), video=True) as browser:
        await browser.join(guest.room)
        await until(lambda: guest.room.latest_frame() is not None, "a picture")
        frame = guest.room.latest_frame()
        assert frame is not None
        assert frame.image.shape == (480, 640, 3)
        assert frame.captured_ms >= 0


async def test_a_camera_goes_and_comes_back_without_another_offer() -> None:
    async with inhabited(SEEING) as guest, page(ToneMicrophone(), video=True) as browser:
        await browser.join(guest.room)
        await until(lambda: guest.room.latest_frame() is not None, "a picture")
        (camera,) = [sender for sender in browser.connection.getSenders() if sender.kind == "video"]
        camera.replaceTrack(None)
        await until(lambda: guest.room.latest_frame() is None, "no picture any more")
        camera.replaceTrack(VideoStreamTrack())
        await until(lambda: guest.room.latest_frame() is not None, "a picture again")
        assert guest.room.peer is not None
        (counters,) = guest.room.peer.counters.pictures
        assert counters.too_large == 0


async def test_pictures_that_nobody_asked_for_are_refused() -> None:
    async with inhabited() as guest, page(ToneMicrophone(), video=True) as browser:
        with pytest.raises(OfferRefused, match="more than 0 video sections"):
            await guest.room.accept(await browser.offer())
        await browser_can_still_join(guest)


async def test_more_cameras_than_are_looked_at_are_refused() -> None:
    async with inhabited(SEEING) as guest, page(ToneMicrophone(), video=True) as browser:
        browser.connection.addTrack(VideoStreamTrack())
        with pytest.raises(OfferRefused, match="more than 1 video sections"):
            await guest.room.accept(await browser.offer())
        await browser_can_still_join(guest)


async def test_a_page_without_a_camera_may_come_in_where_one_would_be_seen() -> None:
    async with inhabited(SEEING) as guest:
        await browser_can_still_join(guest)


def codecs(sdp: str) -> set[str]:
    """Names of the codecs of the video section."""
    return set(re.findall(r"a=rtpmap:\d+ (\w+)/90000", sdp))


async def offer_without_vp8(browser: Page) -> str:
    sdp = await browser.offer()
    numbers = re.findall(r"a=rtpmap:(\d+) VP8/", sdp)
    return re.sub(rf"a=(rtpmap|rtcp-fb):({'|'.join(numbers)}) .*\r\n", "", sdp)


async def test_pictures_come_as_vp8_whose_size_is_seen_before_it_is_decoded() -> None:
    async with inhabited(SEEING) as guest, page(ToneMicrophone(), video=True) as browser:
        assert codecs(await browser.offer()) == {"VP8", "H264", "rtx"}
        answer = await browser.join(guest.room)
        assert codecs(answer.sdp) == {"VP8", "rtx"}


async def test_a_camera_without_vp8_is_refused_by_name() -> None:
    async with inhabited(SEEING) as guest, page(ToneMicrophone(), video=True) as browser:
        sdp = await offer_without_vp8(browser)
        assert codecs(sdp) == {"H264", "rtx"}
        with pytest.raises(OfferRefused, match="VP8") as refused:
            await guest.room.accept(sdp)
        assert refused.value.code == "codec"
        await browser_can_still_join(guest)
