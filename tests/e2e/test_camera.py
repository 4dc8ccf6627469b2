"""The camera of the page: a real Chromium whose camera plays a file, and an engine that keeps what it is shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.async_api import Page, expect
from realtime_venus.demo_room.conversations import Conversations
from realtime_venus.demo_room.demo import transport
from realtime_venus.demo_room.host import EngineHost, HostState, Progress
from realtime_venus.demo_room.server import RoomServer, listening
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.demo_room.tokens import Door
from realtime_venus.engines.base import Engine, RgbImage, SessionOptions
from realtime_venus.plugin.rooms.base import MediaRoom
from realtime_venus.plugin.rooms.livekit import LiveKitOptions
from realtime_venus.plugin.rooms.webrtc import WebRtcRoom
from realtime_venus.plugin.session import Session, SessionSettings

from ..demo_room.conftest import Start
from ..demo_room.scripted import ScriptedHost
from ..kit.browser import Tab, launched, tab
from ..kit.fake_engine import FakeEngine
from ..kit.livekit_server import KEY, SECRET, LiveKitServer
from ..plugin.rooms.webrtc.page import until
from .test_livekit_page import Signalling

pytestmark = pytest.mark.browser

expect.set_options(timeout=20_000)

WIDTH, HEIGHT = 640, 480
UNIT_MS = 200
QUARTERS = {
    "top left": (255, 0, 0),
    "top right": (0, 255, 0),
    "bottom left": (0, 0, 255),
    "bottom right": (255, 255, 255),
}
"""What the camera sees: neither mirrored nor turned does it look the same."""
KEEP_CAMERAS = """
  window.cameras = [];
  const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    const stream = await open(wanted);
    if (wanted.video) window.cameras.push(...stream.getTracks());
    return stream;
  };
