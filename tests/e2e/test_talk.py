"""The whole product: ``venus demo`` with its default engine, a real browser, and a microphone that plays the kit.

Bounds are generous, since the machine may be busy; tight figures belong in the benchmark.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.async_api import Page, expect
from pypinyin import lazy_pinyin
from realtime_venus.engines.base import FloatPcm, Language
from realtime_venus.engines.cascade.asr import WhisperRecogniser
from realtime_venus.engines.store import Store

from ..kit.browser import launched, tab
from ..kit.kits import KIT_HZ, render, sample
from ..kit.speech import error_rate
from .listening import Recording, first_silence, prepare, record, stretches, write

pytestmark = [pytest.mark.browser, pytest.mark.models]

VENUS = str(Path(sys.executable).with_name("venus"))
READY_S = 240
ANSWER_MS = 120_000
LEAD_S = 2.0
"""Silence in front of the question, while the call is being made."""


@contextmanager
def demo(*options: str) -> Generator[str]:
    """Address of ``venus demo``, which is stopped at the end and must then go in order."""
    environment = os.environ | {"VENUS_ROOM__PORT": "0", "PYTHONUNBUFFERED": "1"}
    environment.pop("SCREENSHOT", None)
    command = [VENUS, "demo", "--no-open", *options]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _address(process)
        finally:
            process.terminate()
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert code == 0


@pytest.fixture(scope="session")
def demo_server() -> Iterator[str]:
    """One for all tests here."""
    with demo() as address:
        yield address


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        found = re.search(r"^Venus is ready at (\S+)", line)
        if found:
            return found[1]
    return pytest.fail(f"the demo ended before it was ready: {''.join(seen)}")


@pytest.fixture(scope="session")
def recogniser(models: Store) -> WhisperRecogniser:
    return WhisperRecogniser(models.path("whisper-base"))


@asynccontextmanager
async def talking(address: str, microphone: Path) -> AsyncGenerator[Page]:
    """A page in a call, being recorded."""
    async with launched(microphone) as browser, tab(browser) as made:
        await prepare(made.page)
        await made.page.goto(address)
        await expect(made.page.locator("#start")).to_be_enabled(timeout=ANSWER_MS)
        await made.page.locator("#start").click()
        await expect(made.page.locator("#mute")).to_be_visible(timeout=ANSWER_MS)
        await record(made.page)
        yield made.page
        assert made.complaints == []


async def answered(page: Page, count: int = 1) -> None:
    """Wait until Venus has spoken ``count`` utterances and is listening again."""
    await expect(page.locator(".said.agent")).to_have_count(count, timeout=ANSWER_MS)
    await expect(page.locator("#state")).to_have_text("Speaking", timeout=ANSWER_MS)
    await expect(page.locator("#state")).to_have_text("Listening", timeout=ANSWER_MS)


def question(sample_id: str, tmp_path: Path, lead_s: float = LEAD_S) -> Path:
    """The sample's question, loud enough for anybody, as a WAV for the microphone."""
    return write(tmp_path / "microphone.wav", _led(render(sample_id).clean, lead_s))


def _led(sound: FloatPcm, lead_s: float = LEAD_S) -> FloatPcm:
    return np.concatenate([np.zeros(int(lead_s * KIT_HZ), dtype=np.float32), sound * (0.5 / np.abs(sound).max())])


def pronounced(chinese: str) -> str:
    """Syllables without tones, which a small recogniser mixes up as easily as it does characters."""
    return " ".join(syllable for syllable in lazy_pinyin(chinese) if syllable.isalnum())


def heard_words(recogniser: WhisperRecogniser, sound: FloatPcm, language: Language) -> str:
    transcript = recogniser.transcribe(sound, language)
    assert transcript is not None
    return transcript.text.lower()


