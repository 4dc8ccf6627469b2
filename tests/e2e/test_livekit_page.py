"""The page in a real browser, meeting Venus in rooms of a real LiveKit server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from livekit import api, rtc
from playwright.async_api import Page, Route, WebSocketRoute, expect
from realtime_venus.demo_room.conversations import Conversations
from realtime_venus.demo_room.demo import transport
from realtime_venus.demo_room.host import EngineHost, Progress
from realtime_venus.demo_room.server import RoomServer, listening
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.demo_room.tokens import Door
from realtime_venus.engines.base import Engine, Language, MediaUnit, SessionOptions
from realtime_venus.engines.cascade.asr import WhisperRecogniser
from realtime_venus.plugin.rooms.base import Acknowledge, Configure, Interrupt, MediaRoom, TypeText
from realtime_venus.plugin.session import Session, SessionSettings
from realtime_venus.plugin.timeline import events as ev

from ..demo_room.conftest import Running, Start
from ..demo_room.scripted import WORDS, ScriptedHost, play
from ..kit.browser import Tab, launched, tab
from ..kit.fake_engine import FakeEngine, FakeSession
from ..kit.kits import sample
from ..kit.livekit_server import KEY, SECRET, LiveKitServer
from ..plugin.rooms.webrtc.page import until
from .listening import Recording, prepare, record, stretches
from .test_talk import answered, demo, heard_words, question, recogniser
from .test_talk import talking as calling

__all__ = ["recogniser"]

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("native_sockets_closed")]

SHOWN_MS = 20_000
expect.set_options(timeout=SHOWN_MS)
LEAD_S = 6.0
"""Silence in front of the question, while page and Venus come into the room."""

LISTENER_MEASURES_S = 10.0
"""An answer that takes longer (on a very busy machine) is not measured at the listener."""


def access(server: LiveKitServer, **more: Any) -> dict[str, Any]:
    return {"url": server.url, "key": KEY, "secret": SECRET, **more}


# -- a host that follows a script -------------------------------------------------------------------------------------


@asynccontextmanager
async def opened(
    start: Start, livekit: LiveKitServer, *, devices: bool = True, locale: str = "en-US", **settings: Any
) -> AsyncGenerator[tuple[Running, Tab]]:
    """A server whose host follows a script, a browser, and the page ready to begin."""
    async with (
        start(ScriptedHost(), livekit=access(livekit), **settings) as server,
        launched(devices=devices) as browser,
        tab(browser, locale=locale) as made,
    ):
        await made.page.goto(server.address)
        yield server, made


async def begin(page: Page) -> None:
    await page.get_by_role("button", name="Start talking").click()
    await expect(page.locator("#state")).to_have_text("Speaking")


async def test_a_call_from_start_to_end(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        page = made.page
        await expect(page.locator("#privacy")).to_contain_text("LiveKit server")
        await begin(page)
        await until(lambda: server.host.loudest > 0.05, "the microphone at the server")
        await until(lambda: any(isinstance(c, Acknowledge) and c.number > 25 for c in server.host.commands), "acks")
        await expect(page.locator(".said.user p")).to_have_text("Who are you?")
        await expect(page.locator(".said.agent p")).to_have_text(WORDS)
        await expect(page.locator("#latency-edge")).to_have_text("0.72 s")
        await expect(page.locator(".said.agent span[data-state=heard]").first).to_be_visible()
        await page.get_by_role("button", name="Hang up").click()
        await expect(page.locator("#state")).to_have_text("Ready")
        await until(lambda: len(server.conversations) == 0, "the end at the server")
        assert made.complaints == []


async def test_only_such_a_page_loads_the_livekit_client(start: Start, livekit_server: LiveKitServer) -> None:
    async with launched() as browser, tab(browser) as made:
        loaded: list[str] = []
        made.page.on("request", lambda request: loaded.append(request.url))
        async with start() as server:
            await made.page.goto(server.address)
            await begin(made.page)
            assert not [url for url in loaded if "livekit" in url]
            await made.page.goto("about:blank")
        async with start(livekit=access(livekit_server)) as server:
            loaded.clear()
            await made.page.goto(server.address)
            await begin(made.page)
            ours = (server.address, livekit_server.http)
            assert [url for url in loaded if url.endswith("livekit-client.esm.mjs")]
            assert not [url for url in loaded if not url.startswith(ours) or url.endswith(".map")]


async def test_commands_reach_her(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        page = made.page
        await begin(page)
        await page.get_by_label("Type instead of speaking").fill("Hello by hand")
        await page.keyboard.press("Enter")
        await until(
            lambda: any(isinstance(c, TypeText) and c.text == "Hello by hand" for c in server.host.commands), "the text"
        )
        await expect(page.locator(".said.user small")).to_have_text("typed")
        await page.get_by_label("Language").select_option("zh")
        await page.get_by_label("Voice").select_option("zf_001")
        await until(
            lambda: any(isinstance(c, Configure) and c.changes.voice == "zf_001" for c in server.host.commands),
            "choice",
        )
        await page.get_by_role("button", name="Stop speaking").click()
        await until(lambda: Interrupt() in server.host.commands, "the stop")


async def test_long_events_arrive_whole(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        await begin(made.page)
        text = "“Long” \\ words " * 4000
        piece = {"utterance_id": "u9", "first_sample": 0, "end_sample": 24_000}
        server.host.rooms[0].publish({"type": "agent.text", "seq": 1, "at_ms": 9000, "text": text, **piece})
        await expect(made.page.locator(".said.agent p").last).to_have_text(text.strip())


async def test_muting_sends_silence(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        await begin(made.page)
        await until(lambda: server.host.loudest > 0.05, "sound")
        await made.page.get_by_role("button", name="Mute").click()
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 8000, "what was on its way")
        server.host.loudest = 0.0
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 32_000, "two seconds")
        assert server.host.loudest < 0.01
        await made.page.get_by_role("button", name="Unmute").click()
        await until(lambda: server.host.loudest > 0.05, "sound again")


async def test_no_microphone_is_said_and_typing_goes_on(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server, devices=False) as (server, made):
        page = made.page
        await page.get_by_role("button", name="Start talking").click()
        await expect(page.get_by_role("alert")).to_contain_text("No microphone was found")
        assert len(server.conversations) == 0
        await page.get_by_role("button", name="Go on by typing").click()
        await expect(page.locator("#state")).to_have_text("Speaking")
        await page.get_by_label("Type instead of speaking").fill("No voice today")
        await page.keyboard.press("Enter")
        await until(lambda: any(isinstance(c, TypeText) for c in server.host.commands), "the text")


async def test_another_microphone_takes_the_place_of_the_first(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        page = made.page
        await begin(page)
        await until(lambda: server.host.loudest > 0.05, "sound")
        labels = await page.locator("#microphone option").all_inner_texts()
        assert len(labels) >= 3, labels
        await page.get_by_label("Microphone").select_option(label=labels[-2])
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 8000, "what was on its way")
        server.host.loudest = 0.0
        await until(lambda: server.host.loudest > 0.05, "the other microphone")
        assert made.complaints == []


async def test_a_closed_window_ends_its_session(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        await begin(made.page)
        await made.page.close(run_before_unload=True)
        await until(lambda: len(server.conversations) == 0, "the end")


async def test_a_reloaded_page_begins_anew(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server, max_sessions=1) as (server, made):
        await begin(made.page)
        await made.page.reload()
        await until(lambda: len(server.conversations) == 0, "the end of the first")
        await begin(made.page)
        assert len(server.host.rooms) == 2


# -- breaks and refusals ----------------------------------------------------------------------------------------------


class Signalling:
    """The page's connections to the LiveKit server, which can be cut and kept from coming back."""

    def __init__(self) -> None:
        self.made: list[WebSocketRoute] = []
        self.barred = False
        self._closing: list[asyncio.Task[None]] = []

    async def watch(self, page: Page, server: LiveKitServer) -> None:
        await page.route_web_socket(lambda url: url.startswith(server.url), self._opened)

    async def cut(self) -> None:
        await self.made[-1].close(code=1001)

    def _opened(self, route: WebSocketRoute) -> None:
        self.made.append(route)
        if self.barred:
            # Afterwards: what is closed before this returns hangs.
            self._closing.append(asyncio.create_task(route.close(code=1001)))
        else:
            route.connect_to_server()