"""


def film(path: Path) -> Path:
    """A file for Chromium's camera (YUV4MPEG2, 4:2:0) that shows :data:`QUARTERS`."""
    image = np.zeros((HEIGHT, WIDTH, 3), dtype=np.float64)
    rows, columns = (
        {"top": slice(0, HEIGHT // 2), "bottom": slice(HEIGHT // 2, HEIGHT)},
        {
            "left": slice(0, WIDTH // 2),
            "right": slice(WIDTH // 2, WIDTH),
        },
    )
    for name, colour in QUARTERS.items():
        row, column = name.split()
        image[rows[row], columns[column]] = colour
    red, green, blue = np.moveaxis(image, 2, 0) / 255
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    planes = [16 + 219 * luma] + [
        128 + 112 * plane[::2, ::2] for plane in ((blue - luma) / 0.886, (red - luma) / 0.701)
    ]
    frame = b"FRAME\n" + b"".join(plane.round().astype(np.uint8).tobytes() for plane in planes)
    path.write_bytes(f"YUV4MPEG2 W{WIDTH} H{HEIGHT} F20:1 Ip A1:1 C420jpeg\n".encode() + frame * 4)
    return path


def seen_quarters(image: RgbImage) -> dict[str, tuple[int, int, int]]:
    """The colours in the middle of the four quarters, each channel being 0 or 255."""
    height, width, _ = image.shape
    found: dict[str, tuple[int, int, int]] = {}
    for name in QUARTERS:
        row, column = name.split()
        y, x = height // 4 * (1 if row == "top" else 3), width // 4 * (1 if column == "left" else 3)
        red, green, blue = (255 if value > 127 else 0 for value in image[y, x].tolist())
        found[name] = (red, green, blue)
    return found


@dataclass
class Shown:
    """A page in a call with an engine that keeps its units."""

    made: Tab
    engine: FakeEngine
    room: list[MediaRoom]

    @property
    def page(self) -> Page:
        return self.made.page

    @property
    def pictures(self) -> list[RgbImage]:
        return [frame.image for session in self.engine.sessions for unit in session.units for frame in unit.frames]

    @property
    def units(self) -> int:
        return sum(len(session.units) for session in self.engine.sessions)

    async def press(self) -> None:
        await self.page.get_by_role("button", name="Camera", exact=True).click()

    async def next_picture(self) -> RgbImage:
        """A picture that the engine has not been shown yet."""
        before = len(self.pictures)
        await until(lambda: len(self.pictures) > before, "a picture in a unit")
        return self.pictures[before]

    async def no_picture(self, seconds: float) -> None:
        """Within two seconds none comes any more, for ``seconds``."""
        units = self.units
        await until(lambda: self.units >= units + 2000 // UNIT_MS, "two seconds")
        units, pictures = self.units, len(self.pictures)
        await until(lambda: self.units >= units + seconds * 1000 / UNIT_MS, "time going on")
        assert len(self.pictures) == pictures

    async def lights(self) -> list[str]:
        """The state of every camera track that was opened."""
        return await self.page.evaluate("window.cameras.map(({ readyState }) => readyState)")


@asynccontextmanager
async def shown(
    camera: Path, *, livekit: LiveKitServer | None = None, line: Signalling | None = None
) -> AsyncGenerator[Shown]:
    """The page in a call, its camera off."""
    engine, rooms = FakeEngine(unit_ms=UNIT_MS), list[MediaRoom]()

    async def prepared(_report: Callable[[Progress], None]) -> Engine:
        return engine

    async def converse(room: MediaRoom, engine: Engine, options: SessionOptions) -> None:
        rooms.append(room)
        await Session(room, engine, options, SessionSettings()).run()

    more = {} if livekit is None else {"livekit": {"url": livekit.url, "key": KEY, "secret": SECRET}}
    settings = RoomSettings.model_validate({"port": 0, **more})
    # What the worker's rooms look at is no matter here.
    way = transport(settings, LiveKitOptions(video="screen", video_from="somebody"))
    host = EngineHost("fake", prepared, converse)
    server = RoomServer(settings, host, Conversations(host, way, 2), Door(None, asyncio.get_running_loop().time))
    host.start()
    await host.wait_loaded()
    try:
        async with (
            listening(server.app(), settings, None) as address,
            launched(extra=[f"--use-file-for-fake-video-capture={camera}"]) as browser,
            tab(browser) as made,
        ):
            if livekit is not None and line is not None:
                await line.watch(made.page, livekit)
            await made.page.add_init_script(KEEP_CAMERAS)
            await made.page.goto(address)
            await made.page.locator("#start").click()
            await expect(made.page.locator("#mute")).to_be_visible()
            yield Shown(made, engine, rooms)
    finally:
        await host.close()


@pytest.fixture(scope="session")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film(tmp_path_factory.mktemp("camera") / "quarters.y4m")


async def goes_and_comes(call: Shown) -> None:
    """On, off and on again, by the button; what the engine sees, and whether the camera's light is on."""
    page, button = call.page, call.page.get_by_role("button", name="Camera", exact=True)
    await expect(button).to_have_attribute("aria-pressed", "false")
    await until(lambda: call.units > 2, "time going on")
    assert call.pictures == [], "it is off before somebody switches it on"
    assert await call.lights() == []

    await call.press()
    await expect(button).to_have_attribute("aria-pressed", "true")
    await expect(page.locator("#self-video")).to_be_visible()
    await call.next_picture()
    image = await call.next_picture()
    assert image.shape == (HEIGHT, WIDTH, 3)
    assert seen_quarters(image) == QUARTERS
    assert await call.lights() == ["live"]

    await page.get_by_role("button", name="Hide this picture").click()
    await expect(page.locator("#self-video")).to_be_hidden()
    await call.next_picture()
    await call.next_picture()

    await call.press()
    await expect(button).to_have_attribute("aria-pressed", "false")
    assert await call.lights() == ["ended"]
    await call.no_picture(seconds=2)

    await call.press()
    await expect(page.locator("#self-video")).to_be_visible()
    assert seen_quarters(await call.next_picture()) == QUARTERS
    assert await call.lights() == ["ended", "live"]

    await page.get_by_role("button", name="Hang up").click()
    await expect(page.locator("#state")).to_have_text("Ready")
    await expect(page.locator("#self-view")).to_be_hidden()
    await expect(button).to_be_hidden()
    assert await call.lights() == ["ended", "ended"]
    assert call.made.complaints == []


async def test_a_camera_is_switched_on_and_off_and_on_again(camera: Path) -> None:
    async with shown(camera) as call:
        await goes_and_comes(call)


async def test_a_camera_outlives_a_broken_line(camera: Path) -> None:
    async with shown(camera) as call:
        await call.press()
        await call.next_picture()
        (room,) = call.room
        assert isinstance(room, WebRtcRoom)
        peer = room.peer
        assert peer is not None
        await peer.close("broken")
        await until(lambda: room.peer is not peer and room.connected, "the new connection")
        await call.next_picture()
        assert seen_quarters(await call.next_picture()) == QUARTERS
        assert await call.lights() == ["live"]
        await call.press()
        await call.no_picture(seconds=1)


@pytest.mark.usefixtures("native_sockets_closed")
async def test_the_same_button_works_in_a_livekit_room(camera: Path, livekit_server: LiveKitServer) -> None:
    async with shown(camera, livekit=livekit_server) as call:
        await goes_and_comes(call)


@pytest.mark.usefixtures("native_sockets_closed")
async def test_a_camera_outlives_a_broken_line_to_a_livekit_room(camera: Path, livekit_server: LiveKitServer) -> None:
    line = Signalling()
    async with shown(camera, livekit=livekit_server, line=line) as call:
        await call.press()
        await call.next_picture()
        line.barred = True
        async with call.page.expect_response("**/api/entrance"):
            await line.cut()
        line.barred = False
        await expect(call.page.locator("#mute")).to_be_visible()
        assert seen_quarters(await call.next_picture()) == QUARTERS
        assert await call.lights() == ["live"]


# -- without a camera -------------------------------------------------------------------------------------------------


async def test_where_nobody_sees_there_is_no_button_and_no_permission(start: Start) -> None:
    async with start() as server, launched() as browser, tab(browser) as made:
        offers: list[Any] = []
        made.page.on("request", lambda request: offers.append(request.post_data) if "offer" in request.url else None)
        await made.page.goto(server.address)
        await made.page.get_by_role("button", name="Start talking").click()
        await expect(made.page.locator("#mute")).to_be_visible()
        await expect(made.page.locator("#camera")).to_be_hidden()
        await expect(made.page.locator("#privacy")).not_to_contain_text("camera")
        assert [offer for offer in offers if "m=audio" in offer and "m=video" not in offer] == offers != []
        refused = await made.page.evaluate(
            "navigator.mediaDevices.getUserMedia({ video: true }).then(() => '', ({ name }) => name)"
        )
        assert refused == "NotAllowedError"


async def test_a_page_that_came_before_the_engine_may_use_the_camera_after_all(start: Start) -> None:
    host = ScriptedHost(state=HostState.LOADING)
    async with start(host) as server, launched() as browser, tab(browser) as made:
        await made.page.goto(server.address)
        await expect(made.page.locator("#start")).to_be_disabled()
        host.profile = replace(host.profile, sees=True)
        host.state = HostState.READY
        await made.page.get_by_role("button", name="Start talking").click()
        await made.page.get_by_role("button", name="Camera", exact=True).click()
        await expect(made.page.locator("#self-video")).to_be_visible()
        await expect(made.page.locator("#privacy")).to_contain_text("your camera")


@pytest.mark.parametrize(
    ("error", "english", "chinese"),
    [
        ("NotAllowedError", "may not use the camera", "浏览器没有使用摄像头的权限"),
        ("NotFoundError", "No camera was found", "没有找到摄像头"),
        ("NotReadableError", "in use by another program", "摄像头被其他程序占用"),
    ],
)
async def test_why_there_is_no_camera_is_said_in_words(start: Start, error: str, english: str, chinese: str) -> None:
    async with start(ScriptedHost(sees=True)) as server, launched() as browser, tab(browser) as made:
        page = made.page
        await page.goto(server.address)
        await page.get_by_role("button", name="Start talking").click()
        await expect(page.locator("#camera")).to_be_visible()
        await page.evaluate(
            """(name) => {
              window.open_ = navigator.mediaDevices.getUserMedia;
              navigator.mediaDevices.getUserMedia = async () => { throw new DOMException("no", name); };
            }""",
            error,
        )
        await page.get_by_role("button", name="Camera", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text(english)
        await expect(page.locator("#camera")).to_have_attribute("aria-pressed", "false")
        await expect(page.get_by_role("button", name="Go on by typing")).to_be_hidden()
        await page.get_by_role("button", name="把界面切换为中文").click()
        await expect(page.get_by_role("alert")).to_contain_text(chinese)
        await page.evaluate("void (navigator.mediaDevices.getUserMedia = window.open_)")
        await page.get_by_role("button", name="摄像头", exact=True).click()
        await expect(page.locator("#self-video")).to_be_visible()
        await expect(page.locator("#trouble")).to_be_hidden()
        assert len(server.conversations) == 1


async def test_a_camera_that_is_unplugged_is_off_and_said(start: Start) -> None:
    async with start(ScriptedHost(sees=True)) as server, launched() as browser, tab(browser) as made:
        page = made.page
        await page.add_init_script(KEEP_CAMERAS)
        await page.goto(server.address)
        await page.get_by_role("button", name="Start talking").click()
        await page.get_by_role("button", name="Camera", exact=True).click()
        await expect(page.locator("#self-video")).to_be_visible()
        await page.evaluate("window.cameras[0].dispatchEvent(new Event('ended'))")
        await expect(page.get_by_role("alert")).to_contain_text("The camera is gone")
        await expect(page.locator("#self-view")).to_be_hidden()
        await expect(page.locator("#camera")).to_have_attribute("aria-pressed", "false")


async def test_on_a_telephone_everything_fits_and_can_be_touched(start: Start) -> None:
    async with start(ScriptedHost(sees=True)) as server, launched() as browser, tab(browser, width=360) as made:
        page = made.page
        await page.goto(server.address)
        await page.get_by_role("button", name="Start talking").click()
        await page.get_by_role("button", name="Camera", exact=True).click()
        await expect(page.locator("#self-video")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        small = await page.evaluate(
            """[...document.querySelectorAll("#controls button, #self-view button")]
                 .map((e) => e.getBoundingClientRect())
                 .filter(({ width, height }) => width < 43 || height < 43).length"""
        )
        assert small == 0
