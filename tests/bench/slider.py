"""What a person waits for at the slider of the ablation page: a position that is measured already, and a new one.

Time runs in the browser, from the mouse button going up to the frame in which the page shows it. Before each release the page
is at rest, as it is when somebody has looked at what the last one showed.
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
LOOK = 700  # ms that a person looks at what a release shows before the next one
RELEASES = 40
# Percent of heads; from the second on two other sets are measured, and each has another place among them than the one before.
NEW = (12.0, 24.0, 16.0, 8.0)
SOON, BATCH = 0.2, 2.0  # seconds that were promised

# What Streamlit and plotly themselves take: a slider, a line of text and a map as large, with nothing to look up or to draw anew.
BARE = """import numpy as np
import plotly.graph_objects as go
import streamlit as st


@st.fragment
def body():
    share = st.slider("off", 0.0, 30.0, 20.0, 0.5, key="off")
    st.container(key="say").write(f"{share * 2.7:.0f} of 270 heads")
    figure = go.Figure(go.Heatmap(z=np.random.default_rng(0).random((30, 9)) + share / 100))
    cells = np.indices((30, 9)).reshape(2, -1)
    figure.add_scatter(x=cells[1], y=cells[0], mode="markers", marker={"symbol": "square", "size": 14, "opacity": 0})
    st.plotly_chart(figure.update_layout(height=700, title=f"{share * 2.7:.0f}"), key="map", on_select="rerun", theme=None)


body()
"""
TITLE = "Number(document.querySelector('.st-key-map .js-plotly-plot')?._fullLayout?.title?.text)"

# After the next release of the mouse: milliseconds until each of `shows` is true, and painted: a message that is posted while a
# frame is made arrives when it is.
WAIT = """(...shows) => new Promise(resolve => {
    addEventListener('pointerup', () => {
        const begun = performance.now()
        const shown = show => new Promise(painted => {
            const after = new MessageChannel()
            after.port1.onmessage = () => painted(performance.now() - begun)
            const look = () => requestAnimationFrame(() => show() ? after.port2.postMessage(0) : look())
            look()
        })
        resolve(Promise.all(shows.map(shown)))
    }, {capture: true, once: true})
})"""
# Heads that the sentence says are off; and those that the map draws so.
SAID = "Number((document.querySelector('.st-key-say')?.innerText ?? '').match(/^[\\d,]+(?= of )/)?.[0])"
DRAWN = """(document.querySelector('.st-key-map .js-plotly-plot')?._fullLayout?.shapes ?? [])
    .filter(shape => shape.name === 'inactive').reduce((sum, shape) => sum + shape.path.split('M').length - 1, 0)"""
MEASURED = "document.querySelector('.st-key-say')?.innerText.includes('with their mean')"
PLACE = "document.querySelector('.st-key-order_strip')?.innerText"
AT_REST = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
WORKING = "[...document.querySelectorAll('[class*=st-key-working]')]"
COUNTS_UP = f"{WORKING}.some(line => line.innerText.includes('so far'))"


def bare_rows(url: str, context: BrowserContext) -> list[float]:
    """Seconds of each release on the page of BARE."""
    page = context.new_page()
    page.goto(url)
    page.wait_for_function(f"{TITLE} === 54", timeout=PATIENCE)
    took = []
    for number in range(RELEASES):
        before = said_now(page)
        new = f"{SAID} !== {before} && {TITLE} === {SAID}"
        took += release(page, (12.0, 20.0, 24.0, 16.0, 8.0)[number % 5], new)
    page.close()
    return took


def rows(url: str, context: BrowserContext, bare: list[float]) -> list[Row]:
    """Medians, and the 95th percentile of what is measured already; the text is the page's own, 16 × 512 tokens.

    bare: seconds of each release on a page that does nothing else
    """
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
        before = said_now(page)
        new = f"{SAID} !== {before} && {MEASURED} && {DRAWN} === {SAID}"
        repaints += release(page, known[number % len(known)], new)
    page.close()
    repaint = "slider release to sentence and map, measured before"
    found = {
        f"{repaint}, 95th percentile of {RELEASES}": (_late(repaints), SOON),
        f"{repaint}, median": (median(repaints), SOON),
        "slider release to its place by gradient, new set": (median(orders), SOON),
        "slider release to the first measured batch, new set, warm worker": (median(counts), BATCH),
    }
    streamlit = "Streamlit with a slider and a map"
    return [
        *(Row(case, took, "promised", promised, "s", 1.0) for case, (took, promised) in found.items()),
        Row(f"{repaint}, 95th percentile of {RELEASES}", _late(repaints), streamlit, _late(bare), "s"),
        Row(f"{repaint}, median", median(repaints), streamlit, median(bare), "s"),
    ]


def _late(times: list[float]) -> float:
    """The 95th percentile."""
    return quantiles(times, n=20)[-1]


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


def said_now(page: Page) -> int:
    """Heads that the sentence says are off, once the page is at rest and was looked at for a moment."""
    page.wait_for_timeout(LOOK)  # between the slider's own run and that of the page around it there is a gap
    page.wait_for_function(AT_REST, timeout=PATIENCE)
    return int(page.evaluate(SAID))


def settled(page: Page) -> None:
    """Wait until all of the position is measured and nothing is under way."""
    page.wait_for_function(
        f"{MEASURED} && !{WORKING}.length && document.querySelector({THUMB!r})", timeout=LONG
    )
