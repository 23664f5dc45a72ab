"""What a person waits for: the page after a start, the first map without any cache, and the second visit.

A fresh HEADVIZ_HOME, a real server, a real worker, a real browser. Seconds, once each: run it on an idle machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.bench.rows import Row
from tests.server import CHROMIUM, QUIET, Server

MAP = ".st-key-map .js-plotly-plot .heatmaplayer"
LONG = 600_000  # ms


def run(repeats: int) -> list[Row]:
    """Rows of seconds against what was promised; `repeats` second visits, their median."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder) / "home", Path(folder) / "log")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            return _visits(server, browser, repeats)
        finally:
            browser.close()
            server.stop()
            server.stop_workers()


def _visits(server: Server, browser, repeats: int) -> list[Row]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}
    )  # one person's browser, who comes back

    def visit(path: str, selector: str) -> float:
        page = context.new_page()
        begun = time.monotonic()
        page.goto(server.url + path)
        page.wait_for_selector(selector, timeout=LONG)
        took = time.monotonic() - begun
        page.close()
        return took

    begun = time.monotonic()
    server.start()
    visit("/", "h1")
    up = time.monotonic() - begun
    _say("first map, with nothing cached")
    first = visit("/heads", MAP)
    _say("second visits")
    again = sorted(visit("/heads", MAP) for _ in range(max(repeats, 3)))
    return [
        Row("from start to a drawn page", up, "promised", 5.0, "s", 1.0),
        Row("first map of 16 × 512 tokens, nothing cached", first, "promised", 60.0, "s", 1.0),
        Row("second visit, a new tab", again[len(again) // 2], "promised", 1.5, "s", 1.0),
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