async def test_a_short_break_is_mended_by_the_line_itself(start: Start, livekit_server: LiveKitServer) -> None:
    async with launched() as browser, tab(browser) as made, start(livekit=access(livekit_server)) as server:
        line = Signalling()
        await line.watch(made.page, livekit_server)
        await made.page.goto(server.address)
        await begin(made.page)
        before = len(line.made)
        await line.cut()
        await until(lambda: len(line.made) > before, "another connection")
        await expect(made.page.locator("#state")).to_have_text("Speaking")
        assert len(server.host.rooms) == 1
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 16_000, "the microphone again")


async def test_a_long_break_is_mended_into_the_same_session(start: Start, livekit_server: LiveKitServer) -> None:
    async with launched() as browser, tab(browser) as made, start(livekit=access(livekit_server)) as server:
        line, entrances = Signalling(), list[str]()
        made.page.on("request", lambda request: entrances.append(request.url) if "entrance" in request.url else None)
        await line.watch(made.page, livekit_server)
        await made.page.goto(server.address)
        await begin(made.page)
        line.barred = True
        await line.cut()
        await expect(made.page.locator("#state")).to_contain_text("Reconnecting")
        await until(lambda: bool(entrances), "a new token")
        (room,) = server.host.rooms
        play(room, [{"type": "agent.state", "at_ms": 9000, "state": "thinking"}])  # the page is told what it missed
        line.barred = False
        await expect(made.page.locator("#state")).to_have_text("Thinking")
        assert len(server.host.rooms) == 1
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 16_000, "the microphone again")
        acknowledged = len([c for c in server.host.commands if isinstance(c, Acknowledge)])
        assert acknowledged


