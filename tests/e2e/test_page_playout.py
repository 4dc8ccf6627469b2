"""How the page counts what its device has played of each stretch of Venus's voice (``playout.js``), without a clock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from playwright.async_api import Page

from ..demo_room.conftest import Start
from ..kit.browser import launched, tab

pytestmark = [pytest.mark.browser, pytest.mark.alone]

Step = Sequence[str | float | None]
LATENCY_MS = 30
"""Of the device, as the page is told."""

_COUNT = """async ([latency, steps]) => {
  const { Playout } = await import("/page/playout.js");
  const playout = new Playout();
  const reports = [];
  for (const [what, now, ...values] of steps) {
    if (what === "announce") playout.announce(values[0], now);
    else {
      playout.observe(now, ...values);
      const report = playout.report(now, latency);
      if (report) reports.push([now, report.stretch, report.played_ms]);
    }
  }
  return reports;
}"""


def played(at: int, until_ms: int, first_rtp: int, *loud_ms: tuple[int, int]) -> list[Step]:
    """Every 20 ms a packet; ``loud_ms`` are the times at which it sounds."""
    times = range(at, until_ms, 20)
    sounding = [any(start <= now < end for start, end in loud_ms) for now in times]
    return [
        ("observe", now, (first_rtp + (now - at) * 48) % 2**32, 0.1 if sounds else 0.00001)
        for now, sounds in zip(times, sounding, strict=True)
    ]


async def counted(page: Page, steps: list[Step]) -> list[list[int]]:
    return await page.evaluate(_COUNT, [LATENCY_MS, sorted(steps, key=lambda step: (step[1], step[0]))])


def of(stretch: int, reports: list[list[int]]) -> list[tuple[int, int]]:
    """When and what was told of a stretch: at least something."""
    told = [(now, ms) for now, number, ms in reports if number == stretch]
    assert told
    return told


async def test_the_page_counts_what_is_played_of_each_stretch(start: Start) -> None:
    announced: Step = ("announce", 1000, 7)
    async with start() as server, launched() as browser, tab(browser) as made:
        await made.page.goto(server.address)

        # The clock wraps around meanwhile.
        reports = await counted(made.page, [announced, *played(0, 4000, 2**32 - 70_000, (1100, 2100))])
        told = of(7, reports)
        assert len(told) == len(reports)
        assert all(ms == now - 1100 - LATENCY_MS for now, ms in told)
        assert max(after - before for (before, _), (after, _) in pairwise(told)) <= 250
        assert told[-1][1] > 1000, "it goes on until the end is certain"
        assert told[-1][0] < 3000, "and then falls silent"

        # The end of one stretch still sounds when the next is announced, which begins after a short pause.
        steps = [announced, ("announce", 2060, 8), *played(0, 4000, 5, (1100, 2100), (2160, 3000))]
        assert all(ms == now - 2160 - LATENCY_MS for now, ms in of(8, await counted(made.page, steps)))

        # No pause can be heard between them: then the delay of the last beginning (100 ms) is supposed.
        steps = [announced, ("announce", 2000, 8), *played(0, 4000, 5, (1100, 3000))]
        assert all(ms == now - 2100 - LATENCY_MS for now, ms in of(8, await counted(made.page, steps)))

        # Another connection has another clock: what was begun before is told no more, what comes after is.
        packets = played(0, 1500, 5, (1100, 1500)) + played(1500, 4000, 2_000_000_000, (1500, 2000), (2300, 3000))
        reports = await counted(made.page, [announced, ("announce", 2200, 8), *packets])
        assert max(now for now, _ in of(7, reports)) < 1500
        assert all(ms == now - 2300 - LATENCY_MS for now, ms in of(8, reports))

        # Nothing sounds, nothing is told.
        assert await counted(made.page, [announced, *played(0, 4000, 5)]) == []
