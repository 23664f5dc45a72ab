"""A person takes the demo's four steps to who is right, and marks heads in one figure to see them in the other."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.test_heads import LONG

SHORT = "inputs=2&tokens=24&draws=1"
FIGURE = ".st-key-{} .js-plotly-plot"


def place(page: Page, key: str, across: float, up: float) -> list[float]:
    """Where a point of a figure is on the screen; in units of its axes."""
    page.evaluate(f"document.querySelector('{FIGURE.format(key)}').scrollIntoView({{block: 'center'}})")
    page.wait_for_timeout(
        1_500
    )  # a click in the moment in which the chart is still being laid out meets nothing
    return page.evaluate(
        """([selector, x, y]) => {
            const plot = document.querySelector(selector), full = plot._fullLayout
            const box = plot.getBoundingClientRect(), across = full.xaxis, up = full.yaxis
            return [box.left + across._offset + across.l2p(x), box.top + up._offset + up.l2p(y)]
        }""",
        [FIGURE.format(key), across, up],
    )


def drag(page: Page, start: list[float], end: list[float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=4)
    page.mouse.move(*end, steps=4)
    page.mouse.up()


def test_the_demo_ends_in_what_the_disputed_heads_cost(page):
    page.goto(f"/disagreement?{SHORT}&step=1")
    for step, key in enumerate(("demo_map", "quadrants", "agreement"), 1):
        page.wait_for_selector(FIGURE.format(key), timeout=LONG)
        if step > 1:
            expect(page).to_have_url(re.compile(f"step={step}"))
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
    expect(page.locator(".st-key-say")).to_have_text(wanted)


def test_heads_marked_in_one_figure_stand_in_the_other(page):
    page.goto(f"/disagreement?{SHORT}")
    page.wait_for_selector(FIGURE.format("group_map"), timeout=LONG)
    drag(page, place(page, "group_map", 2.5, 9.5), place(page, "group_map", 5.5, 12.5))
    expect(page.get_by_text("9 marked")).to_be_visible(timeout=20_000)
    expect(page).to_have_url(re.compile("marked=10%3A3%2C4%2C5%3B11%3A3%2C4%2C5%3B12%3A3%2C4%2C5"))
    framed = (
        f"document.querySelector('{FIGURE.format('quadrants')}').data.find(t => t.name == 'marked').x.length"
    )
    page.wait_for_function(f"() => {framed} == 9", timeout=20_000)
    page.locator(".st-key-boxes label").first.click()
    expect(page).to_have_url(re.compile("boxes=false"), timeout=20_000)
    page.mouse.click(*place(page, "group_map", 3, 10))
    expect(page.get_by_text("8 marked")).to_be_visible(timeout=20_000)
    expect(page).to_have_url(re.compile("head=L10.H03"))
    page.reload()
    expect(page.get_by_text("8 marked")).to_be_visible(timeout=LONG)