async def test_somebody_else_with_the_same_token_takes_the_place(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        async with made.page.expect_response("**/api/session") as answered:
            await begin(made.page)
        ticket = (await (await answered.value).json())["livekit"]
        thief = rtc.Room()
        await thief.connect(ticket["url"], ticket["token"])
        try:
            await expect(made.page.get_by_role("alert")).to_contain_text("Another window is already in")
            await until(lambda: len(server.conversations) == 0, "the end at the server")
        finally:
            await thief.disconnect()


async def test_a_restarted_livekit_server_is_met_again_or_said(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server, grace_s=3) as (server, made):
        await begin(made.page)
        livekit_server.stop()
        await expect(made.page.locator("#state")).to_contain_text("Reconnecting")
        await expect(made.page.get_by_role("alert")).to_contain_text("LiveKit server cannot be reached")
        await expect(made.page.locator("#start")).to_have_text("Start talking")
        await until(lambda: len(server.conversations) == 0, "the end at the server")
        await livekit_server.start()
        await begin(made.page)


async def test_a_livekit_server_that_is_down_is_said_in_words(start: Start, livekit_server: LiveKitServer) -> None:
    livekit_server.stop()
    async with opened(start, livekit_server, locale="zh-CN") as (server, made):
        await made.page.get_by_role("button", name="开始对话").click()
        await expect(made.page.get_by_role("alert")).to_contain_text("连不上 LiveKit 服务器")
        assert len(server.conversations) == 0
        await livekit_server.start()
        await made.page.get_by_role("button", name="开始对话").click()
        await expect(made.page.locator("#state")).to_have_text("在说")


async def test_an_expired_token_is_said_in_words(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):

        async def late(route: Route) -> None:
            answer = await route.fetch()
            body = await answer.json()
            body["livekit"]["token"] = livekit_server.token("visitor", "room", ttl_s=-3600)
            await route.fulfill(response=answer, json=body)

        await made.page.route("**/api/session", late)
        await made.page.get_by_role("button", name="Start talking").click()
        await expect(made.page.get_by_role("alert")).to_contain_text("The ticket into the room has expired")
        await until(lambda: len(server.conversations) == 0, "the end at the server")


async def test_a_room_that_is_deleted_is_said_in_words(start: Start, livekit_server: LiveKitServer) -> None:
    async with opened(start, livekit_server) as (server, made):
        await begin(made.page)
        async with livekit_server.api() as client:
            (room,) = (await client.room.list_rooms(api.ListRoomsRequest())).rooms
            await client.room.delete_room(api.DeleteRoomRequest(room=room.name))
        await expect(made.page.get_by_role("alert")).to_contain_text("The room was closed by the LiveKit server")
        await until(lambda: len(server.conversations) == 0, "the end at the server")


async def test_a_server_that_stops_is_said_in_words(start: Start, livekit_server: LiveKitServer) -> None:
    async with launched() as browser, tab(browser) as made:
        async with start(livekit=access(livekit_server)) as server:
            await made.page.goto(server.address)
            await begin(made.page)
        await expect(made.page.get_by_role("alert")).to_contain_text("Venus was switched off")


# -- a session with a scripted engine ---------------------------------------------------------------------------------


@dataclass
class Talk:
    """A demo whose engine answers with ``answer_s`` of its voice once the microphone has been quiet for a second."""

    answer_s: float
    engine: FakeEngine = field(init=False)
    sessions: list[Session] = field(default_factory=list[Session])
    _asked: bool = False
    _quiet: int = 0

    def __post_init__(self) -> None:
        self.engine = FakeEngine(self._on_unit)

    def _on_unit(self, session: FakeSession, unit: MediaUnit) -> None:
        loud = float(np.abs(unit.audio).max()) > 0.05
        if loud and not self._asked:
            self._asked = True
            session.hear("What is", final=False)
        self._quiet = 0 if loud else self._quiet + 1
        if self._asked and self._quiet == 1000 // session.engine.unit_ms:
            session.hear("What is the fastest land animal?")
            session.speak("u1", self.answer_s, "one two three four five six seven eight")

    async def converse(self, room: MediaRoom, engine: Engine, options: SessionOptions) -> None:
        session = Session(room, engine, options, SessionSettings())
        self.sessions.append(session)
        await session.run()

    def all(self, kind: type[ev.TimelineEvent]) -> list[Any]:
        return [event for session in self.sessions for event in session.timeline.events if isinstance(event, kind)]

    def heard(self) -> list[ev.Playout]:
        return [event for event in self.all(ev.Playout) if event.state == "heard"]


@asynccontextmanager
async def talking(talk: Talk, livekit: LiveKitServer, microphone: Path) -> AsyncGenerator[Page]:
    """The page in a call with that engine, being recorded."""

    async def prepared(_report: Callable[[Progress], None]) -> Engine:
        return talk.engine

    settings = RoomSettings.model_validate({"port": 0, "livekit": access(livekit)})
    host = EngineHost("fake", prepared, talk.converse)
    conversations = Conversations(host, transport(settings), 2)
    server = RoomServer(settings, host, conversations, Door(None, asyncio.get_running_loop().time))
    host.start()
    await host.wait_loaded()
    try:
        async with (
            listening(server.app(), settings, None) as address,
            launched(microphone) as browser,
            tab(browser) as made,
        ):
            await prepare(made.page)
            await made.page.goto(address)
            await made.page.get_by_role("button", name="Start talking").click()
            await expect(made.page.locator("#mute")).to_be_visible()
            await record(made.page)
            yield made.page
            assert made.complaints == []
    finally:
        await host.close()


def told(heard: Sequence[ev.Playout]) -> float:
    """How much of what was heard the page has told, rather than been estimated: a share of its length."""
    lengths = [(event.end_sample - event.first_sample, event.estimated) for event in heard]
    return sum(length for length, estimated in lengths if not estimated) / sum(length for length, _ in lengths)


@pytest.mark.alone
async def test_what_the_device_plays_is_what_counts_as_heard(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    talk = Talk(answer_s=4.0)
    async with talking(talk, livekit_server, question("en_turn_taking_01", tmp_path, LEAD_S)) as page:
        await until(lambda: bool(talk.all(ev.UtteranceEnded)), "the answer's end")
        await expect(page.locator(".said.user p").first).to_have_text("What is the fastest land animal?")
        await expect(page.locator(".said.agent p").first).to_have_text("one two three four five six seven eight")
        await expect(page.locator(".said.agent span[data-state=coming]")).to_have_count(0)
        recording = await Recording.of(page)
    heard = talk.heard()
    assert len(heard) > 5, "it was told in steps"
    assert told(heard) > 0.5
    (ended,) = talk.all(ev.UtteranceEnded)
    assert (ended.heard_samples, ended.interrupted) == (96_000, False)
    # On a busy machine there are pauses in it.
    assert 3.5 < sum(end - start for start, end in stretches(recording.venus)) < 8


@pytest.mark.alone
async def test_the_stop_button_silences_her(livekit_server: LiveKitServer, tmp_path: Path) -> None:
    talk = Talk(answer_s=20.0)
    async with talking(talk, livekit_server, question("en_turn_taking_01", tmp_path, LEAD_S)) as page:
        await expect(page.locator(".said.agent span[data-state=heard]").first).to_be_visible()
        await page.get_by_role("button", name="Stop speaking").click()
        await expect(page.locator(".said.agent small")).to_have_text("interrupted")
        recording = await Recording.of(page)
        await expect(page.locator(".said.agent span[data-state=dropped]").first).to_be_visible()
    (ended,) = talk.all(ev.UtteranceEnded)
    assert ended.interrupted
    said = sum(end - start for start, end in stretches(recording.venus))
    assert said < 10
    # What counts as heard is what was heard, but for what was on its way when the button was pressed.
    assert ended.heard_samples / 24_000 == pytest.approx(said, abs=1.0)
    assert told(talk.heard()) > 0.5


# -- the whole product ------------------------------------------------------------------------------------------------


@pytest.mark.models
async def test_a_question_is_answered_aloud(
    livekit_server: LiveKitServer, recogniser: WhisperRecogniser, tmp_path: Path
) -> None:
    sample_id = "en_turn_taking_01"
    given = ("--livekit-url", livekit_server.url, "--livekit-key", KEY, "--livekit-secret", SECRET)
    with demo(*given) as address:
        async with calling(address, question(sample_id, tmp_path, LEAD_S)) as page:
            await answered(page)
            if picture := os.environ.get("SCREENSHOT"):
                await page.screenshot(path=picture, full_page=True)
            recording = await Recording.of(page)
            await expect(page.locator(".said.user p").first).to_contain_text("animal")
            await expect(page.locator("#latency-edge")).to_contain_text(" s")
            if float((await page.locator("#latency-edge").inner_text()).split()[0]) < LISTENER_MEASURES_S:
                await expect(page.locator("#latency-listener")).to_contain_text(" s")
    words = heard_words(recogniser, recording.venus, Language.EN)
    assert any(keyword.lower() in words for keyword in sample(sample_id)["expected_keywords"]), words
