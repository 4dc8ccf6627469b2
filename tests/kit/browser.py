"""Chromium for tests: headless, with a microphone that plays a file, and no network of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)


def chromium_path() -> str:
    """``$CHROMIUM``, or the first Chromium on the path.  Fails with what to do when there is none."""
    named = os.environ.get("CHROMIUM")
    for name in (named,) if named else NAMES:
        found = shutil.which(name)
        if found:
            return found
    return pytest.fail(f"no Chromium found (looked for {named or ', '.join(NAMES)}): install it or set CHROMIUM")


@dataclass
class Tab:
    """A page with everything it complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list[str])

    def watch(self) -> None:
        """Note errors from now on."""
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")


@asynccontextmanager
async def launched(
    microphone: Path | None = None, *, devices: bool = True, extra: Sequence[str] = ()
) -> AsyncGenerator[Browser]:
    """A Chromium whose microphone plays ``microphone`` (WAV) once, or beeps; without ``devices`` it has none."""
    flags = [*FLAGS, *extra]
    if devices:
        flags.append("--use-fake-device-for-media-stream")
    if microphone is not None:
        flags.append(f"--use-file-for-fake-audio-capture={microphone}%noloop")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=flags)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def tab(
    browser: Browser, *, width: int = 1200, height: int = 860, dark: bool = False, locale: str = "en-US"
) -> AsyncGenerator[Tab]:
    """A fresh window."""
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", locale=locale
    )
    try:
        made = Tab(await context.new_page())
        made.watch()
        yield made
    finally:
        await context.close()
