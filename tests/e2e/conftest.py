"""A real server, a real worker, a real browser: Debian's Chromium driven by Playwright. They end with these tests: a worker that goes
on with what they left would slow down all others."""

import pytest
from playwright.sync_api import sync_playwright

from tests.server import CHROMIUM, QUIET, Server


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("e2e home")  # with a space: paths are never split
    made = Server(folder / "home", folder / "server.log")
    made.start()
    yield made
    made.stop()
    made.stop_workers()


@pytest.fixture(scope="package")
def browser():
    if CHROMIUM is None:
        pytest.fail("no Chromium on this machine: .ci/run installs it (apt-get install chromium)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield running
        running.close()


@pytest.fixture
def page(browser, server):
    """A fresh browser session at 1280 px; the test fails if the page asked for anything beyond this machine."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=server.url)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened = context.new_page()
    outside = []
    opened.on(
        "request",
        lambda request: (
            outside.append(request.url)
            if not request.url.startswith((server.url, "data:", "blob:", "ws://localhost"))
            else None
        ),
    )
    yield opened
    context.close()
    assert outside == [], f"the page loaded from outside: {outside[:3]}"
