"""A person takes the demo's four steps to who is right, and marks heads in one figure to see them in the other."""

import re

from playwright.sync_api import expect

from tests.e2e.figures import FIGURE, LONG, drag, place

SHORT = "inputs=2&tokens=24&draws=1"


def test_the_demo_ends_in_what_the_disputed_heads_cost(page):
    page.goto(f"/disagreement?{SHORT}&step=1")
    for step, key in enumerate(("demo_map", "quadrants", "agreement"), 1):
        page.wait_for_selector(FIGURE.format(key), timeout=LONG)
        if step > 1:
            expect(page).to_have_url(re.compile(f"step={step}"), timeout=LONG)
        page.get_by_role("button", name="Next").click()
    wanted = re.compile(
        r"\d+ sink-but-loud heads? cost [+−\d.]+ nats \[.*, \d+ silent-but-not-a-sink heads? [+−\d.]+ nats \[.*"
        r"With their mean in their place.*as many random heads anywhere [+−\d.]+ \(1 draw\)",
        re.S,
    )
    expect(page.locator(".st-key-say")).to_have_text(wanted, timeout=LONG)
    page.wait_for_selector(FIGURE.format("group_costs"), timeout=LONG)
    page.get_by_role("button", name="Whole page").click()
    page.wait_for_selector(FIGURE.format("group_map"), timeout=LONG)
    expect(page.locator(".st-key-say")).to_have_text(wanted, timeout=LONG)


def test_heads_marked_in_one_figure_stand_in_the_other(page):
    page.goto(f"/disagreement?{SHORT}")
    page.wait_for_selector(FIGURE.format("group_map"), timeout=LONG)
    drag(page, place(page, "group_map", 2.5, 9.5), place(page, "group_map", 5.5, 12.5))
    expect(page.get_by_text("9 marked")).to_be_visible(timeout=LONG)
    expect(page).to_have_url(
        re.compile("marked=10%3A3%2C4%2C5%3B11%3A3%2C4%2C5%3B12%3A3%2C4%2C5"), timeout=LONG
    )
    framed = (
        f"document.querySelector('{FIGURE.format('quadrants')}').data.find(t => t.name == 'marked').x.length"
    )
    page.wait_for_function(f"() => {framed} == 9", timeout=LONG)
    page.locator(".st-key-boxes label").first.click()
    expect(page).to_have_url(re.compile("boxes=false"), timeout=LONG)
    # the address bar changes before the figures: with clicks they are others than with boxes
    mode = f"document.querySelector('{FIGURE.format('group_map')}')?._fullLayout?.dragmode"
    page.wait_for_function(f"() => {mode} && {mode} != 'select'", timeout=LONG)
    page.mouse.click(*place(page, "group_map", 3, 10))
    expect(page.get_by_text("8 marked")).to_be_visible(timeout=LONG)
    expect(page).to_have_url(re.compile("head=L10.H03"), timeout=LONG)
    page.reload()
    expect(page.get_by_text("8 marked")).to_be_visible(timeout=LONG)
