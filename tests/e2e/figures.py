"""A mouse on a figure: where its points are on the screen, once the figure has come to rest."""

from playwright.sync_api import Page

FIGURE = ".st-key-{} .js-plotly-plot"
LONG = 600_000  # ms for what is computed: a machine with twenty other things to do is that much slower than an idle one
STILL = 400  # ms without a move: a click in the moment in which a chart is still being laid out meets nothing


def place(page: Page, key: str, across: float, up: float) -> list[float]:
    """Where a point of a figure is on the screen; in units of its axes."""
    selector = FIGURE.format(key)
    page.evaluate("selector => document.querySelector(selector).scrollIntoView({block: 'center'})", selector)
    page.wait_for_function(
        """([selector, still]) => {
            const plot = document.querySelector(selector)
            if (!plot?._fullLayout?.xaxis?._length || plot._transitioning) return false
            const {left, top, width, height} = plot.getBoundingClientRect()
            const where = [left, top, width, height].join(" "), seen = plot.dataset
            if (seen.where !== where) { seen.where = where; seen.since = performance.now(); return false }
            return performance.now() - Number(seen.since) > still
        }""",
        arg=[selector, STILL],
        timeout=LONG,
    )
    return page.evaluate(
        """([selector, x, y]) => {
            const plot = document.querySelector(selector), full = plot._fullLayout
            const box = plot.getBoundingClientRect(), across = full.xaxis, up = full.yaxis
            return [box.left + across._offset + across.l2p(x), box.top + up._offset + up.l2p(y)]
        }""",
        [selector, across, up],
    )


def drag(page: Page, start: list[float], end: list[float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=4)
    page.mouse.move(*end, steps=4)
    page.mouse.up()
