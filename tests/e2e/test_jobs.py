"""The jobs page in a browser: what ended leads back to its answer."""

import re

from playwright.sync_api import expect

from tests.e2e.test_heads import LONG, MAP


def test_open_shows_the_answer_again(page):
    page.goto("/heads?inputs=2&tokens=32")
    page.wait_for_selector(MAP, timeout=LONG)
    page.goto("/jobs")  # a new session, in which the view has its defaults
    row = page.locator("[class*=st-key-job_]", has_text="2 × 32 tokens")
    row.get_by_role("button", name="Open").first.click(timeout=60_000)
    page.wait_for_selector(MAP, timeout=LONG)
    expect(page).to_have_url(re.compile(r"/heads.*inputs=2"))
