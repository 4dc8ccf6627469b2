"""The same latency at the listener: both voices recorded inside Chromium, on the page's own clock.

    python benchmarks/listener.py [--limit N]

``venus demo`` runs as a user would run it, beside the browser, on the same cores.  Each question of ``turn_taking`` and
``user_interruption`` is Chromium's microphone; the time runs from the end of the question to the first sound of the
answer in one recording of both, so the browser's capture, both jitter buffers and its playout are in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from latency import Stem, stems
from playwright.async_api import expect

from tests.e2e.listening import Recording, prepare, record, stretches, write
from tests.kit.browser import launched, tab

READY_S = 240
WAIT_S = 7.0
LEAD_S = 2.5
"""Silence before the question, while the call is being made."""


@dataclass(slots=True)
class Row:
    id: str
    language: str
    latency_s: float | None


@contextmanager
def demo() -> Generator[str]:
    """Address of a running ``venus demo``."""
    environment = os.environ | {"VENUS_ROOM__PORT": "0", "PYTHONUNBUFFERED": "1"}
    command = [str(Path(sys.executable).with_name("venus")), "demo", "--no-open"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"^Venus is ready at (\S+)", line):
                    yield found[1]
                    break
        finally:
            process.terminate()
            process.wait(30)


async def play(address: str, stem: Stem, folder: Path) -> Row:
    """Ask one question in the browser."""
    lead = np.zeros(int(LEAD_S * 16_000), np.float32)
    microphone = write(folder / f"{stem.id}.wav", np.concatenate([lead, stem.audio]))
    async with launched(microphone) as browser, tab(browser) as made:
        await prepare(made.page)
        await made.page.goto(address)
        await expect(made.page.locator("#start")).to_be_enabled(timeout=READY_S * 1000)
        await made.page.locator("#start").click()
        await expect(made.page.locator("#mute")).to_be_visible(timeout=20_000)
        await record(made.page)
        await asyncio.sleep(LEAD_S + stem.end_s + WAIT_S)
        heard = await Recording.of(made.page)
    user, venus = stretches(heard.user, 2.0), stretches(heard.venus)
    if not user:
        return Row(stem.id, stem.language, None)
    end = user[-1][1]
    answer = next((begin for begin, _ in venus if begin >= user[0][0]), None)
    return Row(stem.id, stem.language, None if answer is None else round(answer - end, 3))


async def measure(limit: int) -> list[Row]:
    """``limit`` questions of each language."""
    chosen = [
        stem
        for language in ("en", "zh")
        for stem in [*stems(language, "turn_taking"), *stems(language, "user_interruption")][:limit]
    ]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, demo() as address:
        for stem in chosen:
            rows.append(await play(address, stem, Path(folder)))
            print(json.dumps(asdict(rows[-1])), flush=True)
    return rows


def summary(rows: list[Row]) -> dict[str, Any]:
    """p50 / p90 and how many questions got no answer in time."""
    good = [row.latency_s for row in rows if row.latency_s is not None]
    p50, p90 = (round(float(np.percentile(good, p)), 3) if good else None for p in (50, 90))
    return {"n": len(good), "p50_s": p50, "p90_s": p90, "no_answer": len(rows) - len(good)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=8)
    rows = asyncio.run(measure(parser.parse_args().limit))
    for language in ("en", "zh"):
        print(language, json.dumps(summary([row for row in rows if row.language == language])))


if __name__ == "__main__":
    main()
