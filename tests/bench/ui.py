"""What a person waits for: the page after a start, the first map without any cache, the second visit, the slider.

A fresh HEADVIZ_HOME, a real server, a real worker, a real browser. Seconds, once each: run it on an idle machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright

from tests.bench import slider
from tests.bench.rows import Row
from tests.server import CHROMIUM, QUIET, Server

MAP = ".st-key-map .js-plotly-plot .heatmaplayer"
BARE = """import plotly.graph_objects as go
import streamlit as st

st.plotly_chart(go.Figure(go.Heatmap(z=[[1, 2], [3, 4]])), key="map")
"""
LONG = 600_000  # ms


def run(repeats: int) -> list[Row]:
    """Rows of seconds against what was promised; `repeats` second visits, their median."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder) / "home", Path(folder) / "log")
        bare = Path(folder) / "bare.py"  # what Streamlit and plotly themselves take on this machine
        bare.write_text(BARE)
        peer = Server(Path(folder) / "home", Path(folder) / "bare.log", bare)
        moved = Path(folder) / "slider.py"
        moved.write_text(slider.BARE)
        sliding = Server(Path(folder) / "home", Path(folder) / "slider.log", moved)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            return _visits(server, peer, sliding, browser, max(repeats, 3))
        finally:
            browser.close()
            peer.stop()
            sliding.stop()
            server.stop()
            server.stop_workers()


def _visits(server: Server, peer: Server, sliding: Server, browser, repeats: int) -> list[Row]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}
    )  # one person's browser, who comes back

    def visit(path: str, selector: str, server: Server = server) -> float:
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
    peer.start()
    visit("/", MAP, peer)
    again, bare = [], []
    for _ in range(repeats):
        again.append(visit("/heads", MAP))
        bare.append(visit("/", MAP, peer))
    _say("the slider of the ablation page")
    sliding.start()
    bare_slides = slider.bare_rows(sliding.url, context)
    slid = slider.rows(server.url, context, bare_slides)
    return [
        Row("from start to a drawn page", up, "promised", 5.0, "s", 1.0),
        Row("first map of 16 × 512 tokens, nothing cached", first, "promised", 60.0, "s", 1.0),
        Row("second visit, a new tab", median(again), "promised", 1.5, "s", 1.0),
        Row("second visit, a new tab", median(again), "Streamlit with one 2 × 2 heatmap", median(bare), "s"),
        *slid,
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
