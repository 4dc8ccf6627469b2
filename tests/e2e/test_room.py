"""The page in a real browser, talking to a server whose host follows a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Page, expect
from realtime_venus.demo_room.host import HostState
from realtime_venus.plugin.rooms.base import Acknowledge, Configure, Interrupt, TypeText
from realtime_venus.plugin.rooms.webrtc import WebRtcRoom

from ..demo_room.conftest import Running, Start
from ..demo_room.scripted import WORDS, ScriptedHost
from ..kit.browser import Tab, launched, tab
from ..plugin.rooms.webrtc.page import until

pytestmark = pytest.mark.browser

SHOWN_MS = 20_000
expect.set_options(timeout=SHOWN_MS)


@asynccontextmanager
async def opened(
    start: Start, host: ScriptedHost | None = None, *, devices: bool = True, width: int = 1200, locale: str = "en-US"
) -> AsyncGenerator[tuple[Running, Tab]]:
    """A server, a browser and the page, ready to begin."""
    async with (
        start(host) as server,
        launched(devices=devices) as browser,
        tab(browser, width=width, locale=locale) as made,
    ):
        await made.page.goto(server.address)
        yield server, made


async def begin(page: Page) -> None:
    await page.get_by_role("button", name="Start talking").click()
    await expect(page.locator("#state")).to_have_text("Speaking")


async def test_a_call_from_start_to_end(start: Start) -> None:
    async with opened(start) as (server, made):
        page = made.page
        await expect(page.locator("#state")).to_have_text("Ready")
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


async def test_what_the_page_plays_is_the_tone(start: Start) -> None:
    async with opened(start) as (_, made):
        await begin(made.page)
        hz = await made.page.evaluate(
            """async () => {
              const context = new AudioContext();
              const analyser = new AnalyserNode(context, { fftSize: 16384 });
              context.createMediaStreamSource(document.getElementById("voice-out").srcObject).connect(analyser);
              const bins = new Float32Array(analyser.frequencyBinCount);
              for (;;) {
                await new Promise(requestAnimationFrame);
                analyser.getFloatFrequencyData(bins);
                const loudest = bins.indexOf(Math.max(...bins));
                if (bins[loudest] > -50) {
                  await context.close();
                  return (loudest * context.sampleRate) / analyser.fftSize;
                }
              }
            }"""
        )
        assert hz == pytest.approx(440, abs=8)


async def test_acknowledged_words_turn_from_coming_to_heard(start: Start) -> None:
    async with opened(start) as (server, made):
        await begin(made.page)
        words = made.page.locator(".said.agent span[data-state=heard]")
        await expect(words.first).to_be_visible()
        room = server.host.rooms[0]
        room.publish(
            {
                "type": "agent.utterance_ended",
                "at_ms": 12_000,
                "seq": 50,
                "utterance_id": "u1",
                "heard_text": "Hello,",
                "heard_samples": 0,
                "total_samples": 144_000,
                "interrupted": True,
            }
        )
        await expect(made.page.locator(".said.agent small")).to_have_text("interrupted")
        await expect(made.page.locator(".said.agent span[data-state=coming]")).to_have_count(0)
        await expect(made.page.locator(".said.agent span[data-state=dropped]").first).to_be_visible()
        await expect(made.page.locator("#announcer")).to_contain_text("Venus: Hello,")


async def test_partial_words_are_replaced_by_final_ones(start: Start) -> None:
    async with opened(start) as (server, made):
        await begin(made.page)
        room = server.host.rooms[0]
        heard = {"type": "user.text", "start_ms": 9000, "end_ms": 9500, "language": "en", "typed": False}
        room.publish({**heard, "seq": 1, "at_ms": 9500, "final": False, "text": "wreck a"})
        await expect(made.page.locator(".said.partial p")).to_have_text("wreck a")
        room.publish({**heard, "seq": 2, "at_ms": 9900, "final": True, "text": "Recognise speech."})
        await expect(made.page.locator(".said.partial")).to_have_count(0)
        await expect(made.page.locator(".said.user p").last).to_have_text("Recognise speech.")
        room.publish({**heard, "seq": 3, "at_ms": 11_000, "final": True, "text": "Recognise speech, please."})
        await expect(made.page.locator(".said.user p").last).to_have_text("Recognise speech, please.")
        await expect(made.page.locator(".said.user")).to_have_count(2)


async def test_words_are_shown_as_words_never_as_markup(start: Start) -> None:
    async with opened(start) as (server, made):
        await begin(made.page)
        evil = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
        piece = {"utterance_id": "u2", "first_sample": 0, "end_sample": 24_000}
        server.host.rooms[0].publish({"type": "agent.text", "seq": 1, "at_ms": 9000, "text": evil, **piece})
        await expect(made.page.locator(".said.agent p").last).to_have_text(evil)
        assert await made.page.locator("#captions img, #captions script").count() == 0
        assert await made.page.title() == "Venus"


async def test_the_timeline_is_drawn(start: Start) -> None:
    async with opened(start) as (_, made):
        await begin(made.page)
        await expect(made.page.locator("#timeline")).to_have_attribute(
            "aria-label", "Timeline of the last 30 seconds. Last answer after 0.72 s."
        )
        colours = await made.page.evaluate(
            """async () => {
              const canvas = document.getElementById("timeline");
              await new Promise(requestAnimationFrame);
              const seen = new Set();
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              for (let at = 0; at < data.length; at += 4) {
                if (data[at + 3] === 255) seen.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
              }
              const style = getComputedStyle(document.documentElement);
              const shown = (name) => seen.has(parseInt(style.getPropertyValue(name).trim().slice(1), 16));
              return { user: shown("--t-user"), latency: shown("--t-latency") };
            }"""
        )
        assert colours == {"user": True, "latency": True}


async def test_typing_and_choices_reach_the_server(start: Start) -> None:
    async with opened(start) as (server, made):
        page = made.page
        await begin(page)
        await page.get_by_label("Type instead of speaking").fill("Hello by hand")
        await page.keyboard.press("Enter")
        await until(lambda: TypeText("Hello by hand") in server.host.commands, "the text")
        await expect(page.locator(".said.user small")).to_have_text("typed")
        await page.get_by_label("Language").select_option("zh")
        await page.get_by_label("Voice").select_option("zf_001")
        await until(
            lambda: any(isinstance(c, Configure) and c.changes.voice == "zf_001" for c in server.host.commands),
            "choice",
        )


async def test_a_text_may_be_as_long_as_the_engine_takes_and_is_counted(start: Start) -> None:
    async with opened(start) as (_, made):
        await begin(made.page)
        typed, count = made.page.locator("#typed"), made.page.locator("#typed-count")
        await typed.fill("x" * 47)
        await expect(count).to_be_hidden()
        await typed.press_sequentially("y" * 20)
        await expect(typed).to_have_value("x" * 47 + "y" * 13)
        await expect(count).to_have_text("60 / 60")


async def test_what_was_refused_stays_typed_and_the_complaint_goes_with_the_next_success(start: Start) -> None:
    async with opened(start) as (server, made):
        page = made.page
        await begin(page)
        (room,) = server.host.rooms
        server.host.refused = "A text has at most 5 characters here; this one was not taken."
        await page.locator("#typed").fill("Why is it so?")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("did not take that: A text has at most 5 characters")
        await expect(page.locator("#typed")).to_have_value("Why is it so?")
        await expect(page.locator(".said.user")).to_have_count(1)
        server.host.refused = ""
        await page.locator("#typed").fill("Why?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said.user p").last).to_have_text("Why?")
        await expect(page.locator("#trouble")).to_be_hidden()
        await expect(page.locator("#typed")).to_have_value("")
        stopped = {"type": "trouble", "at_ms": 9000, "code": "recording_stopped", "message": "The disk is full."}
        room.publish({**stopped, "seq": 70, "fatal": False})
        await expect(page.get_by_role("alert")).to_contain_text("The disk is full.")
        await page.locator("#typed").fill("So?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said.user p").last).to_have_text("So?")
        await expect(page.get_by_role("alert")).to_contain_text("The disk is full.")


async def test_bubbles_change_their_language_with_the_page(start: Start) -> None:
    async with opened(start) as (server, made):
        page = made.page
        await begin(page)
        await page.locator("#typed").fill("By hand")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said.user small")).to_have_text("typed")
        ended = {"type": "agent.utterance_ended", "at_ms": 12_000, "seq": 50, "utterance_id": "u1", "interrupted": True}
        samples = {"heard_samples": 0, "total_samples": 144_000}
        server.host.rooms[0].publish({**ended, **samples, "heard_text": "Hello,"})
        dropped = page.locator(".said.agent span[data-state=dropped]").last
        await expect(dropped).to_have_attribute("title", "not heard")
        await page.get_by_role("button", name="把界面切换为中文").click()
        await expect(page.locator(".said.user b").last).to_have_text("你")
        await expect(page.locator(".said.user small")).to_have_text("打字")
        await expect(page.locator(".said.agent small")).to_have_text("被打断")
        await expect(dropped).to_have_attribute("title", "未听到")
        await expect(page.locator(".said.user p").last).to_have_text("By hand")


async def test_an_answer_is_measured_at_the_ear_whenever_its_first_sound_comes(start: Start) -> None:
    """Reported by the server in second 3; the user fell silent in second 2."""
    measure = """async ([sounds, reported]) => {
      const { ListenerLatency } = await import("/page/latency.js");
      const listener = new ListenerLatency();
      const shown = [];
      for (let step = 0; step < 1000; step += 1) {
        const at = step / 100;
        const loud = sounds.some(([from, until]) => at >= from && at < until);
        listener.push({ at, microphone: at < 2 ? 0.2 : 0.0005, venus: loud ? 0.1 : 0 }, 0.05);
        if (step === reported * 100) listener.expect(at, (milliseconds) => shown.push(milliseconds));
      }
      return shown;
    }"""
    async with start() as server, launched() as browser, tab(browser) as made:
        await made.page.goto(server.address)
        for first, shown in ((2.9, [950]), (3.1, [1150]), (5.5, [3550]), (8, [])):
            measured = await made.page.evaluate(measure, [[[first, first + 1]], 3])
            assert measured == pytest.approx(shown, abs=25), first


async def test_the_keyboard_is_enough(start: Start) -> None:
    async with opened(start) as (server, made):
        page = made.page
        await expect(page.locator("#start")).to_be_enabled()
        for _ in range(10):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.id") == "start":
                break
        await page.keyboard.press("Enter")
        await expect(page.locator("#state")).to_have_text("Speaking")
        await page.keyboard.press("m")
        await expect(page.locator("#mute")).to_have_attribute("aria-pressed", "true")
        await page.keyboard.press("m")
        await expect(page.locator("#mute")).to_have_attribute("aria-pressed", "false")
        await page.keyboard.press("Escape")
        await until(lambda: Interrupt() in server.host.commands, "the stop")


async def test_muting_sends_silence(start: Start) -> None:
    async with opened(start) as (server, made):
        await begin(made.page)
        await until(lambda: server.host.loudest > 0.05, "sound")
        await made.page.get_by_role("button", name="Mute").click()
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 8000, "what was on its way")
        server.host.loudest = 0.0
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 32_000, "two seconds")
        assert server.host.loudest < 0.01


async def test_a_full_house_is_said_in_words(start: Start) -> None:
    async with opened(start, ScriptedHost(max_sessions=1)) as (server, made):
        await server.token()
        await made.page.get_by_role("button", name="Start talking").click()
        await expect(made.page.get_by_role("alert")).to_contain_text("Everybody Venus can talk to at once")
        await expect(made.page.locator("#start")).to_have_text("Start talking")


async def test_no_microphone_is_said_and_typing_goes_on(start: Start) -> None:
    async with opened(start, devices=False) as (server, made):
        page = made.page
        await page.get_by_role("button", name="Start talking").click()
        await expect(page.get_by_role("alert")).to_contain_text("No microphone was found")
        assert len(server.conversations) == 0
        await page.get_by_role("button", name="Go on by typing").click()
        await expect(page.locator("#state")).to_have_text("Speaking")
        await page.get_by_label("Type instead of speaking").fill("No voice today")
        await page.keyboard.press("Enter")
        await until(lambda: TypeText("No voice today") in server.host.commands, "the text")
        await until(lambda: server.host.samples > 16_000, "time going on")


async def test_a_refused_microphone_is_said_in_words(start: Start) -> None:
    async with opened(start) as (_, made):
        await made.page.evaluate(
            """void (navigator.mediaDevices.getUserMedia =
                 async () => { throw new DOMException("no", "NotAllowedError"); })"""
        )
        await made.page.get_by_role("button", name="Start talking").click()
        await expect(made.page.get_by_role("alert")).to_contain_text("may not use the microphone")


async def test_a_broken_line_is_mended_into_the_same_session(start: Start) -> None:
    async with opened(start) as (server, made):
        await begin(made.page)
        (room,) = server.host.rooms
        assert isinstance(room, WebRtcRoom)
        peer = room.peer
        assert peer is not None
        await peer.close("broken")
        await until(lambda: room.peer is not peer and room.connected, "the new connection")
        await expect(made.page.locator("#state")).to_have_text("Speaking")
        assert server.host.rooms == [room]
        samples = server.host.samples
        await until(lambda: server.host.samples > samples + 16_000, "the microphone again")


async def test_a_closed_window_ends_its_session(start: Start) -> None:
    async with opened(start) as (server, made):
        await begin(made.page)
        await made.page.close(run_before_unload=True)
        await until(lambda: len(server.conversations) == 0, "the end")


async def test_a_server_that_stops_is_said_in_words(start: Start) -> None:
    async with launched() as browser, tab(browser) as made:
        async with start() as server:
            await made.page.goto(server.address)
            await begin(made.page)
        await expect(made.page.get_by_role("alert")).to_contain_text("Venus was switched off")


async def test_loading_is_shown_with_its_progress(start: Start) -> None:
    host = ScriptedHost(state=HostState.LOADING)
    async with opened(start, host) as (_, made):
        await expect(made.page.locator("#hint")).to_have_text("Fetching the voice models… 40 %")
        await expect(made.page.locator("#start")).to_be_disabled()
        host.state = HostState.READY
        await expect(made.page.locator("#state")).to_have_text("Ready")
        await expect(made.page.locator("#start")).to_be_enabled()


async def test_a_failed_engine_is_explained(start: Start) -> None:
    async with opened(start, ScriptedHost(state=HostState.FAILED)) as (_, made):
        await expect(made.page.get_by_role("alert")).to_contain_text("the engine could not be loaded")
        await expect(made.page.locator("#start")).to_be_disabled()


async def test_a_key_is_asked_for(start: Start) -> None:
    async with start(key="open sesame") as server, launched() as browser, tab(browser) as made:
        page = made.page
        await page.goto(server.address)
        await page.get_by_label("Key of this room").fill("wrong key")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("That key is wrong")
        await page.get_by_label("Key of this room").fill("open sesame")
        await page.keyboard.press("Enter")
        await expect(page.locator("#state")).to_have_text("Speaking")


async def test_a_telephones_width_is_enough_and_chinese_is_spoken(start: Start) -> None:
    async with opened(start, width=360, locale="zh-CN") as (_, made):
        page = made.page
        await page.get_by_role("button", name="开始对话").click()
        await expect(page.locator("#state")).to_have_text("在说")
        wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0
        small = await page.evaluate(
            """[...document.querySelectorAll("button, select, input")]
                 .filter((e) => e.offsetParent !== null && !e.classList.contains("sr-only"))
                 .filter((e) => e.getBoundingClientRect().height < 43).length"""
        )
        assert small == 0
        await page.get_by_role("button", name="Show the page in English").click()
        await expect(page.locator("#state")).to_have_text("Speaking")
        assert await page.evaluate("document.documentElement.lang") == "en"


async def test_on_a_telephone_no_keys_are_named_and_no_words_overlap(start: Start) -> None:
    async with (
        start() as server,
        launched() as browser,
        tab(browser, width=360) as narrow,
        tab(browser) as wide,
    ):
        for made, hint in ((narrow, ""), (wide, "M mutes, Esc stops her speaking.")):
            await made.page.add_init_script(_NOTE_WORDS)
            await made.page.goto(server.address)
            await begin(made.page)
            await expect(made.page.locator("#hint")).to_have_text(hint)
        # Half a minute later the bar of her speaking reaches under the name of its lane.
        room = server.host.rooms[0]
        room.publish({"type": "agent.state", "at_ms": 40_000, "seq": 60, "state": "speaking"})
        speaks, name = await narrow.page.evaluate(
            """async () => {
              for (;;) {
                window.words.length = 0;
                await new Promise(requestAnimationFrame);
                await new Promise(requestAnimationFrame);
                const of = (wanted) => window.words.find(({ text }) => text === wanted);
                if (of("speaks")?.x < 120 && of("Decides")) return [of("speaks"), of("Decides")];
              }
            }"""
        )
        assert speaks["x"] > name["x"] + name["width"]


_NOTE_WORDS = """
  window.words = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.words.push({ text, x, y, width: this.measureText(text).width });
    if (window.words.length > 200) window.words.splice(0, 100);
    fillText.call(this, text, x, y);
  };
"""


async def test_everything_has_a_name_for_screen_readers(start: Start) -> None:
    async with opened(start) as (_, made):
        await begin(made.page)
        nameless = await made.page.evaluate(
            """[...document.querySelectorAll("button, select, input:not([aria-hidden])")]
                 .filter((e) => e.offsetParent !== null)
                 .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
                 .map((e) => e.id)"""
        )
        assert nameless == []
        await expect(made.page.get_by_role("status")).to_have_text("Speaking")
