"""What a person waits for at the slider of the ablation page: a position that is measured already, and a new one.

Time runs in the browser, from the mouse button going up to the frame in which the page shows it.
"""

from __future__ import annotations

from statistics import median, quantiles

from playwright.sync_api import BrowserContext, Page

from tests.bench.rows import Row

PAGE = "/ablation"
THUMB = ".st-key-off input[type=range]"
TRACK = ".st-key-off [role=group] [data-orientation=horizontal]"
LONG = 900_000  # ms: the first time the page also reads two corpora and scores one
PATIENCE = 120_000  # ms that one release may take
RELEASES = 40
# Percent of heads; from the second on two other sets are measured, and each has another place among them than the one before.
NEW = (12.0, 24.0, 16.0, 8.0)
SOON, BATCH = 0.2, 2.0  # seconds that were promised

# After the next release of the mouse: milliseconds until each of `shows` is true, and painted.
WAIT = """(...shows) => new Promise(resolve => {
    addEventListener('pointerup', () => {
        const begun = performance.now()
        const shown = show => new Promise(painted => {
            const look = () => requestAnimationFrame(show() ? () => painted(performance.now() - begun) : look)
            look()
        })
        resolve(Promise.all(shows.map(shown)))
    }, {capture: true, once: true})
})"""
# Heads that the sentence says are off; and those that the map draws so.
SAID = "Number((document.querySelector('.st-key-say')?.innerText ?? '').match(/^[\\d,]+(?= of )/)?.[0])"
DRAWN = """(document.querySelector('.st-key-map .js-plotly-plot')?._fullData ?? [])
    .filter(trace => trace.meta?.mark === 'inactive').reduce((sum, trace) => sum + trace.meta.cells, 0)"""
MEASURED = "document.querySelector('.st-key-say')?.innerText.includes('with their mean')"
STRIP = "document.querySelector('.st-key-order_strip .js-plotly-plot')"
PLACE = f"({STRIP}?.layout.annotations ?? []).map(label => label.text).join()"
WORKING = "[...document.querySelectorAll('[class*=st-key-working]')]"
COUNTS_UP = f"{WORKING}.some(line => line.innerText.includes('so far'))"


def rows(url: str, context: BrowserContext) -> list[Row]:
    """Medians, and the 95th percentile of what is measured already; the text is the page's own, 16 × 512 tokens."""
    page = context.new_page()
    page.goto(url + PAGE)
    settled(page)
    known = [float(page.locator(THUMB).input_value()), *NEW]
    orders, counts = [], []
    for position in NEW:
        page.evaluate(f"window.before = {PLACE}")
        placed = [f"{PLACE} && {PLACE} !== window.before"] if counts else []
        count, *order = release(page, position, COUNTS_UP, *placed)
        counts.append(count)
        orders += order
        settled(page)
    repaints = []
    for number in range(RELEASES):
        before = int(page.evaluate(SAID))
        new = f"{SAID} !== {before} && {MEASURED} && {DRAWN} === {SAID}"
        repaints += release(page, known[number % len(known)], new)
    page.close()
    repaint = "slider release to sentence and map, measured before"
    found = {
        f"{repaint}, 95th percentile of {RELEASES}": (quantiles(repaints, n=20)[-1], SOON),
        f"{repaint}, median": (median(repaints), SOON),
        "slider release to its place by gradient, new set": (median(orders), SOON),
        "slider release to the first measured batch, new set, warm worker": (median(counts), BATCH),
    }
    return [Row(case, took, "promised", promised, "s", 1.0) for case, (took, promised) in found.items()]


def release(page: Page, position: float, *shows: str) -> list[float]:
    """Drag the slider to `position` and let go; seconds until each of the JavaScript expressions `shows` is true."""
    thumb = page.locator(THUMB)
    low, high, now = (float(thumb.evaluate(f"input => input.{name}")) for name in ("min", "max", "value"))
    page.locator(TRACK).scroll_into_view_if_needed()
    track = page.locator(TRACK).bounding_box()
    at = [track["x"] + track["width"] * (value - low) / (high - low) for value in (now, position)]
    page.mouse.move(at[0], track["y"] + track["height"] / 2)
    page.mouse.down()
    page.mouse.move(at[1], track["y"] + track["height"] / 2, steps=5)
    functions = ", ".join(f"() => {show}" for show in shows)
    page.evaluate(f"window.took = null; ({WAIT})({functions}).then(found => {{ window.took = found }}); null")
    page.mouse.up()
    page.wait_for_function("window.took", timeout=PATIENCE)
    return [ms / 1000 for ms in page.evaluate("window.took")]


def settled(page: Page) -> None:
    """Wait until all of the position is measured and nothing is under way."""
    page.wait_for_function(
        f"{MEASURED} && !{WORKING}.length && document.querySelector({THUMB!r})", timeout=LONG
    )
