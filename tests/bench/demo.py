"""The demo of the Disagreement page as a person clicks it, from an empty HEADVIZ_HOME to the answer, on an idle machine."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.bench.rows import Row
from tests.e2e.figures import FIGURE, LONG
from tests.server import CHROMIUM, QUIET, Server

FIGURES = ("demo_map", "quadrants", "agreement")
ANSWER = re.compile(r"heads? cost [+−\d.]+ nats \[.*random heads anywhere", re.S)
PROMISED = 180.0  # seconds


def run(repeats: int) -> list[Row]:
    """Seconds, once: `repeats` is not used, because only the first time is cold."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder) / "home", Path(folder) / "log")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            server.start()
            times = _clicked(browser.new_page(viewport={"width": 1280, "height": 900}), server.url)
        finally:
            browser.close()
            server.stop()
            server.stop_workers()
    return [Row(case, took, "promised", PROMISED, "s", 1.0) for case, took in times.items()]


def _clicked(page: Page, url: str) -> dict[str, float]:
    begun = time.monotonic()
    found: dict[str, float] = {}
    page.goto(f"{url}/disagreement?step=1")
    for key in FIGURES:
        page.wait_for_selector(FIGURE.format(key), timeout=LONG)
        found.setdefault("first map of the demo", time.monotonic() - begun)
        page.get_by_role("button", name="Next").click()
    expect(page.locator(".st-key-say")).to_have_text(ANSWER, timeout=LONG)
    found["which heads cost more, with intervals and random heads"] = time.monotonic() - begun
    return found
