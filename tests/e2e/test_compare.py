"""A person compares a model with itself behind a BOS token, and picks the head that moved most by its bar."""

import re

from playwright.sync_api import expect

from tests.e2e.figures import FIGURE, LONG, place
from tests.e2e.test_heads import say


def test_a_click_on_a_bar_picks_the_head(page):
    page.goto("/compare?inputs=2&tokens=24&other_bos=always")
    page.wait_for_selector(FIGURE.format("movers"), timeout=LONG)
    moved = re.search(r"Most moved: (L\d\d\.H\d\d)", say(page))
    assert moved, say(page)
    tall, length = page.evaluate(
        "selector => { const bars = document.querySelector(selector)._fullData[0]; return [bars.y[0], bars.x[0]] }",
        FIGURE.format("movers"),
    )
    page.mouse.click(*place(page, "movers", length / 2, tall))
    expect(page.get_by_text(f"Picked on every page: {moved[1]}")).to_be_visible(timeout=LONG)
    expect(page).to_have_url(re.compile(f"head={re.escape(moved[1])}"), timeout=LONG)
    page.reload()
    expect(page.get_by_text(f"Picked on every page: {moved[1]}")).to_be_visible(timeout=LONG)