async def test_a_question_is_answered_aloud(demo_server: str, recogniser: WhisperRecogniser, tmp_path: Path) -> None:
    sample_id = "en_turn_taking_01"
    async with talking(demo_server, question(sample_id, tmp_path)) as page:
        await answered(page)
        recording = await Recording.of(page)
        await expect(page.locator(".said.user p").first).to_contain_text("animal")
        await expect(page.locator("#latency-edge")).to_contain_text(" s")
        await expect(page.locator("#latency-listener")).to_contain_text(" s")
    words = heard_words(recogniser, recording.venus, Language.EN)
    assert any(keyword.lower() in words for keyword in sample(sample_id)["expected_keywords"]), words
    asked, said = stretches(recording.user, 1.0), stretches(recording.venus, 1.0)
    assert said[0][0] > asked[0][0]


async def test_chinese_is_answered_in_chinese(demo_server: str, recogniser: WhisperRecogniser, tmp_path: Path) -> None:
    sample_id = "zh_turn_taking_01"
    async with talking(demo_server, question(sample_id, tmp_path)) as page:
        await answered(page)
        recording = await Recording.of(page)
        caption = await page.locator(".said.agent p").first.inner_text()
    assert any(keyword in caption for keyword in sample(sample_id)["expected_keywords"]), caption
    # A word that the recogniser spells with other characters of the same sound is as good (猎豹, 裂爆).
    words = heard_words(recogniser, recording.venus, Language.ZH)
    assert error_rate(pronounced(caption), pronounced(words))[0] <= 0.5, (caption, words)


async def test_interrupted_she_falls_silent_and_answers_the_new_question(
    demo_server: str, recogniser: WhisperRecogniser, tmp_path: Path
) -> None:
    sample_id = "en_user_interruption_01"
    onset_s = 9.0
    rendered = render(sample_id, length_s=22.0, overlap_offset_s=onset_s)
    async with talking(demo_server, write(tmp_path / "microphone.wav", _led(rendered.audio))) as page:
        await expect(page.locator(".said.agent small")).to_have_text("interrupted", timeout=ANSWER_MS)
        await expect(page.locator(".said.agent span[data-state=dropped]").first).to_be_visible()
        await expect(page.locator(".said.agent span[data-state=heard]").first).to_be_visible()
        # Cut off in the middle of the new question she may begin too early and be interrupted once more.
        right = re.compile("|".join(sample(sample_id)["expected_keywords"]), re.IGNORECASE)
        heard = page.locator(".said.agent span[data-state=heard]").filter(has_text=right)
        await expect(heard.first).to_be_visible(timeout=ANSWER_MS)
        await expect(page.locator("#state")).to_have_text("Listening", timeout=ANSWER_MS)
        if picture := os.environ.get("SCREENSHOT"):
            await page.screenshot(path=picture, full_page=True)
        recording = await Recording.of(page)
    asked = stretches(recording.user, 2.5)
    interruption = asked[1][0]
    # on two busy cores the next clause may be a while in coming: a pause of hers is interrupted as well
    said = stretches(recording.venus, 2.5)
    assert any(start < interruption < end for start, end in said), f"nothing to interrupt at {interruption}: {said}"
    assert first_silence(recording.venus, interruption, 0.4) - interruption < 3.0
    # what was said from then on, without the end of what was cut off: by it the recogniser may lose all that follows
    parts = [
        recording.venus[int((start - 0.1) * KIT_HZ) : int((end + 0.3) * KIT_HZ)]
        for start, end in stretches(recording.venus, 1.0)
        if start > interruption and end - start > 0.4
    ]
    words = " ".join(heard_words(recogniser, part, Language.EN) for part in parts)
    assert any(keyword.lower() in words for keyword in sample(sample_id)["expected_keywords"]), words


def test_the_demo_says_which_port_is_taken(demo_server: str) -> None:
    port = demo_server.rpartition(":")[2]
    command = [VENUS, "demo", "--no-open", "--port", port]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False)
    assert ended.returncode == 1
    assert f"port {port} on 127.0.0.1 is in use" in ended.stderr
    assert "Traceback" not in ended.stderr
